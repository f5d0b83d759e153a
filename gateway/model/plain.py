"""Plain JSON, fast: what any two good codecs read and spell alike. For all else there is no answer here, and the slow
way of `canonical`, which defines what is right, is taken.

orjson takes a tenth of the standard library's CPU, and less of a long string's. It differs in floats (how they are
spelled, what becomes of NaN, that an integer beyond 64 bits is read as one) and takes duplicate keys; so where there
is a float, or where it is not certain that no key stands twice, this has no answer.
"""

from typing import Any, TypeAlias

import orjson

Container: TypeAlias = dict[str, Any] | list[Any]

_LEAVES = frozenset({str, int, bool, type(None)})
"""Exactly these: a subclass may spell itself in another way."""


def read_plain(raw: bytes, max_depth: int) -> Container | None:
    """The one value that these bytes can be; None if that is not certain. Never raises."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None  # or perhaps nothing is wrong; but then it is no matter of speed
    keys = _keys_of(value, max_depth)
    if keys is None:
        return None
    # INVARIANT: of a key that stands twice the value knows one, so it has fewer keys than the text, which has no more
    # than either of these.
    return value if keys == raw.count(b":") or keys == _most_keys(raw) else None


def spell_plain(value: Any, option: int = 0) -> bytes | None:
    """The one spelling of the value without any space; None if that is not certain. Never raises."""
    if _keys_of(value, _DEEP) is None:
        return None
    try:
        return orjson.dumps(value, option=option)
    except orjson.JSONEncodeError:  # large integers, surrogates, keys that are no strings
        return None


SORTED = orjson.OPT_SORT_KEYS
"""Keys by code point: in UTF-8 that is the order of the bytes."""

_DEEP = 200
"""orjson writes no deeper than 254 levels."""


def _most_keys(raw: bytes) -> int:
    """No less than the keys in this valid JSON text: colons after a quote that is not surely an escaped one, or after
    white space. Most colons within strings, those of addresses and of JSON as text, are none of these.
    """
    quoted = raw.count(b'":') - raw.count(b'\\":') + raw.count(b'\\\\":')
    return quoted + raw.count(b" :") + raw.count(b"\n:") + raw.count(b"\t:") + raw.count(b"\r:")


def _keys_of(value: Any, max_depth: int) -> int | None:
    """How many keys there are in it, at any depth. None if it is deeper, no container, or holds what is not plain."""
    if type(value) is not dict and type(value) is not list:
        return None
    keys, layer = 0, [value]
    for _ in range(max_depth):
        below: list[Any] = []
        for part in layer:
            if type(part) is dict:
                keys += len(part)
                children: Any = part.values()
            else:
                children = part
            for child in children:
                kind = type(child)
                if kind is str:
                    continue
                if kind is dict or kind is list:
                    below.append(child)
                elif kind not in _LEAVES:
                    return None
        if not below:
            return keys
        layer = below
    return None
