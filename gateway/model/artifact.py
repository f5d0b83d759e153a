"""`gateway://artifact/ATTEMPT/…`: the recorded answer of an attempt, or a part of it, and which range of that.

The answer is no copy: it is the payload that its receipt cites. What follows the attempt is a JSON pointer into it
[RFC 6901], each part spelled as an address wants it [RFC 3986], then perhaps the range: `?from=0&bytes=65536`, or
`?line=1&lines=200`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, quote, unquote

PREFIX = "gateway://artifact/"
TEMPLATE = PREFIX + "{attempt}{/at*}{?from,bytes,line,lines}"
"""[RFC 6570]"""

MAX_ADDRESS = 4_096
"""Characters of an address."""


class BadAddress(ValueError):
    """It names no artifact; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """What of which answer."""

    attempt: str
    at: tuple[str, ...] = ()
    """Where in the answer: names of members and places in lists; all of it for none."""
    start: int = 0
    """Its first byte."""
    most: int | None = None
    """How many bytes; as many as are told at once where not said."""
    line: int | None = None
    """In place of `start`: its first line, from 1."""
    lines: int | None = None
    """How many lines."""

    def __str__(self) -> str:
        place = "/".join(quote(part, safe="") for part in (self.attempt, *map(_escaped, self.at)))
        said = {"line": self.line, "lines": self.lines, "from": self.start or None, "bytes": self.most}
        query = "&".join(f"{name}={value}" for name, value in said.items() if value is not None)
        return f"{PREFIX}{place}{'?' if query else ''}{query}"

    @property
    def pointer(self) -> str:
        """Where in the answer, as a JSON pointer."""
        return "".join(f"/{_escaped(part)}" for part in self.at)

    def part(self, *at: str | int) -> "Artifact":
        """A part of it, from its beginning."""
        return Artifact(self.attempt, (*self.at, *map(str, at)))

    def following(self, start: int) -> "Artifact":
        """As much again, from there on."""
        return replace(self, start=start, line=None, lines=None)


class Unreadable(Exception):
    """It is there, and cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of a recorded answer."""

    of: Artifact
    """What was asked for."""
    mime: str
    body: bytes
    binary: bool
    start: int
    whole: int
    """Bytes of all of it."""
    following: Artifact | None
    """What comes after it; None at the end."""
    label: Mapping[str, Any] = field(default_factory=dict)
    """What our record of the answer says of its content: `trust` and `hidden`, where there is something to say."""

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.start + len(self.body)


def artifact_of(address: str) -> Artifact:
    """What the address names, which begins as one of ours.

    Raises: BadAddress.
    """
    if len(address) > MAX_ADDRESS:
        raise BadAddress(f"the address is longer than {MAX_ADDRESS} characters")
    place, _, query = address.removeprefix(PREFIX).partition("?")
    attempt, *at = (unquote(part) for part in place.split("/"))
    asked = _numbers(query)
    if "line" in asked and "from" in asked:
        raise BadAddress("the address says both `from` and `line`; say one of them")
    if "lines" in asked and "line" not in asked:
        raise BadAddress("the address says `lines` without `line`; say from which line on")
    most = asked.get("bytes")
    return Artifact(attempt, tuple(map(_plain, at)), asked.get("from", 0), most, asked.get("line"), asked.get("lines"))


_LEAST = {"from": 0, "bytes": 1, "line": 1, "lines": 1}


def _numbers(query: str) -> Mapping[str, int]:
    asked: dict[str, int] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name not in _LEAST or name in asked:
            raise BadAddress("the address may say each of `from`, `bytes`, `line` and `lines` once, and nothing else")
        if not (value.isascii() and value.isdigit() and len(value) <= 15 and int(value) >= _LEAST[name]):  # noqa: PLR2004 - beyond any length
            raise BadAddress(f"`{name}` must be a number, at least {_LEAST[name]}")
        asked[name] = int(value)
    return asked


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")


def _plain(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
