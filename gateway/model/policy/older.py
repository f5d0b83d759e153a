"""The text of a policy as an earlier version stored it -> the same in the language as it is now.

A run is judged by the text that it began under, however old; and what it left unsettled holds its effect for all, so it
must be possible to settle it. A text in a ledger has every field, so one that it lacks is one that there was not.
"""

from collections.abc import Mapping
from typing import Any

from gateway.model.canonical import digest


def newer(text: Any) -> Any:
    """The text as this version reads it; one of this version, and what is no policy at all, as it is."""
    if not isinstance(text, Mapping):
        return text
    said = dict(text)
    if isinstance(said.get("tools"), Mapping):
        _tools(said)
    if isinstance(said.get("transitions"), list):
        said["transitions"] = [_transition(one) for one in said["transitions"]]
    stops = said.get("stops")
    if isinstance(stops, Mapping) and isinstance(stops.get("repeated_state"), Mapping):
        # Before there was `reads`, what succeeded was no repetition.
        said["stops"] = {**stops, "repeated_state": {"reads": None, **stops["repeated_state"]}}
    return said


def _tools(said: dict[str, Any]) -> None:
    """`idempotency_key` is a kind of `idempotency`. A `pin` was a digest of more than is pinned now, so nobody can tell
    whether the tool is as it was: it is withheld from these runs.
    """
    tools, pins = {}, dict(said.get("pins") or {})
    for pattern, rule in said["tools"].items():
        if not isinstance(rule, Mapping):
            return
        kept = {name: value for name, value in rule.items() if name not in {"idempotency_key", "pin"}}
        if rule.get("idempotency_key") is not None:
            kept["idempotency"] = {"kind": "key", "key": rule["idempotency_key"]}
        if rule.get("pin") is not None:
            pins[pattern] = {"digest": digest({}, b""), "definition": {}}
            if "*" in pattern:
                said["unpinned"] = "withhold"  # nobody knows any more which tools it meant
        tools[pattern] = kept
    said |= {"tools": tools, "pins": pins}


def _transition(told: Any) -> Any:
    """Before there was `self_review`, whoever held the ledger could answer."""
    approval = told.get("approval") if isinstance(told, Mapping) else None
    if not isinstance(approval, Mapping) or "self_review" in approval:
        return told
    return {**told, "approval": {**approval, "self_review": True}}
