"""JSON as clients write it -> values with their spans: comments, commas before a closing bracket, a byte order mark.

A key that stands twice is refused: two readers would take two things from it.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from gateway.model.flaws import Place
from gateway.outbound.clients.sheet import Edit, Text, Unusable, edited, line_column, whole_lines

MAX_DEPTH = 100

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d{0,4000})(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null")


@dataclass(frozen=True, slots=True)
class Member:
    """One `"key": value` of an object."""

    start: int
    end: int
    value_start: int
    comma: int | None
    """Where the comma behind it stands."""


@dataclass(slots=True)
class JsonSheet:
    """A parsed file [RFC 8259, and what editors allow beyond it]."""

    source: str
    value: Any = None
    texts: list[Text] = field(default_factory=list)
    members: dict[Place, dict[str, Member]] = field(default_factory=dict)
    """Of the object at each place, in their order."""

    def fixed(self, place: Place) -> str | None:  # noqa: ARG002 - a member can always be cut out
        """Nothing is."""
        return None

    def moved(self, root: Place, names: Collection[str], name: str, entry: Mapping[str, Any]) -> str:
        """See `Sheet`."""
        gone = [member for key, member in self.members[root].items() if key in names]
        last = gone[-1]  # so that the comma behind it, or that there is none, is right for what comes in its place
        edits = [Edit(last.start, last.end, self._member(last, name, entry))]
        for member in gone[:-1]:
            assert member.comma is not None  # noqa: S101 - INVARIANT: another follows
            if not self.source[member.end : member.comma].strip():
                edits.append(whole_lines(self.source, member.start, member.comma + 1))
            else:  # a comment stands before the comma, and is kept
                edits += [Edit(member.start, member.end, ""), Edit(member.comma, member.comma + 1, "")]
        return edited(self.source, edits)

    def _member(self, old: Member, name: str, entry: Mapping[str, Any]) -> str:
        """The new member in the manner of the old one."""
        begins = self.source.rfind("\n", 0, old.start) + 1
        margin = self.source[begins : old.start]
        key = json.dumps(name, ensure_ascii=False)
        if margin.strip(" \t"):  # several on one line
            return f"{key}: {json.dumps(entry, ensure_ascii=False)}"
        unit = re.search(r"\n([ \t]+)\S", self.source)
        body = json.dumps(entry, ensure_ascii=False, indent=unit[1] if unit else 2)
        newline = "\r\n" if "\r\n" in self.source else "\n"
        return f"{key}: {body}".replace("\n", newline + margin)


def read(source: str) -> JsonSheet:
    """The file's values, with their spans.

    Raises: Unusable, with line and column.
    """
    sheet = JsonSheet(source)
    return _Reader(source, sheet).read()


class _Reader:
    def __init__(self, source: str, sheet: JsonSheet) -> None:
        self.source = source
        self.sheet = sheet
        self.at = 0

    def read(self) -> JsonSheet:
        self._blank()
        if self.at == len(self.source):  # some clients make their file empty
            return self.sheet
        self.sheet.value = self._value(())
        self._blank()
        if self.at != len(self.source):
            self._refuse("nothing may stand behind the value")
        return self.sheet

    def _value(self, place: Place) -> Any:
        if len(place) > MAX_DEPTH:
            self._refuse(f"is nested deeper than {MAX_DEPTH} levels")
        start = self.at
        match self.source[start : start + 1]:
            case "{":
                return self._object(place)
            case "[":
                return self._array(place)
            case '"':
                text = self._string()
                self.sheet.texts.append(Text(start, self.at, place, text))
                return text
            case _:
                return json.loads(self._token(_SCALAR, "a value is wanted"))

    def _object(self, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        members = self.sheet.members[place] = {}
        self._open()
        while not self._closes("}"):
            start = self.at
            key = self._string()
            if key in found:
                self._refuse(f"the key `{key[:64]}` stands twice in one object", start)
            self._blank()
            self._expect(":", "a `:` is missing behind the key")
            self._blank()
            value_start = self.at
            found[key] = self._value((*place, key))
            members[key] = Member(start, self.at, value_start, self._comma("}"))
        self.at += 1
        return found

    def _array(self, place: Place) -> list[Any]:
        found: list[Any] = []
        self._open()
        while not self._closes("]"):
            found.append(self._value((*place, len(found))))
            self._comma("]")
        self.at += 1
        return found

    def _open(self) -> None:
        self.at += 1
        self._blank()

    def _closes(self, bracket: str) -> bool:
        return self.source.startswith(bracket, self.at)

    def _comma(self, bracket: str) -> int | None:
        """Where the comma stands; None where the bracket closes instead."""
        self._blank()
        if self._closes(bracket):
            return None
        at = self.at
        self._expect(",", f"a `,` or `{bracket}` is missing")
        self._blank()
        return at

    def _string(self) -> str:
        start = self.at
        token = self._token(_STRING, "a text in double quotes is wanted")
        try:
            text: str = json.loads(token, strict=False)
        except ValueError:
            self._refuse("the text holds an escape that JSON does not know", start)
        return text

    def _token(self, pattern: re.Pattern[str], wanted: str) -> str:
        found = pattern.match(self.source, self.at)
        if found is None:
            self._refuse(wanted)
        self.at = found.end()
        return found[0]

    def _expect(self, char: str, message: str) -> None:
        if not self.source.startswith(char, self.at):
            self._refuse(message)
        self.at += 1

    def _blank(self) -> None:
        found = _BLANK.match(self.source, self.at)
        assert found is not None  # noqa: S101 - INVARIANT: it matches nothing at all, too
        self.at = found.end()

    def _refuse(self, message: str, at: int | None = None) -> NoReturn:
        raise Unusable(f"{line_column(self.source, self.at if at is None else at)}: {message}")
