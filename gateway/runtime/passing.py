"""(an upstream's answer, policy) -> what is told of it: as it is, but for what nobody sees in it, as policy says. Pure.

What is stored is always as it came, so that evidence, recovery and people see what the server said.
"""

from collections.abc import Mapping
from typing import Any, Literal

from gateway.kernel.registry import rule_of
from gateway.kernel.rules import Rules
from gateway.model.answer import RECORD_KEY, Shown, unforged
from gateway.model.hidden import MORE, hidden, unhidden
from gateway.model.run import Attempt, Run
from gateway.runtime import tell


def passed_on(
    run: Run,
    rules: Rules,
    attempt: Attempt,
    payload: Mapping[str, Any],
    said: Mapping[str, Any],
    awaits: Literal["input", "task"] | None = None,
) -> Shown:
    """The answer of the attempt, `payload` with the record `said`; with `awaits` it is no end."""
    rule = rule_of(attempt.intent.tool, rules.policy)
    if rule.hidden == "pass" and rule.trust is None:
        return _shown(run, attempt, payload, said, awaits)
    label: dict[str, Any] = {} if rule.trust is None else {"trust": rule.trust}
    read = {key: value for key, value in payload.items() if key != "_meta"}
    found = hidden(read) if rule.hidden != "pass" else {}
    if found:
        strips = rule.hidden == "strip" and MORE not in found
        seen = unhidden(read) if strips else read
        left = hidden(seen) if strips else found  # in a key, or too much to be taken out
        if awaits is None and (rule.hidden == "refuse" or (rule.hidden == "strip" and left)):
            return Shown(run.id, attempt.id, refusal=tell.unpassed(run, rules, attempt, found))
        payload = {**payload, **seen}
        label["hidden"] = {"done": "stripped" if strips and not left else "flagged", "characters": found}
    if not label:
        return _shown(run, attempt, payload, said, awaits)
    if attempt.answer == "error" and awaits is None:
        return Shown(run.id, attempt.id, error=_labelled(payload, label), record={**said, **label})
    return _shown(run, attempt, payload, {**said, **label}, awaits)


def _shown(
    run: Run,
    attempt: Attempt,
    payload: Mapping[str, Any],
    said: Mapping[str, Any],
    awaits: Literal["input", "task"] | None,
) -> Shown:
    if awaits is None and attempt.answer == "error":
        return Shown(run.id, attempt.id, error=unforged(payload), record=said)
    asked = attempt.asked if awaits == "input" else None
    return Shown(run.id, attempt.id, payload, record=said, awaits=awaits, round=asked)


def _labelled(error: Mapping[str, Any], label: Mapping[str, Any]) -> Mapping[str, Any]:
    """A JSON-RPC error has no `_meta`: the label stands in `data`, if that is an object or not there."""
    error = unforged(error)
    data = error.get("data", {})
    return {**error, "data": {**data, RECORD_KEY: dict(label)}} if isinstance(data, Mapping) else error
