"""A policy's own tests judge it as it means to be, also while it only observes."""

from typing import Any, get_args

from gateway.kernel.decide import CHECKS
from gateway.model.policy import Check
from gateway.runtime.cases import wrong_cases
from tests import world

CASES: dict[str, Any] = {
    "forbid": [{"name": "no", "tools": ["write"], "when": ['args.path == "b"']}],
    "cases": [
        {
            "name": "refused",
            "call": {"tool": "write", "arguments": {"path": "b"}},
            "expect": {"outcome": "denied", "check": "conditions", "rule": "no"},
        },
        {"name": "allowed", "call": {"tool": "write", "arguments": {"path": "a"}}, "expect": {"outcome": "allowed"}},
    ],
}
WOULD = {
    "name": "would be refused",
    "call": {"tool": "write", "arguments": {"path": "b"}},
    "expect": {"outcome": "allowed", "would_refuse": ["conditions"]},
}


def test_turning_a_policy_to_observe_breaks_no_case() -> None:
    assert wrong_cases(world.rules(**CASES)) == {}
    assert wrong_cases(world.rules(**CASES, mode="observe")) == {}


def test_a_case_that_says_what_would_be_refused_is_judged_in_the_policys_own_mode() -> None:
    fields = CASES | {"cases": [WOULD]}
    assert wrong_cases(world.rules(**fields, mode="observe")) == {}
    assert list(wrong_cases(world.rules(**fields))) == ["would be refused"]


def test_a_rule_that_only_observes_does_so_in_cases_too() -> None:
    forbid = [CASES["forbid"][0] | {"mode": "observe"}]
    assert list(wrong_cases(world.rules(**CASES | {"forbid": forbid}))) == ["refused"]
    assert wrong_cases(world.rules(**CASES | {"forbid": forbid, "cases": [WOULD]})) == {}


def test_a_case_may_name_each_check_and_nothing_else() -> None:
    assert tuple(CHECKS) == get_args(Check)
