"""One strict parse, one spelling, one digest: what is hashed, approved, validated and sent is one value.

Parsers disagree about duplicate keys, NaN, huge numbers and broken Unicode, and whoever checks with
one parser and acts with another has approved something else [GHSA-4gph-2hhr-5mwg, CVE-2026-27896].
So what is not unambiguous JSON is refused here, before anything reads it.
"""

import hashlib
import json
import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NewType, TypeAlias

from gateway.model.plain import SORTED, read_plain, spell_plain

JsonObject: TypeAlias = dict[str, Any]

Digest = NewType("Digest", str)
"""`c1:` and 64 hex digits: the scheme of the canonical form, then HMAC-SHA256 under the ledger's salt."""

SCHEME = "c1"
"""Version of the canonical form below. A change of the form is a new scheme, never a new meaning of this one."""

MAX_DEPTH = 64
"""Brackets within brackets. json and msgspec die near 1,000, pydantic near 200; real calls stay below 20."""

_MAYBE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class NotStrictJson(ValueError):
    """The bytes are not unambiguous JSON; the message says why, in words that can be shown to a client."""


def parse(body: bytes | str, *, max_depth: int = MAX_DEPTH) -> Any:
    """The value that every reader of these bytes would agree on.

    Refused: what is not UTF-8 without a byte order mark, duplicate keys at any depth, NaN and
    infinities (also by overflow, `1e400`), lone surrogates, integers of more than 4,300 digits, and
    nesting beyond `max_depth`. Integers are exact at any size; floats stay floats.

    Raises: NotStrictJson.
    """
    raw = body.encode("utf-8", "surrogatepass") if isinstance(body, str) else body
    known = read_plain(raw, max_depth)
    return known if known is not None else parse_strictly(raw, max_depth)


def parse_strictly(raw: bytes, max_depth: int) -> Any:
    """As `parse`, which is this where it is not obvious.

    Raises: NotStrictJson.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise NotStrictJson("the body is not UTF-8") from None
    if text.startswith("\ufeff"):
        raise NotStrictJson("the body starts with a byte order mark")
    try:
        value = _DECODER.decode(text)
    except NotStrictJson:
        raise
    except RecursionError:
        raise NotStrictJson(f"nested deeper than {max_depth} levels") from None
    except json.JSONDecodeError as error:
        raise NotStrictJson(f"not JSON: {error.msg.lower()} at character {error.pos}") from None
    except ValueError:
        raise NotStrictJson("a number has more digits than 4300") from None
    if raw.count(b"[") + raw.count(b"{") > max_depth and _deeper_than(value, max_depth):
        raise NotStrictJson(f"nested deeper than {max_depth} levels")
    if _MAYBE_SURROGATE.search(raw):
        _refuse_lone_surrogates(value)
    return value


def canonical(value: Any) -> bytes:
    """The one spelling of a JSON value: keys by code point, integers exact, floats by shortest round trip.

    A float is never spelled like an integer, so 1 and 1.0 are two values (the safe side: an approval
    for one does not cover the other). Plain RFC 8785 rounds or refuses integers beyond 2^53.

    Raises: NotStrictJson for what `parse` would not have returned (NaN, lone surrogates, other types).
    """
    known = spell_plain(value, SORTED)
    return known if known is not None else spell_strictly(value)


def spell_strictly(value: Any) -> bytes:
    """As `canonical`, which is this where it is not obvious.

    Raises: NotStrictJson.
    """
    try:
        return _ENCODER.encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotStrictJson(f"no canonical form: {error}") from None


def digest(value: Any, salt: bytes) -> Digest:
    """What cites `value` without showing it: equal values, and only they, have equal digests under one salt."""
    return digest_bytes(canonical(value), salt)


def digest_bytes(body: bytes, salt: bytes) -> Digest:
    """As `digest`, of bytes that are already in canonical form."""
    inner, outer = (half.copy() for half in _keyed(salt))
    inner.update(body)
    outer.update(inner.digest())
    return Digest(f"{SCHEME}:{outer.hexdigest()}")


@lru_cache(maxsize=16)
def _keyed(salt: bytes) -> "tuple[hashlib._Hash, hashlib._Hash]":
    """The two halves of HMAC-SHA256 under this salt, to be copied [RFC 2104, 4]: a fifth of the CPU of `hmac`, which
    looks its algorithm up in OpenSSL each time.
    """
    key = (salt if len(salt) <= _BLOCK else hashlib.sha256(salt).digest()).ljust(_BLOCK, b"\0")
    return hashlib.sha256(bytes(byte ^ 0x36 for byte in key)), hashlib.sha256(bytes(byte ^ 0x5C for byte in key))


_BLOCK = 64
"""Bytes of SHA-256's."""


def dump(value: Any) -> str:
    """JSON text for the wire: key order kept, numbers as they were parsed, never NaN."""
    known = spell_plain(value)
    return known.decode() if known is not None else _WIRE.encode(value)


def dump_bytes(value: Any) -> bytes:
    """As `dump`, in UTF-8. Raises: ValueError, TypeError for what `parse` would not have returned."""
    known = spell_plain(value)
    return known if known is not None else _WIRE.encode(value).encode()


def one_line(text: bytes) -> bytes:
    """The same JSON, in which no character ends a line: for some readers of lines U+0085, U+2028 and U+2029 do."""
    if text.isascii():
        return text
    for character, escape in _LINE_ENDS:
        text = text.replace(character, escape)
    return text


_LINE_ENDS = tuple((char.encode(), b"\\u%04x" % ord(char)) for char in "\x85\u2028\u2029")

_WIRE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)

# Cycles are found by the depth of the recursion, which costs nothing where there are none.
_ENCODER = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen = dict(pairs)
    if len(seen) != len(pairs):
        left = dict(pairs)
        # Each name is looked for once: whoever sends many must not make the refusal cost their square.
        twice = next(name for name, _ in pairs if left.pop(name, seen) is seen)
        raise NotStrictJson(f"the key `{twice[:64]}` stands twice in one object")
    return seen


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise NotStrictJson(f"the number `{text[:32]}` is too large")
    return value


def _constant(name: str) -> Any:
    raise NotStrictJson(f"`{name}` is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)


def _deeper_than(value: Any, levels: int) -> bool:
    layer: list[Any] = [value]
    for _ in range(levels):
        layer = [child for item in layer for child in _children(item)]
        if not layer:
            return False
    return True


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return (child for child in value.values() if isinstance(child, dict | list))
    return (child for child in value if isinstance(child, dict | list))


def _refuse_lone_surrogates(value: Any) -> None:
    try:
        dump(value).encode("utf-8")
    except UnicodeEncodeError:
        raise NotStrictJson("a string holds half of a surrogate pair") from None
