"""text -> plain values, each with its place in the file. YAML 1.2, and less of it.

What two readers could take for two things is a problem here, not a choice: a key that stands twice, anchors
and merges, tags, directives, `017`, `.nan`. All problems of a file are told, not only the first.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError

from gateway.model.flaws import Place
from gateway.model.unseen import spelled_out

MAX_BYTES = 1 << 20
"""A policy that nobody can read is no policy."""

MAX_DEPTH = 64


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """What is wrong, and where: shown as `file:line:column: path: message`."""

    file: str
    line: int
    """From 1."""
    column: int
    """From 1, in characters."""
    path: str
    """Keys and places from the root, joined by dots; empty for the root itself."""
    message: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        # In one line, whatever the file says: a key or a text may hold ends of lines, and codes of terminals.
        return spelled_out(f"{self.file}:{self.line}:{self.column}: {path}{self.message}")


class Problems(ValueError):
    """A file, or a folder of them, cannot be used; one line for each problem, in the order of the files."""

    def __init__(self, problems: Iterator[Problem] | list[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file as plain values, and where each of them stands."""

    file: str
    """As messages name it."""
    text: str
    value: Any
    nodes: Mapping[Place, Node] = field(repr=False)
    keys: Mapping[Place, Node] = field(repr=False)
    """The key under which the value at this place stands."""
    problems: tuple[Problem, ...] = ()
    """What is wrong with it as YAML."""

    def problem(
        self, place: Place, message: str, *, at_key: bool = False, within: tuple[int, int] | None = None
    ) -> Problem:
        """The problem, placed at the value or at its key, or at a line and column (from 1) within a text.

        A place that the file does not have stands for the nearest one around it.
        """
        path = ".".join(str(step) for step in place)
        while place and place not in self.nodes:
            place = place[:-1]
        node = self.nodes.get(place)
        if within is not None and isinstance(node, ScalarNode):
            line, column = _within(self.text, node, *within)
        else:
            line, column = self._start(place, node, at_key=at_key)
        return Problem(self.file, line, column, path, message)

    def _start(self, place: Place, node: Node | None, *, at_key: bool) -> tuple[int, int]:
        empty = node is None or node.start_mark.index == node.end_mark.index
        shown = self.keys.get(place) if at_key or empty else None
        shown = shown or node
        return (shown.start_mark.line + 1, shown.start_mark.column + 1) if shown else (1, 1)


def read(path: Path) -> Document:
    """The file's values.

    Raises: Problems if it cannot be read, or is no YAML at all.
    """
    try:
        body = content(path)
    except OSError as error:
        _refuse(str(path), unreadable(error))
    return document(body, str(path))


def content(path: Path) -> bytes:
    """What is in the file; of one that is too large, enough to tell.

    Raises: OSError.
    """
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def unreadable(error: OSError) -> str:
    """Why a file cannot be read."""
    return f"cannot be read: {(error.strerror or 'the system refuses').lower()}"


def document(body: bytes, file: str) -> Document:
    """The values of a file with this content.

    Raises: Problems if it is no YAML at all.
    """
    if len(body) > MAX_BYTES:
        _refuse(file, f"is larger than {MAX_BYTES >> 20} MiB")
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        _refuse(file, "is not UTF-8")
    return compose(text, file)


def compose(text: str, file: str) -> Document:
    """The text's values, with all that is wrong with it short of its syntax in `problems`.

    Raises: Problems if it is no YAML at all.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("%"):
        _refuse(file, "directives (`%`) are not allowed")
    yaml = YAML(typ="safe", pure=True)
    yaml.composer.warn_double_anchors = False  # no anchor is allowed at all
    try:
        root = yaml.compose(text)
    except MarkedYAMLError as error:
        begun = error.context_mark and any(piece in str(error.problem) for piece in _UNENDED)
        mark = error.context_mark if begun else error.problem_mark or error.context_mark
        line = text.split("\n")[mark.line] if mark and mark.line <= text.count("\n") else ""
        _refuse(file, _syntax(error, line), (mark.line + 1, mark.column + 1) if mark else (1, 1))
    except ReaderError as error:
        _refuse(file, "holds a character that YAML does not allow", _line_column(text, error.position))
    except (YAMLError, RecursionError):
        _refuse(file, "is no YAML, or nested too deep")
    if root is None:
        _refuse(file, "is empty")
    walk = _Walk(file)
    value = walk.value(root, ())
    return Document(file, text, value, walk.nodes, walk.keys, tuple(walk.problems))


def _refuse(file: str, message: str, at: tuple[int, int] = (1, 1)) -> NoReturn:
    raise Problems([Problem(file, *at, "", message)])


# --- values ---------------------------------------------------------------------------------------------------------

_CORE = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,4000})")
_FLOAT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)?(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?")


class _Walk:
    def __init__(self, file: str) -> None:
        self.file = file
        self.nodes: dict[Place, Node] = {}
        self.keys: dict[Place, Node] = {}
        self.problems: list[Problem] = []
        self._seen: set[int] = set()

    def value(self, node: Node, place: Place) -> Any:
        self.nodes[place] = node
        if id(node) in self._seen:
            return None  # an alias, of an anchor that has been told; followed, nine of them make a billion
        self._seen.add(id(node))
        if node.anchor is not None:
            self._note(node, place, _NO_ALIAS)
        if len(place) > MAX_DEPTH:
            self._note(node, place, f"is nested deeper than {MAX_DEPTH} levels")
            return None
        match node:
            case MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, place)
            case SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.value(item, (*place, index)) for index, item in enumerate(node.value)]
            case ScalarNode():
                return self._scalar(node, place)
            case _:
                return self._tagged(node, place)

    def _mapping(self, node: MappingNode, place: Place) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, item in node.value:
            if not isinstance(key, ScalarNode) or _tag(key) != "str" or not _is_text(key.value):
                merge = _tag(key) == "merge"
                self._note(key, place, "merges (`<<`) are not allowed" if merge else "a key is a text; quote it")
                continue
            name = key.value
            if name in found:
                first = self.keys[*place, name].start_mark.line + 1
                self._note(key, (*place, name), f"the key `{name}` stands here twice, first in line {first}")
                continue
            self.keys[*place, name] = key
            found[name] = self.value(item, (*place, name))
        return found

    def _scalar(self, node: ScalarNode, place: Place) -> Any:
        known = _SCALARS.get(_tag(node))
        if known is None:
            return self._tagged(node, place)
        try:
            return known(node.value)
        except _Odd as odd:
            return self._note(node, place, str(odd))

    def _tagged(self, node: Node, place: Place) -> None:
        tag = _tag(node)
        meant = "; a text that begins with `!` must be quoted" if tag.startswith("!") else ""
        self._note(node, place, f"the tag `{tag}` is not allowed{meant}")

    def _note(self, node: Node, place: Place, message: str) -> None:
        mark = node.start_mark
        path = ".".join(str(step) for step in place)
        self.problems.append(Problem(self.file, mark.line + 1, mark.column + 1, path, message))


def _tag(node: Node) -> str:
    return (node.tag or "").removeprefix(_CORE)


class _Odd(ValueError):
    pass


def _text(written: str) -> str:
    if not _is_text(written):
        raise _Odd("the text holds half of a surrogate pair")
    return written


def _is_text(written: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in written)


def _integer(written: str) -> int:
    if not _INTEGER.fullmatch(written):
        raise _Odd(f"`{written[:32]}` is not read alike everywhere; write a plain decimal number, or quote it")
    return int(written)


def _float(written: str) -> float:
    if not _FLOAT.fullmatch(written) or not math.isfinite(float(written)):
        raise _Odd(f"`{written[:32]}` is no finite decimal number; quote it if a text is meant")
    return float(written)


_SCALARS: Mapping[str, Callable[[str], Any]] = {
    "str": _text,
    "timestamp": _text,  # YAML 1.2 has no times, and neither has a policy
    "null": lambda _: None,
    "bool": lambda written: written.lower() == "true",
    "int": _integer,
    "float": _float,
}


# --- places ---------------------------------------------------------------------------------------------------------


def _line_column(text: str, index: int) -> tuple[int, int]:
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def _within(text: str, node: ScalarNode, line: int, column: int) -> tuple[int, int]:
    """Where in the file a place within a scalar's value stands, whatever the scalar's style.

    Styles differ in white space and in escapes only, so the n-th visible character is the n-th in the file.
    """
    lines = node.value.split("\n")
    offset = sum(len(before) + 1 for before in lines[: line - 1]) + column - 1
    visible = sum(not char.isspace() for char in node.value[:offset])
    start = node.start_mark.index
    ink = [start + index for index in _ink(text[start : node.end_mark.index], node.style)]
    if not ink:
        return _line_column(text, start)
    return _line_column(text, ink[visible] if visible < len(ink) else ink[-1] + 1)


_ESCAPED = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|\S", re.DOTALL)
_BLANK_ESCAPES = frozenset("nrtvfNLP_ \t\n")


def _ink(raw: str, style: str | None) -> Iterator[int]:
    """Where each visible character of the scalar's value stands in its source."""
    if style == '"':
        for found in _ESCAPED.finditer(raw, 1, len(raw) - 1):
            code = found[1]
            blank = code is not None and (chr(int(code[1:], 16)).isspace() if len(code) > 1 else code in _BLANK_ESCAPES)
            if not blank:
                yield found.start()
    elif style == "'":
        yield from (found.start() for found in re.compile(r"''|\S").finditer(raw, 1, len(raw) - 1))
    else:
        begin = raw.find("\n") + 1 if style in {"|", ">"} else 0
        yield from (found.start() for found in re.compile(r"\S").finditer(raw, begin))


_UNENDED = ("could not find expected ':'", "found unexpected end of stream")
"""Said of where it should have ended at last; of use is where it began."""

_NO_ALIAS = "anchors and aliases are not allowed; write it out"

_SYNTAX: tuple[tuple[str, str], ...] = (
    ("mapping values are not allowed", "a `:` is not allowed here; quote the text, or check the indentation"),
    ("found character '\\t'", "a tab cannot indent; use spaces"),
    ("could not find expected ':'", "a `:` is missing behind the key"),
    ("found '<scalar>'", "nothing may stand behind a closing quote; put quotes around the whole text"),
    ("expected <block end>", "this line is indented otherwise than those that it belongs to"),
    ("sequence entries are not allowed", "a list item is not allowed here; check the indentation"),
    ("found unexpected end of stream", "a quote is not closed"),
    ("but found another document", "a file holds one document; remove the `---`"),
    ("undefined alias", f"{_NO_ALIAS}, or quote a text that begins with `*`"),
    ("expected alphabetic or numeric character", f"{_NO_ALIAS}, or quote a text that begins with `*` or `&`"),
    ("expected ',' or ']'", "a `,` or `]` is missing"),
    ("expected ',' or '}'", "a `,` or `}` is missing"),
)
"""A piece of what the parser says, and what is said instead."""


_TAGGED = re.compile(r"(?:[-:,\[]\s*)![^\s'\"]")
"""A condition such as `!has(args.x, "y")`, of which YAML reads the first part as a tag and stumbles over the rest."""


def _syntax(error: MarkedYAMLError, line: str) -> str:
    """What is wrong, in plain words; `line` is where the parser noticed."""
    said = error.problem or "no YAML"
    if start := re.search(r"found character '(.)' that cannot start", said):
        return f"a text cannot start with `{start[1]}`; quote it"
    if ("expected <block end>" in said or "expected ','" in said) and _TAGGED.search(line):
        return "a text that begins with `!` must be quoted"
    return next((words for piece, words in _SYNTAX if piece in said), said.replace("'", "`"))
