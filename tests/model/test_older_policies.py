"""Texts of policies that earlier versions stored are still read, and bind as they did or more."""

from typing import Any

import pytest

from gateway.kernel.registry import is_pinned
from gateway.model.policy import Policy
from gateway.model.policy.older import newer
from gateway.model.tool import Tool

KEY = {"argument": "key", "header": None, "meta": None}


def before(**rule: Any) -> dict[str, Any]:
    """A text with every field that there was before the registry, accounts and `self_review`."""
    stored = {"effect": "write", "permissions": [], "timeout_s": 60.0, "grace_s": 30.0, "repeat": "hold"}
    approval = {"reason": "policy asks", "role": None, "expires_s": 86400.0}
    transition = {
        "name": "t",
        "tools": ["*"],
        "effect": [],
        "from": [],
        "when": [],
        "authority": [],
        "charge": {"calls": 1, "mutations": None},
        "timeout_s": None,
        "verify": None,
        "to": None,
        "on": {},
        "approval": approval,
    }
    return {
        "workflow": "w",
        "description": "",
        "mode": "enforce",
        "annotations": "tighten",
        "grants": [{"principal": "*", "tenant": "*", "roles": [], "authority": ["a"]}],
        "tools": {"pay": {**stored, "schema": "enforce", "idempotency_key": None, "pin": None, **rule}},
        "phases": {"open": {"description": ""}},
        "transitions": [transition, {**transition, "name": "free", "approval": None}],
        "forbid": [{"name": "f", "tools": ["*"], "when": [], "reason": "no", "final": False}],
        "verifiers": {},
        "budgets": {"calls": 5, "mutations": None, "elapsed_s": None},
        "stops": {"deadline_s": None, "repeated_state": {"after": 3}, "final_denials": []},
        "success": None,
        "cases": [],
    }


def test_a_text_of_before_is_read_with_the_meaning_that_it_had() -> None:
    policy = Policy.model_validate(newer(before(idempotency_key=KEY)))
    found = policy.tools["pay"].idempotency
    assert found is not None
    assert (found.kind, found.key and found.key.argument) == ("key", "key")
    assert policy.pins == {}
    ask = policy.transitions[0].approval
    assert ask is not None
    assert ask.self_review is True
    assert policy.transitions[1].approval is None


def test_what_succeeded_was_no_repetition_before() -> None:
    limits = Policy.model_validate(newer(before())).stops.repeated_state
    assert limits is not None
    assert (limits.after, limits.reads) == (3, None)
    assert Policy.model_validate(newer({**before(), "stops": {}})).stops.repeated_state is None


@pytest.mark.parametrize("pattern", ["pay", "p*"])
def test_a_tool_that_was_pinned_stays_so(pattern: str) -> None:
    text = before(pin="c1:" + "0" * 64)
    text["tools"] = {pattern: text["tools"]["pay"]}
    policy = Policy.model_validate(newer(text))
    assert not is_pinned(Tool("pay", "u", "pay", {"name": "pay"}), policy)


def test_a_text_of_now_stays_as_it_is() -> None:
    rule = {"name": "t", "tools": ["*"], "approval": {"self_review": False}}
    tool = {"effect": "write", "idempotency": {"kind": "none"}}
    stops: dict[str, Any] = {"repeated_state": {}}
    policy = Policy.model_validate({"workflow": "w", "transitions": [rule], "tools": {"pay": tool}, "stops": stops})
    text = policy.model_dump(mode="json", by_alias=True)
    assert newer(text) == text


@pytest.mark.parametrize("text", [None, [], {}, {"tools": []}, {"tools": {"x": 1}}, {"transitions": [1, None]}])
def test_what_is_no_policy_is_left_for_others_to_refuse(text: Any) -> None:
    assert newer(text) == text
