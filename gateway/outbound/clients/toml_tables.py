"""TOML -> values, and the spans of its tables. `tomllib` judges the file; here is only found where its pieces stand."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.model.flaws import Place
from gateway.outbound.clients.sheet import Edit, Text, Unusable, edited, whole_lines

_PIECE = re.compile(
    r'(?P<string>"""(?:[^\\]|\\.)*?"""+|\'\'\'.*?\'\'\'+|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\')'
    r"|(?P<comment>#[^\n]*)|(?P<open>[\[{])|(?P<close>[\]}])|(?P<newline>\n)|[^\"'#\[\]{}\n]+",
    re.DOTALL,
)


LONGEST_KEY = 256
"""Characters in which the key of an inline table is looked for."""


class Statement(NamedTuple):
    """A `[table]` or a `key = value` of the file, without what stands behind it on the line."""

    start: int
    end: int
    table: Place
    """In which it stands, or which it opens."""
    key: str | None
    """The first of its keys; None if it opens a table."""


@dataclass(slots=True)
class TomlSheet:
    """A parsed file."""

    source: str
    value: Any
    texts: list[Text] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)

    def fixed(self, place: Place) -> str | None:
        """An entry that is no table of its own."""
        for one in self.statements:
            whole = (*one.table, one.key) if one.key is not None else ()
            if len(one.table) < len(place) and whole and whole == place[: len(whole)]:
                return f"it is no table of its own; write it as `[{'.'.join(str(step) for step in place)}]`"
        return None

    def moved(self, root: Place, names: Collection[str], name: str, entry: Mapping[str, Any]) -> str:
        """See `Sheet`."""
        spans = list(self._spans(root, names))
        newline = "\r\n" if "\r\n" in self.source else "\n"
        edits = [whole_lines(self.source, *span) for span in spans[:-1]]
        edits.append(Edit(*spans[-1], as_table((*root, name), entry).replace("\n", newline)))
        return edited(self.source, edits)

    def _spans(self, root: Place, names: Collection[str]) -> Iterator[tuple[int, int]]:
        """Of each table that belongs to the entries: from its head to the last of its keys."""
        mine: tuple[int, int] | None = None
        for one in self.statements:
            if one.key is None:
                if mine:
                    yield mine
                depth = len(root)
                ours = one.table[:depth] == root and len(one.table) > depth and one.table[depth] in names
                mine = (one.start, one.end) if ours else None
            elif mine:
                mine = (mine[0], one.end)
        if mine:
            yield mine


def read(source: str) -> TomlSheet:
    """The file's values, with their spans.

    Raises: Unusable, with line and column.
    """
    bare = source.removeprefix("\ufeff")
    try:
        value = tomllib.loads(bare.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        raise Unusable(f" {str(error)[:120].lower()}") from None
    sheet = TomlSheet(source, value)
    _Walk(sheet).walk(len(source) - len(bare))
    return sheet


class _Walk:
    """Over a file that is known to be TOML."""

    def __init__(self, sheet: TomlSheet) -> None:
        self.sheet = sheet
        self.source = sheet.source
        self.table: Place = ()

    def walk(self, at: int) -> None:
        while at < len(self.source):
            end, ink, strings = self._line(at)
            start = at + len(self.source[at:end]) - len(self.source[at:end].lstrip())
            if ink > start and self.source[start] != "#":
                self._statement(start, ink, strings)
            at = end

    def _line(self, at: int) -> tuple[int, int, list[tuple[int, int]]]:
        """Where the logical line ends, where the last of its ink does, and the strings in it."""
        depth, ink, strings = 0, at, []
        while at < len(self.source):
            piece = _PIECE.match(self.source, at)
            assert piece is not None  # noqa: S101 - INVARIANT: the file is TOML
            at = piece.end()
            match piece.lastgroup:
                case "newline" if depth == 0:
                    break
                case "open" | "close":
                    depth += 1 if piece.lastgroup == "open" else -1
                    ink = at
                case "string":
                    strings.append(piece.span())
                    ink = at
                case None:
                    ink = piece.start() + len(piece[0].rstrip()) if piece[0].strip() else ink
                case _:
                    pass
        return at, ink, strings

    def _statement(self, start: int, end: int, strings: list[tuple[int, int]]) -> None:
        written = self.source[start:end].replace("\r\n", "\n")
        if written.startswith("["):
            self.table = tuple(_path(tomllib.loads(written)))
            self.sheet.statements.append(Statement(start, end, self.table, None))
            return
        keys = list(_path(tomllib.loads(written)))
        self.sheet.statements.append(Statement(start, end, self.table, str(keys[0])))
        value_at = start + _equals(written)
        for begun, ended in strings:
            if begun >= value_at and not self.source[ended:end].lstrip(" \t").startswith("="):
                text = tomllib.loads(f"a = {self.source[begun:ended]}".replace("\r\n", "\n"))["a"]
                place = (*self.table, *keys, *_inline_key(self.source[max(value_at, begun - LONGEST_KEY) : begun]))
                self.sheet.texts.append(Text(begun, ended, place, text))


def _path(value: Any) -> Iterator[str]:
    """The keys down to the first value that is more than one key: of a head, all of them."""
    while isinstance(value, dict | list) and len(value) == 1:
        if isinstance(value, list):
            value = value[0]
        else:
            ((key, value),) = value.items()
            yield key


def _equals(statement: str) -> int:
    return next((one.end() for one in re.finditer(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|(=)', statement) if one[1]), 0)


def _inline_key(before: str) -> tuple[str, ...]:
    """The key within an inline table whose value follows."""
    found = re.search(r'(?:"([^"]*)"|\'([^\']*)\'|([A-Za-z0-9_.-]+))\s*=\s*$', before)
    return (str(found[found.lastindex or 0]),) if found else ()


def as_table(place: Place, entry: Mapping[str, Any]) -> str:
    """The entry as a table of texts, lists of texts and mappings of texts."""
    head = ".".join(str(step) for step in place)
    return "\n".join([f"[{head}]", *(f"{key} = {_value(value)}" for key, value in entry.items())])


def _value(value: Any) -> str:
    if isinstance(value, Mapping):
        pairs = (f"{json.dumps(key)} = {_value(item)}" for key, item in value.items())
        return f"{{ {', '.join(pairs)} }}"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
