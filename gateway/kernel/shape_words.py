"""What the engine has against an expression where types are known: what of it is certain, and in plain words."""

import difflib
import re
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING

from gateway.kernel.condition_text import Dotted
from gateway.kernel.condition_words import NO_OPERAND, no_operand, no_overload

if TYPE_CHECKING:
    from gateway.kernel.messages import Message

MAX_NEAR = 500
"""Names among which a similar one is looked for."""

_COMPLAINT = re.compile(r"^(?:[A-Z_]+: )?ERROR: <input>:(\d+):(\d+): (.*)$", re.MULTILINE)
_NO_FIELD = re.compile(r"undefined field '(.*)' not found in struct '(shape\.M\d+)'")
_NO_OVERLOAD = re.compile(r"no matching overload for '([^']*)' applied to '(?:[\w.]+\.)?\((.*)\)'")


def certain(
    said: str, plain: Dotted, messages: "Mapping[str, Message]", tools: tuple[str, str]
) -> tuple[str, int] | None:
    """The first complaint that holds whatever the values are, in words and with its place; None if there is none.

    `tools` are those whose arguments and whose result are read.
    """
    for line, column, complaint in _COMPLAINT.findall(said):
        at = plain.place(int(line), int(column))
        if missing := _NO_FIELD.search(complaint):
            message = messages[missing[2]]
            if not message.open:
                name = message.names.get(missing[1]) or _written(missing[1], plain, int(line), int(column))
                return _no_field(name, message, tools), _place_of(name, plain.written, at)
        elif overload := _NO_OVERLOAD.search(complaint):
            types = _types(overload[2])
            if _never(overload[1], types):
                return no_overload(overload[1].removeprefix("@"), ", ".join(map(_outer, types))), at
        elif (operand := NO_OPERAND.search(complaint)) and _class(operand[1]) not in {"map", "dyn", "error"}:
            return no_operand(operand), at
    return None


# --- names ----------------------------------------------------------------------------------------------------------


def _written(name: str, plain: Dotted, line: int, column: int) -> str:
    """The name as it is written, where the message has it under another one."""
    there = plain.written[plain.place(line, column) :]
    quoted = re.match(
        r"""\s*(?:\.\s*`([^`]*)`|\[\s*[rR]?("""  # a step in another spelling
        r"""(?:"{3}|'{3}|["'])))""",
        there,
    )
    if quoted is None or not name.startswith("u_"):
        return name
    if quoted[1] is not None:
        return quoted[1]
    return there[quoted.end() :].partition(quoted[2])[0]


def _place_of(name: str, written: str, at: int) -> int:
    """Where the name itself stands; the engine points before it."""
    found = written.find(name, at)
    return found if name and found >= 0 else at


def _no_field(name: str, message: "Message", tools: tuple[str, str]) -> str:
    near = difflib.get_close_matches(name[:64], [one[:64] for one in islice(message.names.values(), MAX_NEAR)], n=1)
    hint = f" (did you mean `{_shown(near[0])}`?)" if near else ""
    shown = _shown(name)
    match message.path:
        case "args":
            tool = f"the tool `{_shown(tools[0], 128)}`" if tools[0] else "the tool"
            return f"{tool} takes no argument `{shown}`{hint}"
        case "evidence":
            return f"no verifier is named `{shown}`{hint}"
        case "accounts":
            return f"no account is named `{shown}`{hint}"
        case "values":
            return f"the policy has no value named `{shown}`{hint}"
        case "result.structuredContent" if tools[1]:
            return f"the result of the tool `{_shown(tools[1], 128)}` has no field `{shown}`{hint}"
        case path:
            return f"`{_shown(path, 160)}` has no field `{shown}`{hint}"


def _shown(text: str, length: int = 64) -> str:
    """On one line, whatever its characters are: names come from upstreams."""
    return "".join(char if char.isprintable() and char != "`" else "?" for char in text[:length])


# --- types ----------------------------------------------------------------------------------------------------------

_CLASSES: Mapping[str, str] = {
    "int": "number",
    "uint": "number",
    "double": "number",
    "*error*": "error",
    "null_type": "null",
    "null": "null",
}


def _types(signature: str) -> list[str]:
    """The types of a signature, which are divided by commas outside brackets."""
    found, depth, start = [], 0, 0
    for at, char in enumerate(signature):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            found.append(signature[start:at].strip())
            start = at + 1
    return [*found, signature[start:].strip()]


def _outer(type_: str) -> str:
    """The type without what it holds."""
    outer = type_.partition("(")[0]
    return "map" if outer.startswith("shape.M") else outer.removeprefix("google.protobuf.")


def _key(type_: str) -> str:
    """The type of a map's keys."""
    return "string" if type_.startswith("shape.M") else _types(type_[len("map(") : -1])[0]


def _class(type_: str) -> str:
    """Types of one class may be equal to one another."""
    outer = _outer(type_)
    return _CLASSES.get(outer, outer)


def _may_equal(one: str, other: str) -> bool:
    unsure = {"dyn", "null"}
    return one == other or one in unsure or other in unsure


def _never(function: str, types: list[str]) -> bool:
    """Whether there is no answer, or always the same one, whatever the values of these types are.

    What is a double here may be an integer, for JSON has but one kind of number.
    """
    classes = [_class(one) for one in types]
    match function, classes:
        case (("_==_" | "_!=_"), [one, other]):
            return not _may_equal(one, other)
        case "@in", [one, ("list" | "map") as holder]:
            held = types[1][len("list(") : -1] if holder == "list" else _key(types[1])
            return not _may_equal(one, _class(held))
        case "_[_]", ["map", one]:
            return not _may_equal(one, _class(_key(types[0])))
        case "_[_]", ["list", one]:
            return not _may_equal(one, "number")
        case "_?_:_", [test, _, _]:
            return test not in {"bool", "dyn"}
        case _ if function in _NUMERIC:
            return classes != ["number"] * len(classes) and classes != ["list", "list"]
        case _:
            return not any("double" in one or "shape." in one for one in types)


_NUMERIC = frozenset({"_<_", "_<=_", "_>_", "_>=_", "_+_", "_-_", "_*_", "_/_", "_%_", "-_"})
