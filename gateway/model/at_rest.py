"""How a payload lies in the store, where that is not as it was: encrypted, or as a copy without its secrets.

It is filed under the digest of what was said, either way: so chain, deduplication and what cites it stay as they are.
A payload as it was is canonical JSON, which begins with no NUL.
"""

_ENCRYPTED = b"\0E1"
_REDACTED = b"\0R1"
KEY_ID_BYTES = 8


def encrypted(key_id: bytes, sealed: bytes) -> bytes:
    """What is stored of a payload that a key with that id sealed."""
    return _ENCRYPTED + key_id + sealed


def sealed_by(stored: bytes) -> bytes | None:
    """The id of the key that it needs; None where it is not encrypted."""
    return stored[len(_ENCRYPTED) :][:KEY_ID_BYTES] if stored.startswith(_ENCRYPTED) else None


def sealed_in(stored: bytes) -> bytes:
    """What `encrypted` was given."""
    return stored[len(_ENCRYPTED) + KEY_ID_BYTES :]


def redacted(copy: bytes) -> bytes:
    """What is stored of a payload whose secrets were not to be: the canonical form of the copy without them."""
    return _REDACTED + copy


def redacted_copy(stored: bytes) -> bytes | None:
    """The copy; None where the payload is stored as it was."""
    return stored[len(_REDACTED) :] if stored.startswith(_REDACTED) else None


def bound(key_id: bytes, about: str) -> bytes:
    """What is authenticated with what is encrypted: nobody can file a payload under another digest, or give a consent
    to another holder. `about` is that digest, or names that holder in words that are no digest.
    """
    return _ENCRYPTED + key_id + about.encode()
