"""What can be seen of an expression without values: its words, what it reads, and whether it is always one thing."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from gateway.kernel import condition_text
from gateway.kernel.conditions import BadCondition, Undecided, compile_condition
from gateway.model.flaws import Kind

Path: TypeAlias = tuple[str, ...]
"""`evidence.tests.verdict` is `("evidence", "tests", "verdict")`."""

_LITERALS = frozenset({"true", "false", "null", "in"})
_MACROS = frozenset({"has", "all", "exists", "exists_one", "filter", "map"})


@dataclass(frozen=True, slots=True)
class Token:
    """A word of an expression."""

    kind: str
    """`text`, `ticked`, `name`, `number` or `sign`."""
    spelled: str

    @property
    def text(self) -> str:
        """What a text says, where it has no escapes; else its spelling."""
        bare = self.spelled.lstrip("rRbB")
        quote = bare[:3] if bare[:3] in {'"""', "'''"} else bare[:1]
        return bare[len(quote) : -len(quote)]


@lru_cache(maxsize=4096)
def tokens(expression: str) -> tuple[Token, ...]:
    """The words of the expression, without comments."""
    kinds = {"raw": "text", "string": "text"}
    spelled = ((kind, expression[start:end]) for kind, start, end in condition_text.tokens(expression))
    return tuple(Token(kinds.get(kind, kind), word) for kind, word in spelled if kind != "blank")


def paths(expression: str) -> Iterator[tuple[Path, int, int]]:
    """What it reads, from a variable on, each with the place of its first token and of the one behind its last.

    A step that is not spelled out ends a path, and so does a call.
    """
    words = tokens(expression)
    at = 0
    while at < len(words):
        start = at
        at += 1
        if words[start].kind != "name" or _is(words, start - 1, ".") or _is(words, at, "("):
            continue
        if words[start].spelled in _LITERALS:
            continue
        path = [words[start].spelled]
        while step := _step(words, at):
            path.append(step[0])
            at = step[1]
        yield tuple(path), start, at


def _step(words: tuple[Token, ...], at: int) -> tuple[str, int] | None:
    if _is(words, at, ".") and at + 1 < len(words) and not _is(words, at + 2, "("):
        if words[at + 1].kind in {"name", "ticked"}:
            return words[at + 1].spelled.strip("`"), at + 2
        return None
    if _is(words, at, "[") and at + 1 < len(words) and words[at + 1].kind == "text" and _is(words, at + 2, "]"):
        return words[at + 1].text, at + 3
    return None


def _is(words: tuple[Token, ...], at: int, sign: str) -> bool:
    return 0 <= at < len(words) and words[at].kind == "sign" and words[at].spelled == sign


def read_from(expression: str, root: str) -> frozenset[str] | None:
    """The first steps from the variable `root` that are read; None if some are not spelled out."""
    found = [path for path, _, _ in paths(expression) if path[0] == root]
    if any(len(path) == 1 for path in found):
        return None
    return frozenset(path[1] for path in found)


def needed_evidence(expression: str) -> frozenset[str]:
    """Verifiers without whose evidence it cannot hold. Fewer than there are, where it is not certain."""
    found: set[str] = set()
    for part in _conjuncts(tokens(expression)):
        spelled = {token.spelled for token in part if token.kind != "text"}
        if spelled & ({"||", "?", "in"} | _MACROS) or {"!", "&&"} <= spelled:
            continue
        text = " ".join(token.spelled for token in part)
        found |= {path[1] for path, _, _ in paths(text) if path[0] == "evidence" and len(path) > 1}
    return frozenset(found)


def _conjuncts(words: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """The parts between the outermost `&&`; the whole, where an outermost `||` or `?` binds weaker."""
    depth = 0
    parts: list[tuple[Token, ...]] = []
    part: list[Token] = []
    for word in words:
        opened = word.kind == "sign"
        depth += (opened and word.spelled in "([{") - (opened and word.spelled in ")]}")
        if depth == 0 and opened and word.spelled in {"||", "?"}:
            return [words]
        if depth == 0 and opened and word.spelled == "&&":
            parts.append(tuple(part))
            part = []
        else:
            part.append(word)
    return [*parts, tuple(part)]


Fixed: TypeAlias = Literal["always", "never", "unjudgeable"]


@lru_cache(maxsize=4096)
def fixed(expression: str, kind: Kind) -> Fixed | None:
    """What it comes to whatever its variables are; None if that depends on them.

    Without values every variable is an error, and an error settles nothing: an answer that comes all the same, past
    a `||` or `&&`, comes with any values.
    """
    try:
        held = compile_condition(expression, kind).decide({})
    except BadCondition:
        return None
    if not isinstance(held, Undecided):
        return "always" if held else "never"
    free = {path[0] for path, _, _ in paths(expression)}
    return None if free else "unjudgeable"


def compared(expression: str) -> Iterator[tuple[Path, str]]:
    """Each path that is compared with a text, by `==`, `!=` or `in [...]`, and that text."""
    words = tokens(expression)
    for path, start, end in paths(expression):
        if _equals(words, end) and _text_at(words, end + 1):
            yield path, words[end + 1].text
        elif _equals(words, start - 1) and _text_at(words, start - 2):
            yield path, words[start - 2].text
        elif end < len(words) and words[end].spelled == "in" and _is(words, end + 1, "["):
            yield from ((path, text) for text in _items(words, end + 2))


def _equals(words: tuple[Token, ...], at: int) -> bool:
    return _is(words, at, "==") or _is(words, at, "!=")


def _text_at(words: tuple[Token, ...], at: int) -> bool:
    """A text that stands for itself: nothing is called on it, or added to it."""
    alone = 0 <= at < len(words) and words[at].kind == "text" and "\\" not in words[at].spelled
    return alone and not any(_is(words, beside, sign) for beside in (at - 1, at + 1) for sign in ".+[")


def _items(words: tuple[Token, ...], at: int) -> Iterator[str]:
    while at < len(words) and words[at].kind == "text" and (_is(words, at + 1, ",") or _is(words, at + 1, "]")):
        if "\\" not in words[at].spelled:
            yield words[at].text
        at += 2
