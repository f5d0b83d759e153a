"""One tool in full: each thing that a policy may say of it, whether said, by default, or inferred."""

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gateway.cli.differences import text_lines
from gateway.cli.plain import visible
from gateway.kernel.registry import PINNED
from gateway.model.policy import Compensation, Idempotency, Rate, ToolRule
from gateway.outbound.block_yaml import block_yaml

if TYPE_CHECKING:
    from gateway.cli.entries import Entry

LABEL = 14
"""Characters of the left column."""


def sheet(entry: "Entry") -> str:
    """The whole entry, a line or more for each thing, and the definition below."""
    tool = entry.tool
    lines = [visible(tool.name), *(f"  {label:<{LABEL}} {text}" for label, text in _facts(entry))]
    lines += ["", *_definition(tool.definition)]
    if entry.diff:
        lines += ["", "not as it was pinned:", *(f"  {line}" for line in entry.diff)]
    if entry.first:
        lines += ["", "look at this first (a hint, no check):", *(f"  ! {one}" for one in entry.first)]
    return "\n".join([*lines, ""])


def _facts(entry: "Entry") -> Iterator[tuple[str, str]]:
    known, rule, tool = entry.known, entry.known.rule, entry.tool
    guesses = known.guesses

    def inferred(what: str, text: str) -> str:
        return f"{text}~   (inferred: {visible(guesses[what])})" if what in guesses else text

    if tool.upstream:
        own = f", as `{visible(tool.own_name)}`" if tool.own_name != tool.name else ""
        trouble = "" if tool.healthy else f" ({visible(tool.trouble or 'it cannot be called')})"
        yield "server", f"{tool.upstream}{own}{trouble}"
    yield "entry", visible(known.pattern) if known.pattern is not None else "none in the policy's registry names it"
    yield "effect", inferred("effect", str(known.effect))
    yield "permissions", ", ".join(rule.permissions) or "none"
    yield "repeated", inferred("idempotency", _idempotency(known.idempotency, rule.idempotency))
    yield "equal calls", f"{_REPEATS[rule.repeat]}{_default(rule, 'repeat')}"
    yield "time", f"{rule.timeout_s:g} s, then {rule.grace_s:g} s of grace{_default(rule, 'timeout_s', 'grace_s')}"
    yield "rate", _rate(rule.rate)
    yield "cost", f"{rule.cost:g} a call{_default(rule, 'cost')}"
    yield "result", "of any size" if rule.result_tokens is None else f"at most {rule.result_tokens} tokens"
    yield "data class", rule.data_class or "none said"
    yield "undone", inferred("reversible", _undone(known.reversible, rule.compensation))
    yield "schema", f"{rule.arguments_schema}{_default(rule, 'arguments_schema')}"
    yield "failures", ", ".join(rule.failures) or "none told apart"
    yield "version", visible(rule.version or "none said")
    yield "pin", _pin(entry)
    yield "transitions", ", ".join(entry.transitions) or "none: every call is denied"
    yield "forbids", ", ".join(entry.forbids) or "none"


_REPEATS: Mapping[str, str] = {
    "hold": "wait for the first",
    "replay": "get the first one's answer, for the whole run",
    "new": "may overlap",
}


def _default(rule: ToolRule, *fields: str) -> str:
    return "" if rule.model_fields_set.intersection(fields) else "   (default)"


def _idempotency(kind: str, said: Idempotency | None) -> str:
    if said is not None and said.key is not None:
        place, name = next((place, name) for place, name in said.key.model_dump().items() if name is not None)
        valid = f", known for {said.valid_s:g} s" if said.valid_s is not None else ""
        return f"key, in the {place} `{visible(name)}`{valid}"
    if said is not None and said.query is not None:
        return f"query, by `{visible(said.query.probe.tool)}`"
    return {"natural": "natural (twice is as once)", "none": "none (twice is twice)"}.get(kind, kind)


def _rate(rate: Rate | None) -> str:
    if rate is None:
        return "no limit"
    whose = f"of each {' and '.join(rate.by)}" if rate.by else "of all together"
    return f"{rate.calls} calls {'in all' if rate.per == 'ever' else f'per {rate.per}'}, {whose}"


def _undone(kind: str, compensation: Compensation | None) -> str:
    return f"{kind}, by `{visible(compensation.tool)}`" if compensation is not None else kind


def _pin(entry: "Entry") -> str:
    calls = "calls are withheld" if entry.withheld else "calls pass"
    if entry.pin == "changed":
        return f"CHANGED in {', '.join(entry.changed) or 'its digest'}: {calls}"
    return "pinned" if entry.pin == "pinned" else f"unpinned: {calls}"


def _definition(definition: Mapping[str, Any]) -> Iterator[str]:
    """What a model reads of it, and the schemas."""
    if not definition:
        yield "no definition: no server was asked, and it is not pinned"
        return
    for part in PINNED:
        value = definition.get(part)
        if isinstance(value, str):
            yield f"{part}:"
            yield from (f"  {line}" for line in text_lines(value))
        elif isinstance(value, Mapping):
            yield f"{part}:"
            yield from (block_yaml(value, 2).splitlines() if value else ["  {}"])
        elif value is not None:
            yield f"{part}: {json.dumps(value)}"
