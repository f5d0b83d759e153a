"""Keys that encrypt payloads at rest: read in the forms that people have them in, named by an id, used.

AES-256-GCM with random nonces, so one key is good for 2^32 payloads [NIST SP 800-38D, 8.3]. The newest key encrypts,
all that are known decrypt: that is how keys are changed. No message shows any part of a key.
"""

import binascii
import os
import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from gateway.model.at_rest import KEY_ID_BYTES, bound, encrypted, sealed_by, sealed_in

KEY_BYTES = 32
NONCE_BYTES = 12
_HEX = re.compile(r"[0-9a-fA-F]{64}")

VARIABLE = "COUNTERFOIL_DATA_KEY"
"""Of the environment: keys for commands that read a ledger, parted by commas; each is a key or the path of its file."""


class BadPayloadKey(ValueError):
    """The text is no key of 32 bytes."""


class WrongKey(Exception):
    """What is stored was not encrypted with the key of that id, for that digest; or was changed since."""


def new_payload_key() -> str:
    """A new key, in hex."""
    return os.urandom(KEY_BYTES).hex()


def payload_key(text: str) -> bytes:
    """The key in the text: 64 hex digits, or 32 bytes in base64.

    Raises: BadPayloadKey.
    """
    told = text.strip()
    try:
        key = bytes.fromhex(told) if _HEX.fullmatch(told) else b64decode(told, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadPayloadKey("32 bytes are wanted, in hex or base64 (`counterfoil keygen --data`)")
    return key


def key_id(key: bytes) -> bytes:
    """What names the key beside what it encrypted. It tells nothing of a key that was drawn at random."""
    return sha256(b"counterfoil payload key\0" + key).digest()[:KEY_ID_BYTES]


class Keyring:
    """Keys of one ledger. Its `repr` shows nothing of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """The first one encrypts."""
        self._ciphers = {key_id(key): AESGCM(key) for key in keys}
        self._newest = key_id(keys[0]) if keys else None

    @property
    def ids(self) -> Sequence[str]:
        """Of its keys, in hex."""
        return [one.hex() for one in self._ciphers]

    def sealed(self, about: str, body: bytes) -> bytes:
        """What is stored of the payload of that digest, or of what else is kept (`bound`): as it is, where there is no
        key.
        """
        if self._newest is None:
            return body
        nonce = os.urandom(NONCE_BYTES)
        made = self._ciphers[self._newest].encrypt(nonce, body, bound(self._newest, about))
        return encrypted(self._newest, nonce + made)

    def opened(self, about: str, stored: bytes) -> bytes | None:
        """What was sealed; None where the key is not here. What is not encrypted is given back.

        Raises: WrongKey.
        """
        named = sealed_by(stored)
        if named is None:
            return stored
        if named not in self._ciphers:
            return None
        sealed = sealed_in(stored)
        try:
            return self._ciphers[named].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], bound(named, about))
        except (InvalidTag, ValueError):
            raise WrongKey from None


NO_KEYS = Keyring(())


def keyring_in(environ: Mapping[str, str]) -> Keyring:
    """The keys that `VARIABLE` names; none where it is unset or empty.

    Raises: BadPayloadKey.
    """
    told = [one.strip() for one in environ.get(VARIABLE, "").split(",") if one.strip()]
    return Keyring([payload_key(_text(one)) for one in told])


def _text(told: str) -> str:
    try:
        return Path(told).read_text(encoding="utf-8")
    except (OSError, ValueError):
        return told
