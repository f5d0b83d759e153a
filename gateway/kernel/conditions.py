"""(expression, values) -> True, False or Undecided. CEL behind a seam: nobody else knows the engine's name.

The engine returns errors as truthy values, so only its own `True` and `False` are believed here, and
everything else is `Undecided`, with the reason. What an `Undecided` means is the caller's to say: a
transition does not allow, a `forbid` forbids, a verifier is inconclusive.

The dialect is what every CEL engine has: the core, `has`, `all`, `exists`, `exists_one`, `filter`,
`map`, `matches`, `startsWith`, `endsWith`, `contains`, `size`, times and durations; no extensions. Beside
it stand our own functions over paths, statements, URLs and their like (`kernel/objects`).
`||` and `&&` absorb an error beside a value that settles them, as the CEL specification says.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any, NoReturn

from cel_expr_python import cel

from gateway.kernel.condition_cost import too_much
from gateway.kernel.condition_words import Paths, misfit, paths_in, refusal, step_spelled, values_seen
from gateway.kernel.objects import FUNCTIONS, Function
from gateway.kernel.objects.judged import MARK, counted
from gateway.kernel.objects.literals import literal_flaw
from gateway.kernel.variables import ROOTS as ROOTS
from gateway.kernel.variables import VARIABLES as VARIABLES
from gateway.model.flaws import Kind as Kind
from gateway.model.policy import MAX_EXPRESSION

MAX_DEPTH = 64
"""Levels of nesting that a value may have; the engine crashes the process near 20,000."""

MAX_PATH = 160
"""Characters of a path in a reason; deeper places are cut."""

MAX_INT = 2**63
"""CEL integers are 64 bits wide; what does not fit is undecided, never rounded."""


class BadCondition(ValueError):
    """The expression is no condition. The place is within the expression, counted from 1."""

    def __init__(self, message: str, line: int = 1, column: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Undecided:
    """The condition could not be judged."""

    reason: str
    """What was missing or did not fit, in half a sentence: "`args.amount` is missing"."""

    def __bool__(self) -> NoReturn:
        """Refused: taken for true or for false, an `Undecided` would open a door somewhere."""
        raise TypeError("an undecided condition is neither true nor false; test `is True`")


@dataclass(frozen=True, slots=True)
class Activation:
    """The values of one call, checked once and then judged by many conditions of one kind."""

    kind: Kind
    values: Mapping[str, Any]
    unfit: Mapping[str, str]
    """Variable to the reason why no condition can read it."""
    engine: Any = field(repr=False, compare=False)


def activation(kind: Kind, values: Mapping[str, Any]) -> Activation:
    """The values as conditions of this kind see them. Never raises: what does not fit is undecided where it is used.

    `values` are by the names of `VARIABLES`; others are ignored, and missing ones are missed when used.
    """
    unfit: dict[str, str] = {}
    fit: dict[str, Any] = {}
    for name, value in values.items():
        declared = VARIABLES[kind].get(name)
        if declared is None:
            continue
        flaw = _flaw(value, declared)
        if flaw is None:
            fit[name] = value
        else:
            unfit[name] = f"`{name}{flaw[0]}` {flaw[1]}"
    return Activation(kind, MappingProxyType(fit), unfit, _environment(kind).Activation(fit))


@dataclass(frozen=True, slots=True)
class _Compiled:
    """An expression, and how it is asked."""

    kind: Kind
    expression: str
    paths: Paths = field(repr=False, compare=False)
    """What it reads, for saying what was missing."""
    program: Any = field(repr=False, compare=False)

    @property
    def roots(self) -> frozenset[str]:
        """The first names of the variables that it may read; never fewer than those that it does."""
        return roots_in(self.expression, self.kind)

    def seen(self, values: Mapping[str, Any] | Activation) -> Mapping[str, Any]:
        """What it reads, by path and in the order of the text, with what stood there; what was missing is left out.

        Values are JSON; one whose text is longer than 200 characters is that text, cut. They are for whoever may see
        the arguments, and not for a reason.
        """
        over = values if isinstance(values, Activation) else activation(self.kind, values)
        return values_seen(self.expression, VARIABLES[self.kind], over.values)

    def _over(self, values: Mapping[str, Any] | Activation) -> Activation | Undecided:
        over = values if isinstance(values, Activation) else activation(self.kind, values)
        if over.kind != self.kind:
            return Undecided(f"the values are those of a {over.kind}, the expression is one of a {self.kind}")
        return over

    def _run(self, over: Activation) -> Any:
        if (flaw := too_much(self.expression, over.values)) is not None:
            raise ValueError(f"OUT_OF_RANGE: {MARK}{flaw}")
        with counted():
            return self.program.eval(over.engine)


@dataclass(frozen=True, slots=True)
class Condition(_Compiled):
    """An expression that is true or false."""

    def decide(self, values: Mapping[str, Any] | Activation) -> bool | Undecided:
        """Whether it holds. Never raises; what could not be judged is `Undecided`, which is not false."""
        over = self._over(values)
        if isinstance(over, Undecided):
            return over
        try:
            found = self._run(over).plain_value()
        except _ENGINE_ERRORS as error:
            found = error
        # INVARIANT: an error is a non-empty string here; nothing but the engine's own truth values counts.
        if found is True or found is False:
            return found is True
        return Undecided(misfit(str(found), self.paths, over.values, over.unfit))


@dataclass(frozen=True, slots=True)
class Value(_Compiled):
    """An expression whose answer is a value."""

    def find(self, values: Mapping[str, Any] | Activation) -> Any:
        """What it gives, as a JSON value (times as RFC 3339), or `Undecided`. Never raises."""
        over = self._over(values)
        if isinstance(over, Undecided):
            return over
        try:
            given = self._run(over)
            failed, found = given.type() == cel.Type.ERROR, given.plain_value()
        except _ENGINE_ERRORS as error:
            failed, found = True, error
        # INVARIANT: an error's plain value is a string like any other; only its type tells them apart.
        if failed:
            return Undecided(misfit(str(found), self.paths, over.values, over.unfit))
        found = _plain(found, MAX_DEPTH)
        flaw = _json_flaw(found, MAX_DEPTH)
        return found if flaw is None else Undecided(f"what it gives {flaw[1]}")


def compile_condition(expression: str, kind: Kind) -> Condition:
    """The expression as a program whose answer is true or false.

    Raises: BadCondition for bad syntax, unknown names, another result than true or false, or too long a text.
    """
    program = _compiled(expression, kind)
    if program.return_type() != cel.Type.BOOL:
        raise BadCondition(_no_truth(program.return_type().name()))
    return Condition(kind, expression, paths_in(expression), program)


def compile_value(expression: str, kind: Kind) -> Value:
    """The expression as a program whose answer is a value.

    Raises: BadCondition for bad syntax, unknown names, or too long a text.
    """
    return Value(kind, expression, paths_in(expression), _compiled(expression, kind))


def roots_in(expression: str, kind: Kind) -> frozenset[str]:
    """The first names of the variables that the expression may read; never fewer than those that it does."""
    # By the looks of the text: an identifier has no other spelling in CEL.
    return frozenset(root for root in ROOTS[kind] if root in expression)


def _compiled(expression: str, kind: Kind) -> Any:
    if len(expression) > MAX_EXPRESSION:
        raise BadCondition(f"the expression is longer than {MAX_EXPRESSION} characters")
    environment = _environment(kind)
    try:
        program = environment.compile(expression)
    except _ENGINE_ERRORS as error:
        raise BadCondition(*refusal(str(error), expression, tuple(VARIABLES[kind]))) from None
    if flaw := literal_flaw(expression, lambda text: environment.compile(text).eval().plain_value()):
        raise BadCondition(*flaw)
    return program


_ENGINE_ERRORS = (RuntimeError, ValueError, TypeError, OverflowError)
"""What the binding raises; text that is no UTF-8 among it."""


@cache
def _environment(kind: Kind) -> Any:
    """Where conditions run: arguments and the like are maps of anything."""
    return new_environment(kind)


def new_environment(kind: Kind, messages: Mapping[str, str] = MappingProxyType({}), pool: Any = None) -> Any:
    """An engine for this kind: for running, or, with variables that are messages of the pool, for checking types.

    Whatever the language is given beyond the standard is given here, so that both know the same.
    """
    types = {
        "string": cel.Type.STRING,
        "int": cel.Type.INT,
        "double": cel.Type.DOUBLE,
        "timestamp": cel.Type.TIMESTAMP,
        "list(string)": cel.Type.List(cel.Type.STRING),
        "map(string, dyn)": cel.Type.Map(cel.Type.STRING, cel.Type.DYN),
    }
    variables = {name: types[declared] for name, declared in VARIABLES[kind].items()}
    variables |= {name: cel.Type(message) for name, message in messages.items()}
    return cel.NewEnv(descriptor_pool=pool, variables=variables, functions=_functions())


def complaints(environment: Any, expression: str) -> str:
    """What the engine has against the expression, in its own words; empty if nothing."""
    try:
        environment.compile(expression)
    except _ENGINE_ERRORS as error:
        return str(error)
    return ""


@cache
def _functions() -> list[Any]:
    return [_declared(function) for function in FUNCTIONS.values()]


def _declared(function: Function) -> Any:
    guarded = function.guarded
    overloads = [
        # The engine tells overloads apart by their ids, and finds one at run time by the types of the values.
        cel.Overload(f"{function.name}/{place}", _type(gives), [_type(one) for one in takes], impl=guarded)
        for place, (takes, gives) in enumerate(function.forms)
    ]
    return cel.FunctionDecl(function.name, overloads)


def _type(written: str) -> Any:
    if written == "map(string, string)":
        return cel.Type.Map(cel.Type.STRING, cel.Type.STRING)
    if written.startswith("list("):
        return cel.Type.List(_type(written[len("list(") : -1]))
    return getattr(cel.Type, written.upper())


def _no_truth(type_name: str) -> str:
    if type_name == "DYN":
        return "the expression must be true or false for certain; compare what it gives, as in `… == true`"
    return f"the expression must be true or false, and this one gives {_GIVES.get(type_name, 'something else')}"


_GIVES: Mapping[str, str] = {
    "STRING": "a string",
    "INT": "an integer",
    "UINT": "an integer",
    "DOUBLE": "a number",
    "TIMESTAMP": "a time",
    "DURATION": "a duration",
    "NULL_TYPE": "null",
}


def _flaw(value: Any, declared: str) -> tuple[str, str] | None:
    """Where and why the engine cannot take the value; None if it can."""
    if declared == "timestamp":
        aware = isinstance(value, datetime) and value.tzinfo is not None
        return None if aware else ("", "is no time with a zone")
    if declared.startswith("map") and not isinstance(value, dict):
        return "", "is no object"
    return _json_flaw(value, MAX_DEPTH)


def _plain(value: Any, levels: int) -> Any:
    """Times as RFC 3339; all else as it is."""
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if levels and isinstance(value, dict):
        return {key: _plain(one, levels - 1) for key, one in value.items()}
    if levels and isinstance(value, list):
        return [_plain(one, levels - 1) for one in value]
    return value


def _json_flaw(value: Any, levels: int) -> tuple[str, str] | None:
    if isinstance(value, str):
        return None if _is_text(value) else ("", "is no text")
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        return None if -MAX_INT <= value < MAX_INT else ("", "is an integer beyond 64 bits")
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", "is no finite number")
    if isinstance(value, dict | list):
        return _deep_flaw(value, levels)
    return "", "is no JSON value"


def _deep_flaw(value: dict[Any, Any] | list[Any], levels: int) -> tuple[str, str] | None:
    if levels == 0:
        return "", f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, dict):
        for key in value:
            if not (isinstance(key, str) and _is_text(key)):
                return "", "has a key that is no text"
    for step, item in value.items() if isinstance(value, dict) else enumerate(value):
        flaw = _json_flaw(item, levels - 1)
        if flaw is not None:
            spelled = step_spelled(step[:64] if isinstance(step, str) else step)
            return (spelled + flaw[0])[:MAX_PATH], flaw[1]
    return None


def _is_text(value: str) -> bool:
    """Whether it is UTF-8 text without NUL: the engine has no answer to half of a surrogate pair, and its binding ends
    a text at a NUL, so that two texts would be equal which are not.
    """
    return "\0" not in value and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))
