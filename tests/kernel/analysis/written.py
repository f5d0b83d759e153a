"""Policies for tests: the smallest one about which there is nothing to say, and others that differ from it."""

from typing import Any

from gateway.kernel.analysis import Found, findings
from gateway.model.policy import Policy


def rule(name: str, *tools: str, **more: Any) -> dict[str, Any]:
    """A transition, or a forbid rule."""
    return {"name": name, "tools": list(tools or ("do",)), **more}


def verifier(tool: str = "look", *passes: str, **more: Any) -> dict[str, Any]:
    """A verifier, of a call: what it asks hangs on its arguments."""
    return {
        "probe": {"tool": tool, "arguments_from": {"what": "args.what"}},
        "pass": list(passes or ("result.ok == true",)),
        **more,
    }


QUIET: dict[str, Any] = {
    "workflow": "w",
    "transitions": [rule("do")],
    "cases": [{"name": "c", "call": {"tool": "do"}, "expect": {"outcome": "allowed", "rule": "do"}}],
}

STAGED: dict[str, Any] = {
    "phases": {"work": {}, "done": {}},
    "tools": {"look": {"effect": "read"}, "do": {"effect": "write"}, "prove": {"effect": "read"}},
    "transitions": [
        rule("do", "do", **{"from": ["work"]}),
        rule("prove", "prove", "look", **{"from": ["work"], "verify": "tests", "to": "done"}),
    ],
    "verifiers": {"tests": verifier()},
    "success": {"evidence": ["tests"], "phase": "done"},
}
"""Work, then a proof that ends it."""


def policy(**fields: Any) -> Policy:
    """The quiet policy with these parts instead of its own; cases that no longer fit fall away."""
    whole = {**QUIET, **fields}
    if "transitions" in fields and "cases" not in fields:
        # Rules that no case cites are noted; a case that names none may be about any of them.
        tools = dict.fromkeys(tool.replace("*", "x") for one in fields["transitions"] for tool in one["tools"])
        tools |= dict.fromkeys(tool.replace("*", "x") for one in fields.get("forbid", []) for tool in one["tools"])
        whole["cases"] = [{"name": tool, "call": {"tool": tool}, "expect": {"outcome": "denied"}} for tool in tools]
    return Policy.model_validate(whole)


def staged(**fields: Any) -> Policy:
    """The staged policy with these parts instead of its own."""
    return policy(**{**STAGED, **fields})


def found(one: Policy) -> list[tuple[str, tuple[str | int, ...]]]:
    """What is found in it: codes with their places."""
    return [(it.code, it.place) for it in findings(one)]


def told(one: Policy, code: str) -> Found:
    """The one finding of that code."""
    (it,) = [it for it in findings(one) if it.code == code]
    return it
