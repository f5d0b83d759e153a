"""A CEL expression as text: where its literals are, and the same expression with every step spelled with a dot.

The engine knows no index on a message, so `args["amount"]` is checked as `args.amount`, and a name that no message
can have (`args["x-y"]`) under another one. Places in what is checked lead back to places in what was written.
"""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

Token: TypeAlias = tuple[str, int, int]
"""Its kind, and where it begins and ends."""

_TOKEN = re.compile(
    r'''
    (?P<blank>\s+|//[^\n]*)
    |(?P<raw>(?:[rR][bB]?|[bB][rR])(?:"""(?:[^"]|"(?!""))*"""|\'\'\'(?:[^']|'(?!''))*\'\'\'|"[^"\n]*"|'[^'\n]*'))
    |(?P<string>[bB]?(?:"""(?:\\.|[^"\\]|"(?!""))*"""|\'\'\'(?:\\.|[^'\\]|'(?!''))*\'\'\'
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<ticked>`[^`\n]*`)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<number>[0-9][A-Za-z0-9_.]*)
    |(?P<sign>&&|\|\||[=!<>]=|.)
    ''',
    re.VERBOSE | re.DOTALL,
)

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,3999}", re.ASCII)  # a longer one stands in no expression
_WORDS = frozenset({"in", "true", "false", "null"})
"""No names: before a bracket they begin a list, and after a dot they are refused."""


@dataclass(frozen=True, slots=True)
class Dotted:
    """An expression as it is checked."""

    text: str
    written: str
    starts: tuple[tuple[int, int, bool], ...]
    """Where a piece begins in `text` and in `written`, and whether it is spelled otherwise there."""

    def place(self, line: int, column: int) -> int:
        """Where in `written` the engine's place in `text` lies."""
        lines = self.text.split("\n")
        at = sum(len(one) + 1 for one in lines[: line - 1]) + column - 1
        here, there, changed = self.starts[max(0, bisect_right(self.starts, (at, len(self.written), True)) - 1)]
        return there if changed else min(there + at - here, len(self.written))


def field_name(name: str) -> str:
    """The name as a message may have it: itself wherever that is possible."""
    if _PLAIN.fullmatch(name) and name not in _WORDS:
        return name
    return f"u_{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def literals(expression: str) -> list[tuple[int, int]]:
    """Where the strings and comments of the expression are."""
    return [
        (start, end)
        for kind, start, end in tokens(expression)
        if kind in {"raw", "string"} or expression.startswith("//", start)
    ]


def dotted(expression: str) -> Dotted:
    """The expression with `.name` in place of each `["name"]` and `` .`name` `` that takes a field of something."""
    told = [token for token in tokens(expression) if token[0] != "blank"]
    text, starts, at = "", [(0, 0, False)], 0
    for (start, end), spelled in _steps(expression, told):
        text += expression[at:start]
        starts.append((len(text), start, True))
        text += spelled
        starts.append((len(text), end, False))
        at = end
    return Dotted(text + expression[at:], expression, tuple(starts))


def tokens(expression: str) -> Iterator[Token]:
    """All tokens in order: `blank` (comments too), `raw` and `string`, `ticked`, `name`, `number`, `sign`."""
    return ((found.lastgroup or "sign", *found.span()) for found in _TOKEN.finditer(expression))


def _steps(expression: str, told: list[Token]) -> Iterator[tuple[tuple[int, int], str]]:
    """What to spell otherwise, and how."""
    for before, (kind, start, end) in enumerate(told[1:]):
        if kind == "ticked" and _is(expression, told[before], "."):
            yield (start, end), field_name(expression[start + 1 : end - 1])
        if expression[start:end] != "[" or not _takes(expression, told[before]):
            continue
        inner = told[before + 2 : before + 4]
        if len(inner) == 2 and _is(expression, inner[1], "]"):  # noqa: PLR2004 - a name and the bracket behind it
            name = _name(inner[0][0], expression[inner[0][1] : inner[0][2]])
            if name is not None:
                yield (start, inner[1][2]), f".{field_name(name)}"


def _is(expression: str, token: Token, sign: str) -> bool:
    return expression[token[1] : token[2]] == sign


def _takes(expression: str, token: Token) -> bool:
    """Whether a bracket behind this token takes something out of it, and begins no list."""
    kind, start, end = token
    text = expression[start:end]
    return (kind == "name" and text not in _WORDS) or kind == "ticked" or text in {"]", ")"}


def _name(kind: str, literal: str) -> str | None:
    """What the literal says; None for what is no text, or is spelled with escapes."""
    text = literal.lstrip("rRbB")
    if kind not in {"raw", "string"} or "b" in literal[: -len(text)].lower() or "\n" in literal:
        return None
    quotes = 3 if text[:3] in {'"""', "'''"} else 1
    return None if kind == "string" and "\\" in text else text[quotes:-quotes]
