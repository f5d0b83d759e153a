"""(expression, kind, shape) -> nothing, or BadCondition: types, checked against the tool's schema and the policy.

The engine is asked in an environment in which `args` and the like are messages with typed fields, and only those of
its complaints count that are certain: a condition that could be true or false on arguments which keep the schema is
not refused, but where it compares what can never be equal or reads what no schema lists. Checked, and not run, there.

What is known of a schema, and where it is taken to be open, says `schema_types.py`. Whoever knows more than a schema
does says `dyn(args).other`, which is anything.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from gateway.kernel.condition_text import Dotted, dotted
from gateway.kernel.conditions import (
    ROOTS,
    BadCondition,
    Kind,
    compile_value,
    complaints,
    new_environment,
    roots_in,
)
from gateway.kernel.once import once
from gateway.kernel.schema_types import (
    ANY,
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    STRING,
    Part,
    closed,
    part_of_schema,
    part_of_value,
)
from gateway.kernel.seeing import shape_of
from gateway.kernel.shape_words import certain
from gateway.model.canonical import NotStrictJson, canonical
from gateway.model.policy import Way

if TYPE_CHECKING:
    from gateway.kernel.messages import Message

MAX_SCHEMA_BYTES = 1024 * 1024
"""A larger schema says nothing: what is read of it is anything."""

MAX_CHECKED = 20_000
"""Expressions, each with a shape, whose judgement is remembered."""

MAX_ENVIRONMENTS = 128
"""Environments that are kept, 100 kB each."""

EVIDENCE = closed(
    {"verdict": STRING, "fresh": BOOLEAN, "at": STRING, "says": STRING, "scope": OBJECT, "signature": STRING}
)
SPENT: Mapping[str, Part] = {
    "calls": INTEGER,
    "mutations": INTEGER,
    "tokens": INTEGER,
    "reviews": INTEGER,
    "cost": NUMBER,
}
"""What every account tells; of what it limits, `…_left` too."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is known, beside the kind, of what an expression reads. Each that is None may be anything.

    One and the same value is to be asked again: what is found out of it is kept with it.
    """

    tool: str = ""
    """The tool whose arguments are `args`, for messages."""
    args: Mapping[str, Any] | None = None
    """The tool's input schema."""
    probe: str = ""
    """The tool whose answer is `result`, for messages."""
    result: Mapping[str, Any] | None = None
    """The probe tool's output schema, which types `result.structuredContent`; empty if it has none."""
    way: Way | None = None
    """How a verifier looks at a place: then `result` is what that sees, and `result` above says nothing."""
    evidence: tuple[str, ...] | None = None
    """The names of the policy's verifiers."""
    accounts: Mapping[str, tuple[str, ...]] | None = None
    """The names of the policy's accounts, with the names of what each limits (as in `SPENT`)."""
    values: Mapping[str, Any] | None = None
    """The policy's constants."""
    _digests: dict[str, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)


def check_types(expression: str, kind: Kind, shape: Shape) -> None:
    """Nothing, if the expression may be asked of such values.

    Raises: BadCondition, with the place of the first thing that is certainly wrong; also for what does not compile.
    """
    plain = _prepared(expression, kind)
    reads = roots_in(expression, kind)
    digest = b"".join(_digest(shape, root) for root in _TYPED if root in reads)
    if not digest:
        return
    key = (expression, kind, digest)
    found = once(_judged, key, lambda: _judge(plain, kind, shape, reads), MAX_CHECKED)
    if found:
        raise BadCondition(found[0], *_line_and_column(expression, found[1]))


_judged: dict[tuple[str, Kind, bytes], tuple[str, int] | tuple[()]] = {}


@lru_cache(maxsize=4096)
def _prepared(expression: str, kind: Kind) -> Dotted:
    compile_value(expression, kind)  # syntax and names, said in the words for those
    return dotted(expression)


def _judge(plain: Dotted, kind: Kind, shape: Shape, reads: frozenset[str]) -> tuple[str, int] | tuple[()]:
    """What is certainly wrong, and where in the expression."""
    engine, messages = _environment(kind, shape, reads | _SHARED)
    if engine is None:
        return ()
    return certain(complaints(engine, plain.text), plain, messages, (shape.tool, shape.probe)) or ()


# --- environments ---------------------------------------------------------------------------------------------------

_SHARED = frozenset({"evidence", "accounts", "values"})
"""Known in every environment: they are the policy's, and few."""


def _environment(kind: Kind, shape: Shape, roots: frozenset[str]) -> "tuple[Any, Mapping[str, Message]]":
    key = (kind, b"".join(_digest(shape, root) for root in _TYPED if root in roots))
    known = _environments.get(key)
    if known is None:
        if len(_environments) >= MAX_ENVIRONMENTS:
            _environments.clear()
        known = _environments[key] = _built(kind, shape, roots & ROOTS[kind])
    return known


_environments: dict[tuple[Kind, bytes], "tuple[Any, Mapping[str, Message]]"] = {}


def _built(kind: Kind, shape: Shape, roots: frozenset[str]) -> "tuple[Any, Mapping[str, Message]]":
    """An engine in which what is known is typed. None in its place if it cannot be had, and then nothing is wrong."""
    from gateway.kernel.messages import Messages  # noqa: PLC0415 - protobuf, which only typed expressions need

    messages = Messages()
    parts = {root: part_of(shape) for root, part_of in _TYPED.items() if root in roots and _digest(shape, root)}
    names = {root: messages.add(root, part) for root, part in parts.items() if part.is_message}
    try:
        return new_environment(kind, names, messages.pool()), messages.known
    except (RuntimeError, TypeError, ValueError):
        return None, messages.known


def _args(shape: Shape) -> Part:
    return replace(part_of_schema(shape.args), kind="object")


def _result(shape: Shape) -> Part:
    if shape.way is not None:
        return shape_of(shape.way)
    return closed(
        {
            "structuredContent": part_of_schema(shape.result),
            "content": Part("array", items=ANY),
            "isError": BOOLEAN,
            "resultType": STRING,
            "_meta": OBJECT,
            "error": OBJECT,
        }
    )


def _evidence(shape: Shape) -> Part:
    return closed(dict.fromkeys(shape.evidence or (), EVIDENCE))


def _accounts(shape: Shape) -> Part:
    return closed(
        {
            name: closed({**SPENT, **{f"{one}_left": SPENT.get(one, NUMBER) for one in limited}})
            for name, limited in (shape.accounts or {}).items()
        }
    )


def _values(shape: Shape) -> Part:
    return replace(part_of_value(shape.values), closed=True, open=False)


_TYPED = {"args": _args, "result": _result, "evidence": _evidence, "accounts": _accounts, "values": _values}
"""Variables whose types a shape tells, and how."""


def _digest(shape: Shape, root: str) -> bytes:
    """What tells one shape of this variable from another; empty if nothing is known of it."""
    known = shape._digests.get(root)  # noqa: SLF001 - its own, found out late
    if known is None:
        known = shape._digests[root] = _digest_of(shape, root)  # noqa: SLF001
    return known


def _digest_of(shape: Shape, root: str) -> bytes:
    about = getattr(shape, root)
    if root == "result" and shape.way is not None:
        about = {type(shape.way).__name__: shape.way.model_dump(mode="json")}
    if about is None:
        return b""
    owner = {"args": shape.tool, "result": shape.probe}.get(root, "")
    try:
        spelled = canonical([root, owner, _plain(about)])
    except NotStrictJson:
        return b""
    return hashlib.sha256(spelled).digest() if len(spelled) <= MAX_SCHEMA_BYTES else b""


def _plain(about: Any) -> Any:
    if isinstance(about, Mapping):
        return {name: list(one) if isinstance(one, tuple) else one for name, one in about.items()}
    return list(about)


def _line_and_column(expression: str, at: int) -> tuple[int, int]:
    before = expression[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1
