"""What the CEL engine says, in plain words. It words errors for its own authors, and quotes the values it saw.

Only what stands here is repeated: a reason goes to the agent and into the ledger, where an argument's
value has no business. What is not known here becomes "it cannot be evaluated".
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, TypeAlias

from gateway.kernel.condition_text import literals
from gateway.kernel.objects import FUNCTIONS, MARK
from gateway.model.canonical import dump

Paths: TypeAlias = tuple[tuple[str | int, ...], ...]
"""What an expression reads, as steps from a variable: `args.to[0]` is `("args", "to", 0)`."""

_NAME = r"[A-Za-z_]\w*\b(?!\s*\()"
_STEP = re.compile(rf"""\s*\.\s*({_NAME})|\s*\[\s*(?:'([^'\\]*)'|"([^"\\]*)"|(\d{{1,9}}))\s*\]""")
_PLACE = 4
"""The group of a step that is a place in a list."""
_ROOT = re.compile(r"(?<![\w.])(args|evidence|result|accounts|values)\b")


def paths_in(expression: str) -> Paths:
    """The paths in the order of the text; found by their looks, so good for saying what was missing and no more."""
    return tuple(path for _, path in _placed_paths(expression))


def _placed_paths(expression: str) -> Iterator[tuple[int, tuple[str | int, ...]]]:
    quoted = literals(expression)
    for root in _ROOT.finditer(expression):
        if any(start < root.start() < end for start, end in quoted):
            continue
        steps: list[str | int] = [root[1]]
        at = root.end()
        while step := _STEP.match(expression, at):
            word = step[step.lastindex or 1]
            steps.append(int(word) if step.lastindex == _PLACE else word)
            at = step.end()
        yield root.start(), tuple(steps)


# --- for explaining -------------------------------------------------------------------------------------------------

MAX_SEEN = 200
"""Characters of a value that is shown."""


def values_seen(expression: str, variables: Iterable[str], values: Mapping[str, Any]) -> dict[str, Any]:
    """What the expression reads, by path and in the order of the text; what is missing is left out."""
    placed = dict(_placed_paths(expression))
    quoted = literals(expression)
    for name in variables:
        for found in re.finditer(rf"(?<![\w.]){re.escape(name)}\b", expression):
            if found.start() not in placed and not any(start < found.start() < end for start, end in quoted):
                placed[found.start()] = (name,)
    held = ((spelled(path), _at(path, values)) for _, path in sorted(placed.items()))
    return {path: _cut(found[0]) for path, found in held if found}


def _at(path: tuple[str | int, ...], values: Mapping[str, Any]) -> tuple[Any] | None:
    at: Any = values
    for step in path:
        if not _leads_on(at, step):
            return None
        at = at[step]
    return (at,)


def _cut(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    text = value if isinstance(value, str) else dump(value)
    return value if len(text) <= MAX_SEEN else text[: MAX_SEEN - 1] + "…"


# --- at run time ----------------------------------------------------------------------------------------------------

_MISSING_KEY = re.compile(r'Key not found in map : "(.*)"', re.DOTALL)
_MISSING_VARIABLE = re.compile(r'No value with name "([\w.]+)" found')
_OUR_OWN = re.compile(rf"OUT_OF_RANGE: {MARK}(.*)", re.DOTALL)
"""A refusal of one of our functions: the engine's name for a ValueError, and what it said. Only at its beginning."""
_NO_OVERLOAD = re.compile(r"No matching overloads found : (?:\((\w+)\)\.)?(\S+?)(?:\(([\w, ]*)\))?$")

_MISFITS: tuple[tuple[str, str], ...] = (
    ("Index error", "a list has no such element"),
    ("divide by zero", "it divides by zero"),
    ("modulus by zero", "it divides by zero"),
    ("overflow", "a number leaves the range of 64 bits"),
    ("out of range", "a number leaves the range of 64 bits"),
    ("budget exceeded", "it takes more steps than one condition may"),
    ("regular expression", "a regular expression in it is not valid"),
    ("String to Timestamp", "a string is no time"),
    ("String to Duration", "a string is no duration"),
    ("cannot convert string", "a string is no number"),
)
"""A piece of what the engine says, and what is said instead."""


def misfit(said: str, paths: Paths, values: Mapping[str, Any], unfit: Mapping[str, str]) -> str:
    """Why the condition has no answer, in half a sentence that shows no value."""
    if own := _OUR_OWN.match(said):
        return own[1]
    if variable := _MISSING_VARIABLE.search(said):
        return unfit.get(variable[1], f"`{variable[1]}` is missing")
    if key := _MISSING_KEY.search(said):
        missing = next((path for path, holder in _cuts(paths, values) if holder and path[-1] == key[1]), None)
        return f"`{spelled(missing)}` is missing" if missing else "a key that it asks for is missing"
    if "SELECT to non-message" in said:
        bare = next((path[:-1] for path, holder in _cuts(paths, values) if not holder), None)
        return f"`{spelled(bare)}` has no fields" if bare else "something in it has no fields"
    if overload := _NO_OVERLOAD.search(said):
        return no_overload(overload[2], ", ".join(types for types in (overload[1], overload[3]) if types))
    return next((words for piece, words in _MISFITS if piece in said), "it cannot be evaluated")


def spelled(path: tuple[str | int, ...]) -> str:
    """The path as CEL writes it."""
    return f"{path[0]}{''.join(step_spelled(step) for step in path[1:])}"


def step_spelled(step: str | int) -> str:
    """One step of a path, on one line whatever its characters are."""
    return f".{step}" if isinstance(step, str) and step.isidentifier() else f"[{step!r}]"


def _cuts(paths: Paths, values: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], bool]]:
    """Each path that leads nowhere, up to its first such step, and whether it is an object that lacks it."""
    for path in paths:
        at: Any = values
        for length, step in enumerate(path, 1):
            if not _leads_on(at, step):
                yield path[:length], isinstance(at, Mapping)
                break
            at = at[step]


def _leads_on(at: Any, step: str | int) -> bool:
    if isinstance(at, list) and isinstance(step, int):
        return step < len(at)
    return isinstance(at, Mapping) and step in at


_TYPES: Mapping[str, str] = {
    "string": "a string",
    "int": "an integer",
    "int64": "an integer",
    "uint": "an integer",
    "uint64": "an integer",
    "double": "a number",
    "bool": "a truth value",
    "bytes": "bytes",
    "list": "a list",
    "map": "an object",
    "null_type": "null",
    "timestamp": "a time",
    "Timestamp": "a time",
    "duration": "a duration",
    "Duration": "a duration",
    "dyn": "anything",
}


def no_overload(name: str, types: str) -> str:
    """That the function takes no such types, in plain words; `types` are the engine's names, divided by commas."""
    operator = "[]" if name == "_[_]" else name.strip("_@")
    words = [_TYPES.get(one, "something else") for one in _TYPE.findall(types)]
    if operator in {"&&", "||", "!", "<jump_condition>", "?_:"} or not words:
        return "something in it is neither true nor false"
    return f"`{operator}` cannot take {' and '.join(words)}"


_TYPE = re.compile(r"([a-z_]\w*|(?<=google\.protobuf\.)\w+)(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?(?=,|$)")
"""One type of a signature; a comma within brackets divides nothing."""


# --- at load --------------------------------------------------------------------------------------------------------

_PLACED = re.compile(r"ERROR: <input>:(\d+):(\d+): (.*)")
_UNDECLARED = re.compile(r"undeclared reference to '([^']*)'")
_NO_OVERLOAD_AT_LOAD = re.compile(r"no matching overload for '([^']*)' applied to '(?:[\w.]+\.)?\(?(.*?)\)?'")
NO_OPERAND = re.compile(r"expression of type '(.*)' cannot be the (operand of a select|range of a comprehension)")
_DASHED = re.compile(r"\b(accounts|evidence|values)\.((?:\w+-)+)$")
"""A name of which CEL takes the `-` for a minus, up to what comes behind it."""

_SYNTAX = re.compile(r"(?:input '(.*?)' expecting|token recognition error at: '(.*?)'$|unsupported syntax '(.*?)')")

_FUNCTIONS = frozenset(
    {"all", "contains", "duration", "endsWith", "exists", "exists_one", "filter", "has", "map", "matches", "size"}
    | {"startsWith", "timestamp"}
    | FUNCTIONS.keys()
)


def refusal(said: str, expression: str, variables: tuple[str, ...]) -> tuple[str, int, int]:
    """What is wrong with the expression, and where in it: message, line and column from 1."""
    placed = _PLACED.search(said)
    if placed is None:
        known = {"recursion limit": "the expression is nested deeper than 32 levels"}
        return next((words for piece, words in known.items() if piece in said), "the expression is no CEL"), 1, 1
    line, column, message = int(placed[1]), int(placed[2]), placed[3]
    if undeclared := _UNDECLARED.search(message):
        name = undeclared[1]
        start = _start(name, expression, line, column)
        if dashed := _DASHED.search(expression.split("\n")[line - 1][: start - 1]):
            whole = f"{dashed[2]}{name.partition('.')[0]}"
            return f'a name with a `-` is written `{dashed[1]}["{whole[:64]}"]`', line, start
        return _unknown(_called(name, expression, line, column), variables), line, start
    if overload := _NO_OVERLOAD_AT_LOAD.search(message):
        return no_overload(overload[1], overload[2]), line, column
    if operand := NO_OPERAND.search(message):
        return no_operand(operand), line, column
    if syntax := _SYNTAX.search(message):
        return _unexpected((syntax[1] or syntax[2] or syntax[3] or "").strip()), line, column
    return "the expression is no CEL from here on", line, column


def no_operand(complaint: re.Match[str]) -> str:
    """That such a value has none of what is asked of it, in plain words; the complaint is as `NO_OPERAND` finds it."""
    outer = complaint[1].partition("(")[0].removeprefix("google.protobuf.")
    if outer == "dyn":  # the engine forgets that an index on an index may be a list; `dyn(…)` reminds it
        return "write `dyn(…)` around what stands before this macro, if that has elements"
    has = "no fields" if complaint[2].startswith("operand") else "no elements"
    return f"{_TYPES.get(outer, 'this')} has {has}"


def _unexpected(word: str) -> str:
    if word == "<EOF>":
        return "the expression ends too early"
    meant = {"=": "==", "and": "&&", "or": "||", "not": "!", "is": "=="}.get(word)
    return f"`{word[:32]}` is not expected here{_hint(meant)}"


def _hint(meant: str | None) -> str:
    return f" (did you mean `{meant}`?)" if meant else ""


def _unknown(name: str, variables: tuple[str, ...]) -> str:
    if name in _FUNCTIONS:
        return f"`{name}` takes other arguments"
    if name in variables:
        return f"`{name}` is no function"
    head, dot, rest = name.partition(".")
    objects = [one for one in ("accounts", "args", "evidence", "result", "values") if one in variables]
    if dot and (root := difflib.get_close_matches(head, objects, n=1, cutoff=0.6)):
        return f"nothing is named `{name[:64]}` here{_hint(f'{root[0]}.{rest[:64]}')}"
    near = difflib.get_close_matches(name, [*variables, *sorted(_FUNCTIONS)], n=1, cutoff=0.6)
    return f"nothing is named `{name[:64]}` here{_hint(near[0] if near else None)}"


def _called(name: str, expression: str, line: int, column: int) -> str:
    """The name with what is called of it: the engine misses `path` where `path.wthin(…)` stands."""
    at = _start(name, expression, line, column) - 1
    called = re.compile(rf"{re.escape(name)}\s*\.\s*(\w+)\s*\(").match(expression.split("\n")[line - 1], at)
    return f"{name}.{called[1]}" if called else name


def _start(name: str, expression: str, line: int, column: int) -> int:
    """Where the name begins; the engine points at its last dot, or at the bracket behind it."""
    text = expression.split("\n")[line - 1]
    begin = text.rfind(name, 0, column - 1 + len(name))
    return begin + 1 if begin >= 0 and begin < column <= begin + len(name) + 1 else column
