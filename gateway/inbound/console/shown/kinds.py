"""(a tool's arguments) -> parts, each drawn as what it is: an edit, a statement, a command, a mail, or a plain tree."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from gateway.inbound.console.shown.diffs import Difference, difference
from gateway.inbound.console.shown.layers import Piece, Range, pieces, within
from gateway.inbound.console.shown.letters import odd, shown
from gateway.inbound.console.shown.links import addresses
from gateway.inbound.console.shown.long import Whole, cut
from gateway.inbound.console.shown.shell import command
from gateway.inbound.console.shown.sql import is_sql, statement
from gateway.inbound.console.shown.tree import Node, marked, pointed, tree

_PAIRS = (
    ("old_string", "new_string"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
    ("old_str", "new_str"),
    ("search", "replace"),
)
_PATHS = ("path", "file_path", "filePath", "filename", "file", "target_file", "uri")
_CONTENTS = ("content", "file_text", "contents", "text")
_STATEMENTS = ("sql", "query", "statement", "sql_query", "command")
_COMMANDS = ("command", "cmd", "commandLine", "command_line", "script", "bash")
_TO = ("to", "recipients", "recipient")
_BODIES = ("body", "text", "message", "html", "content", "body_text", "body_html")
_HEADS = ("from", "sender", *_TO, "cc", "bcc", "reply_to", "replyTo", "subject")

MAX_PATH = 1_000
"""Characters of a path; a longer text is shown as any other."""
MAX_HEADS = 50
"""Addresses of one mail that are drawn as such."""
MAX_EDITS = 50
"""Edits of one call that are drawn."""


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a file."""

    kind: ClassVar[str] = "edit"
    title: str
    path: tuple[Piece, ...]
    change: Difference
    note: str = ""
    whole: Whole | None = None
    """Where the new text was not drawn to its end."""


@dataclass(frozen=True, slots=True)
class Code:
    """A statement or a command line."""

    kind: ClassVar[str] = "code"
    title: str
    head: tuple[Piece, ...]
    tail: tuple[Piece, ...] = ()
    whole: Whole | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail, as it will look."""

    kind: ClassVar[str] = "mail"
    heads: tuple[tuple[str, tuple[tuple[Piece, ...], ...]], ...]
    """Each with its values."""
    body: tuple[Piece, ...]
    tail: tuple[Piece, ...] = ()
    whole: Whole | None = None
    source: bool = False
    """The body is the source of a page, which is shown as such."""


@dataclass(frozen=True, slots=True)
class Values:
    """Whatever else there is."""

    kind: ClassVar[str] = "values"
    title: str
    nodes: tuple[Node, ...]


Part: TypeAlias = Edit | Code | Mail | Values


@dataclass
class _Left:
    """The arguments that nothing has drawn yet."""

    values: dict[str, Any]
    parts: list[Part] = field(default_factory=list)

    def draw(self, part: Part, *names: str) -> None:
        self.parts.append(part)
        for name in names:
            self.values.pop(name, None)

    def first(self, names: Sequence[str], kind: type = str) -> str | None:
        return next((one for one in names if isinstance(self.values.get(one), kind)), None)

    def path(self) -> str | None:
        """The argument that names a file; none where that is no name."""
        name = self.first(_PATHS)
        return name if name is not None and len(self.values[name]) <= MAX_PATH else None


def parts_of(arguments: Mapping[str, Any]) -> tuple[Part, ...]:
    """Every argument is in exactly one part; what is recognised as nothing in particular stands in a tree, last."""
    left = _Left(dict(arguments))
    for draw in (_edits, _replacement, _mail, _written, _code):
        draw(left)
    if left.values or not left.parts:
        title = "All other arguments" if left.parts else "Arguments"
        left.parts.append(Values(title, tree(left.values)))
    return tuple(left.parts)


# --- files ------------------------------------------------------------------------------------------------------------


def _edits(left: _Left) -> None:
    """`edits: [{oldText, newText}, …]`."""
    edits = left.values.get("edits")
    if not isinstance(edits, list) or not edits or len(edits) > MAX_EDITS:
        return
    pairs = [_pair(one) for one in edits]
    found = [pair for pair in pairs if pair is not None]
    if len(found) != len(edits):
        return
    path = left.path()
    for at, (old, new) in enumerate(found):
        title = f"Edit {at + 1} of {len(found)}" if len(found) > 1 else "Edit"
        left.parts.append(_edit(title, _path(left, path), old, new, f"/edits/{at}", share=len(found)))
    for name in ("edits", *([path] if path else [])):
        left.values.pop(name, None)


def _pair(edit: object) -> tuple[str, str] | None:
    """Old and new text, if the edit has nothing else."""
    if not isinstance(edit, dict):
        return None
    for old, new in _PAIRS:
        if set(edit) == {old, new} and all(isinstance(one, str) for one in edit.values()):
            return edit[old], edit[new]
    return None


def _replacement(left: _Left) -> None:
    """`old_string`, `new_string`."""
    for old, new in _PAIRS:
        before, after = left.values.get(old), left.values.get(new)
        if isinstance(before, str) and isinstance(after, str):
            path = left.path()
            part = _edit("Edit", _path(left, path), before, after, f"/{pointed(new)}")
            left.draw(part, old, new, *([path] if path else []))
            return


def _written(left: _Left) -> None:
    """`path` and `content`: a file that is written as a whole."""
    path, content = left.path(), left.first(_CONTENTS)
    if path is None or content is None:
        return
    note = "the whole file is written; what it holds now is not known here"
    part = _edit("File", _path(left, path), "", left.values[content], f"/{pointed(content)}", note)
    left.draw(part, path, content)


def _path(left: _Left, name: str | None) -> tuple[Piece, ...]:
    return shown(str(left.values[name]), strict=True) if name else ()


def _edit(title: str, path: tuple[Piece, ...], old: str, new: str, at: str, note: str = "", *, share: int = 1) -> Edit:
    change = difference(old, new, share)
    longest = any(row.left_out for row in change.rows if row.sign != "…")
    whole = cut(new, at, head=1, tail=1).whole if change.left_out or longest else None
    if not new:
        note = note or "the text is removed"
    return Edit(title, path, change, note, whole)


# --- what runs --------------------------------------------------------------------------------------------------------


def _code(left: _Left) -> None:
    statements = [name for name in _STATEMENTS if isinstance(left.values.get(name), str)]
    for name in statements:
        text = left.values[name]
        if is_sql(text):
            left.draw(_drawn(f"SQL, in {name}", text, f"/{name}", statement), name)
    for name in _COMMANDS:
        text = left.values.get(name)
        if isinstance(text, str) and text.strip():
            left.draw(_drawn(f"Command, in {name}", text, f"/{name}", command), name)


Looked: TypeAlias = Callable[[str], tuple[tuple[Range, ...], tuple[str, ...]]]


def _drawn(title: str, text: str, at: str, look: Looked) -> Code:
    ranges, warned = look(text)
    part = cut(text, at)
    head = pieces(part.head, odd(part.head, strict=True), within(ranges, 0, len(part.head)), addresses(part.head))
    start = len(text) - len(part.tail)
    tail = pieces(part.tail, odd(part.tail, strict=True), within(ranges, start, len(text)), addresses(part.tail))
    return Code(title, head, tail, part.whole, warned)


# --- mail -------------------------------------------------------------------------------------------------------------


def _mail(left: _Left) -> None:
    body = left.first(_BODIES)
    if left.first(("subject",)) is None or left.first(_TO, (str, list)) is None or body is None:  # type: ignore[arg-type]
        return
    named = [name for name in _HEADS if name in left.values]
    heads = tuple((name, tuple(_addresses(left.values[name]))) for name in named)
    if any(not 0 < len(values) <= MAX_HEADS for _, values in heads):
        return
    text = left.values[body]
    part = cut(text, f"/{body}")
    source = "html" in body.lower() or text.lstrip()[:1] == "<"
    left.draw(Mail(heads, marked(part.head), marked(part.tail), part.whole, source), body, *named)


def _addresses(value: object) -> Iterator[tuple[Piece, ...]]:
    values = value if isinstance(value, list) else [value]
    texts = [one for one in values if isinstance(one, str) and len(one) <= MAX_PATH]
    if len(texts) == len(values):
        yield from (shown(one, strict=True) for one in texts)
