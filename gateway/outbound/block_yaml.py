r"""Values -> YAML for people who review it: each text line by line, and nothing in it that is not seen.

A text of several lines is a literal block where that shows all of it. Where it would not (a character that leaves no
ink, spaces at a line's end, a line that runs out of sight) it is in double quotes, each such character spelled, and
the line broken by `\`, which is no part of the text.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.model.unseen import is_unseen, spelled_out

WIDTH = 100
"""Characters of a line, beside its indentation, that are in sight."""
SIMPLE_KEY = 200
"""Characters of a key that stands before its `:`; YAML itself takes 1,024."""

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})
"""What some reader takes for no text."""

_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}


def block_yaml(value: Mapping[str, Any], indent: int = 0) -> str:
    """The mapping in block style, in its own order."""
    return "".join(f"{line}\n" for line in _mapping(value, indent))


def _mapping(value: Mapping[str, Any], indent: int) -> Iterator[str]:
    margin = " " * indent
    for key, item in value.items():
        written = _key(key)
        if len(written) > SIMPLE_KEY:
            first, *more = _quoted(key, indent)
            yield f"{margin}? {first}"
            yield from more
            head = f"{margin}:"
        else:
            head = f"{margin}{written}:"
        yield from _under(head, item, indent)


def _under(head: str, item: Any, indent: int) -> Iterator[str]:
    """The value, beginning on the line that begins with `head`."""
    match item:
        case Mapping() if item:
            yield head
            yield from _mapping(item, indent + 2)
        case str():
            first, *more = _text(item, indent)
            yield f"{head} {first}"
            yield from more
        case Sequence() if item:
            yield head
            yield from _sequence(item, indent + 2)
        case _:
            yield f"{head} {_scalar(item)}"


def _sequence(items: Sequence[Any], indent: int) -> Iterator[str]:
    margin = " " * indent
    for item in items:
        if isinstance(item, Mapping | list) and item:
            inside = _mapping(item, indent + 2) if isinstance(item, Mapping) else _sequence(item, indent + 2)
            first = next(inside)
            yield f"{margin}- {first[indent + 2 :]}"
            yield from inside
        else:
            yield from _under(f"{margin}-", item, indent)


def _key(key: str) -> str:
    return key if _is_plain(key) else f'"{_escaped(key)}"'


def _is_plain(text: str) -> bool:
    return _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS


def _scalar(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case Mapping():
            return "{}"
        case _:
            return "[]"


def _text(text: str, indent: int) -> list[str]:
    """The lines of the scalar, the first without its margin."""
    if _is_plain(text):
        return [text]
    lines = text.removesuffix("\n").split("\n")
    if len(lines) > 1 and lines[0] and lines[-1] and not lines[0].startswith(" ") and all(map(_in_sight, lines)):
        margin = " " * (indent + 2)
        return ["|" if text.endswith("\n") else "|-", *(f"{margin}{line}" if line else "" for line in lines)]
    return _quoted(text, indent)


def _in_sight(line: str) -> bool:
    return len(line) <= WIDTH and not line.endswith(" ") and not any(map(is_unseen, line))


def _quoted(text: str, indent: int) -> list[str]:
    written = _escaped(text)
    if len(written) <= WIDTH and "\n" not in text:
        return [f'"{written}"']
    pieces = list(_pieces(text))
    margin = " " * (indent + 2)
    ends = ["\\"] * (len(pieces) - 1) + ['"']
    return ['"\\', *(f"{margin}{_begun(piece)}{end}" for piece, end in zip(pieces, ends, strict=True))]


def _begun(piece: str) -> str:
    r"""A space at the start of a continued line is none of the text's but by `\ `."""
    return f"\\{piece}" if piece.startswith(" ") else piece


def _pieces(text: str) -> Iterator[str]:
    """The text, escaped, in pieces of one line's width; each ends where a line of the text or a word does."""
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        piece: list[str] = []
        size = 0
        for word in re.findall(r" *[^ ]{1,80} ?| +", line):
            written = _escaped(word)
            if piece and size + len(written) > WIDTH:
                yield "".join(piece)
                piece, size = [], 0
            piece.append(written)
            size += len(written)
        yield "".join(piece)


def _escaped(text: str) -> str:
    plain = "".join(_NAMED.get(char, char) for char in text)
    return spelled_out(plain, _code)


def _code(char: str) -> str:
    code = ord(char)
    if code > 0xFFFF:  # noqa: PLR2004 - what \u can say
        return f"\\U{code:08x}"
    return f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"  # noqa: PLR2004 - what \x can say
