"""What can be found wrong with a call before any value is known: its constants, checked when the policy is loaded.

Works on an expression that the engine has compiled, so it looks for calls and finds where their arguments end, and
needs to understand nothing else of the language.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from gateway.kernel.objects import FUNCTIONS
from gateway.kernel.objects.judged import Function, Unjudged

_TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
    |(?P<text>(?:[bB]?[rR]|[rR][bB])(?:\"{3}(?s:.*?)\"{3}|'{3}(?s:.*?)'{3}|"[^"\n]*"|'[^'\n]*')
      |[bB]?(?:\"{3}(?s:(?:\\.|[^\\])*?)\"{3}|'{3}(?s:(?:\\.|[^\\])*?)'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<mark>.)""",
    re.VERBOSE,
)
"""CEL's tokens, as far as is needed to tell what is text and what is not [CEL specification, Syntax]."""


class Token(NamedTuple):
    """A piece of the expression."""

    kind: str
    text: str
    start: int


class Call(NamedTuple):
    """A call of one of our functions."""

    function: Function
    arguments: tuple[tuple[Token, ...], ...]
    start: int


def literal_flaw(expression: str, constant: Callable[[str], Any]) -> tuple[str, int, int] | None:
    """What is wrong with the first bad constant, and where: message, line and column from 1. None if all are good.

    `constant` gives the value of an expression that names nothing. What the functions need is loaded here.
    """
    for call in _calls(expression):
        call.function.prepare()
        for place, tokens in enumerate(call.arguments):
            try:
                _check(call, place, expression, constant)
            except Unjudged as why:
                start = tokens[0].start
                return why.reason, expression.count("\n", 0, start) + 1, start - expression.rfind("\n", 0, start)
    return None


def _check(call: Call, place: int, expression: str, constant: Callable[[str], Any]) -> None:
    function, tokens = call.function, call.arguments[place]
    check = function.literals.get(place) or function.literals.get((place, len(call.arguments)))
    if check is None:
        return
    if all(token.kind in {"text", "number"} or token.text in set("[]{},:") for token in tokens):
        check(constant(expression[tokens[0].start : tokens[-1].start + len(tokens[-1].text)]))
    elif place in function.fixed:
        raise Unjudged(f"`{function.name}` wants a constant here, which can be checked when the policy is loaded")


def _calls(expression: str) -> Iterator[Call]:
    tokens = [
        Token(str(found.lastgroup), found[0], found.start())
        for found in _TOKEN.finditer(expression)
        if found.lastgroup != "blank"
    ]
    for at in range(len(tokens) - 3):
        subject, dot, name, bracket = tokens[at : at + 4]
        function = FUNCTIONS.get(f"{subject.text}.{name.text}")
        if function is not None and (dot.text, bracket.text) == (".", "(") and subject.kind == "word":
            yield Call(function, _arguments(tokens[at + 4 :]), subject.start)


def _arguments(tokens: list[Token]) -> tuple[tuple[Token, ...], ...]:
    """What stands between the brackets of a call, divided at its own commas; the first token is behind the bracket."""
    found: list[list[Token]] = [[]]
    depth = 1
    for token in tokens:
        if token.kind == "mark":
            depth += (token.text in "([{") - (token.text in ")]}")
        if depth == 0:
            break
        if depth == 1 and token.text == ",":
            found.append([])
        else:
            found[-1].append(token)
    return tuple(tuple(tokens) for tokens in found if tokens)
