"""Which of two transitions asks less of a call: what whoever lacks the authority for the one may not fall to."""

from typing import Any

import pytest

from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.rules import compensation_of
from gateway.kernel.strict import as_strict
from gateway.model.record import utc
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import TOOLS

ROWS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a person is asked": ({}, {"approval": {"when": ["args.n > 1"]}}),
    "a person is always asked": ({"approval": {"when": ["args.n > 1"]}}, {"approval": {}}),
    "more people are asked": ({"approval": {}}, {"approval": {"quorum": 2}}),
    "people of a role are asked": ({"approval": {}}, {"approval": {"role": "boss"}}),
    "another than who asks is asked": ({"approval": {"self_review": True}}, {"approval": {}}),
    "more must be true of the world": ({"preconditions": ["t"]}, {"preconditions": ["u", "t"]}),
    "it is repeated only if it was not sent": ({}, {"retry": "unsent"}),
    "it is never repeated": ({"retry": "unsent"}, {"retry": "never"}),
    "it is sent a few times": ({}, {"max_attempts": 3}),
    "it is sent fewer times": ({"max_attempts": 3}, {"max_attempts": 2}),
    "it costs more calls": ({}, {"charge": {"calls": 2}}),
    "it costs more mutations": ({}, {"charge": {"mutations": 2}}),
    "it reserves tokens": ({}, {"charge": {"tokens": 2}}),
    "what undoes it must be paid as well": (
        {"verify": "t"},
        {"verify": "t", "compensation": {"tool": "write"}},
    ),
    "it costs more": ({"charge": {"cost": 0.1}}, {"charge": {"cost": 0.2}}),
    "it refuses": ({"mode": "observe"}, {"mode": "enforce"}),
}


@pytest.mark.parametrize("what", ROWS)
def test_what_asks_for_more_is_as_strict_as_what_asks_for_less_and_not_the_other_way(what: str) -> None:
    told = [{"name": f"t{at}", "tools": ["pay"]} | one for at, one in enumerate(ROWS[what])]
    rules = world.rules(transitions=told, verifiers={"t": made.VERIFIER, "u": made.VERIFIER})
    lax, strict = rules.policy.transitions
    ruled = rules.ruled(TOOLS["pay"])
    assert as_strict(strict, lax, ruled, rules)
    assert not as_strict(lax, strict, ruled, rules)
    assert as_strict(lax, lax, ruled, rules)
    assert as_strict(strict, strict, ruled, rules)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"when": ["args.n > 1"]}, {"when": ["args.n > 2"]}),
        ({"role": "boss"}, {"role": "peer"}),
        ({"role": "boss"}, {"quorum": 2}),
    ],
)
def test_of_two_that_ask_other_people_or_in_other_cases_neither_is(one: dict[str, Any], other: dict[str, Any]) -> None:
    told = [{"name": f"t{at}", "tools": ["pay"], "approval": each} for at, each in enumerate((one, other))]
    rules = world.rules(transitions=told)
    first, second = rules.policy.transitions
    ruled = rules.ruled(TOOLS["pay"])
    assert (as_strict(first, second, ruled, rules), as_strict(second, first, ruled, rules)) == (
        False,
        False,
    )


def test_each_transition_that_gives_way_says_to_which_and_why() -> None:
    told = [
        {"name": "r", "tools": ["*"], "authority": ["a"], "approval": {}},
        {"name": "s", "tools": ["*"], "charge": {"calls": 2}},
        {"name": "t", "tools": ["*"]},
        {"name": "u", "tools": ["*"], "when": ["args.n > 9"]},
    ]
    rules = world.rules(transitions=told)
    found = made.judge(world.opened(rules), world.proposal("pay", {"n": 1}), rules, made.Seen(), world.T0)
    lacks = "`local:user` lacks the authority `a`"
    assert found.checks[-1].inputs["unmet"] == {
        "r": lacks,
        "s": f"`s` asks less than `r`: {lacks}",
        "t": f"`t` asks less than `r`: {lacks}",
        "u": "the condition `args.n > 9` does not hold",
    }


def test_what_undoes_a_call_is_what_its_transition_says_or_else_its_tool() -> None:
    policy = world.policy(
        tools={"x": {}, "p*": {"compensation": {"tool": "undo"}}, "*": {"compensation": {"tool": "never"}}},
        transitions=[
            {"name": "a", "tools": ["*"], "compensation": {"tool": "own"}},
            {"name": "b", "tools": ["*"]},
        ],
    )
    asked = [("pay", "a"), ("pay", "b"), ("pay", None), ("x", "b"), ("x", "a")]
    undone = [compensation_of(policy, *one) for one in asked]
    assert [one.tool if one is not None else None for one in undone] == ["own", "undo", "undo", None, "own"]
    assert compensation_of(world.policy(tools={}), "pay", "gone") is None


def test_who_lacks_a_permission_is_not_spared_by_observing_what_who_has_it_is_not() -> None:
    """Found by a property: the one had to ask a person, and the other, who may do less, was let through."""
    fields: dict[str, Any] = {
        "mode": "observe",
        "tools": {"pay": {"effect": "write", "permissions": ["money"]}},
        "transitions": [
            {"name": "asks", "tools": ["pay"], "mode": "enforce", "approval": {}},
            {"name": "watches", "tools": ["pay"]},
        ],
    }
    for grants, kind in (([{"authority": ["money"]}], "approval.requested"), ([], "proposal.denied")):
        rules = world.rules(**fields, grants=grants)
        observed = Observed(TOOLS["pay"], None, salt=world.SALT)
        found = decide(world.opened(rules), world.proposal("pay"), rules, observed, utc(world.T0))
        assert not isinstance(found, Gather)
        assert found.kind == kind
