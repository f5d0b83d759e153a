"""Ed25519 keys that sign the ledger's checkpoints: made, read in the forms that people have them in, used.

No message shows any part of a private key.
"""

import binascii
import re
from base64 import b64decode

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from gateway.model.note import ED25519

_HEX = re.compile(r"[0-9a-fA-F]{64}")
_RAW = serialization.Encoding.Raw, serialization.PublicFormat.Raw


class BadKey(ValueError):
    """The text is no key of the kind that is wanted."""


class SealKey:
    """A private key. Its `repr` shows nothing of it."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        self.public = private.public_key().public_bytes(*_RAW)
        """32 bytes."""

    def sign(self, data: bytes) -> bytes:
        """64 bytes."""
        return self._private.sign(data)


def new_key() -> str:
    """A new private key, as PEM."""
    made = Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return made.private_bytes(*form).decode()


def seal_key(text: str) -> SealKey:
    """The private key in the text: PEM, or 64 hex digits.

    Raises: BadKey.
    """
    told = text.strip()
    if _HEX.fullmatch(told):
        return SealKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(told)))
    try:
        loaded = serialization.load_pem_private_key(told.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadKey("an Ed25519 private key is wanted, as PEM or as 64 hex digits") from None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise BadKey("a key of another kind than Ed25519 is given")
    return SealKey(loaded)


def public_key(text: str) -> bytes:
    """The public key in the text, 32 bytes: 64 hex digits, PEM, base64, or `name+id+base64` as tools for signed notes
    have it.

    Raises: BadKey.
    """
    told = text.strip()
    if _HEX.fullmatch(told):
        return bytes.fromhex(told)
    if told.startswith("-----"):
        return _from_pem(told)
    try:
        raw = b64decode(told.rpartition("+")[2] if told.count("+") >= 2 else told, validate=True)  # noqa: PLR2004
    except (binascii.Error, ValueError):
        raw = b""
    raw = raw.removeprefix(ED25519) if len(raw) == 33 else raw  # noqa: PLR2004 - algorithm and key
    if len(raw) != 32:  # noqa: PLR2004 - Ed25519
        raise BadKey("an Ed25519 public key is wanted: 64 hex digits, PEM, or `name+id+key`")
    return raw


def _from_pem(told: str) -> bytes:
    try:
        loaded = serialization.load_pem_public_key(told.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm):
        if "PRIVATE KEY" in told:
            raise BadKey("this is a private key; verifying takes the public one") from None
        raise BadKey("the PEM holds no public key") from None
    if not isinstance(loaded, Ed25519PublicKey):
        raise BadKey("a key of another kind than Ed25519 is given")
    return loaded.public_bytes(*_RAW)


def signed_by(public: bytes, signature: bytes, data: bytes) -> bool:
    """Whether the holder of that key signed the data."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, data)
    except InvalidSignature:
        return False
    return True
