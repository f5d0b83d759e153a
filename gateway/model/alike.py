"""JSON in which 2000.0 is 2000: what most servers take for one value, and what must not happen twice as two.

Only for telling whether two calls are equal. What is approved, hashed and sent is exact, as it was spelled.
"""

from typing import Any

from gateway.model.canonical import Digest, canonical, digest

_EXACT = 2**53
"""Beyond it a float is not one whole number alone."""


def alike(value: Any) -> Any:
    """The value, each float that is a whole number as an integer."""
    match value:
        case float():
            return int(value) if value.is_integer() and abs(value) <= _EXACT else value
        case dict():
            return {key: alike(one) for key, one in value.items()}
        case list():
            return [alike(one) for one in value]
        case _:
            return value


def alike_digest(arguments: dict[str, Any], salt: bytes, spelled: bytes | None = None) -> Digest | None:
    """The digest of the arguments as `alike` has them, where that is another; `spelled` is their canonical form."""
    # Only a float that is a whole number is spelled so.
    if b".0" not in (canonical(arguments) if spelled is None else spelled):
        return None
    return digest(alike(arguments), salt)
