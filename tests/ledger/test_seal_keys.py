"""Keys that sign checkpoints, in the forms that people have them in."""

from base64 import b64encode

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from gateway.model.note import verifier_key
from gateway.outbound.seal_keys import BadKey, new_key, public_key, seal_key, signed_by

HEX = "11" * 32
PUBLIC = seal_key(HEX).public
PEM = (
    Ed25519PublicKey.from_public_bytes(PUBLIC)
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)
OTHER_KIND = x25519.X25519PrivateKey.generate()
OTHER_PRIVATE = OTHER_KIND.private_bytes(
    serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
).decode()
OTHER_PUBLIC = (
    OTHER_KIND.public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    .decode()
)


def test_a_new_key_signs_and_only_its_public_half_vouches_for_that() -> None:
    key, other = seal_key(new_key()), seal_key(new_key())
    signature = key.sign(b"data")
    assert signed_by(key.public, signature, b"data")
    assert not signed_by(key.public, signature, b"other data")
    assert not signed_by(other.public, signature, b"data")


@pytest.mark.parametrize(
    "text",
    [PUBLIC.hex(), PUBLIC.hex().upper() + "\n", PEM, b64encode(PUBLIC).decode(), verifier_key("name", PUBLIC)],
    ids=["hex", "HEX", "pem", "base64", "note"],
)
def test_a_public_key_is_taken_in_every_usual_form(text: str) -> None:
    assert public_key(text) == PUBLIC


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "an Ed25519 public key is wanted: 64 hex digits, PEM, or `name+id+key`"),
        ("11" * 31, "an Ed25519 public key is wanted: 64 hex digits, PEM, or `name+id+key`"),
        ("no key", "an Ed25519 public key is wanted: 64 hex digits, PEM, or `name+id+key`"),
        (new_key(), "this is a private key; verifying takes the public one"),
        ("-----BEGIN NOTHING-----", "the PEM holds no public key"),
        (OTHER_PUBLIC, "a key of another kind than Ed25519 is given"),
    ],
)
def test_what_is_no_public_key_is_refused(text: str, says: str) -> None:
    with pytest.raises(BadKey) as raised:
        public_key(text)
    assert str(raised.value) == says


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("secret", "an Ed25519 private key is wanted, as PEM or as 64 hex digits"),
        (PEM, "an Ed25519 private key is wanted, as PEM or as 64 hex digits"),
        (OTHER_PRIVATE, "a key of another kind than Ed25519 is given"),
    ],
)
def test_what_is_no_private_key_is_refused_and_not_shown(text: str, says: str) -> None:
    with pytest.raises(BadKey) as raised:
        seal_key(text)
    assert str(raised.value) == says


def test_a_private_key_is_never_shown() -> None:
    assert HEX not in repr(seal_key(HEX))
