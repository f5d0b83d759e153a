"""Each invariant can be broken, by a record that is a legal move; and what was not broken says nothing."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.kernel.audit import INVARIANTS, Step, breaches
from gateway.model.canonical import Digest, digest
from gateway.model.events import (
    Event,
)
from tests import world
from tests.audit.told import (
    BOSS,
    Told,
    a_decision,
    a_decision_too_late,
    a_move,
    a_receipt,
    a_reference,
    a_refutation,
    a_replay,
    a_replay_beside_open_calls,
    a_request,
    a_resending,
    a_second_decision,
    a_success,
    a_success_of_something_else,
    a_success_with_a_call_open,
    after_a_key_was_used,
    an_approved_intent,
    an_approved_intent_too_late,
    an_early_refutation,
    an_evidence,
    an_intent,
    one_request_too_many,
    unsent_in_a_later_round,
    unsent_the_second_time,
)

Row = tuple[str, Callable[[], tuple[Told, Event]], dict[str, Any], list[tuple[str, str]]]


def says(step: Step) -> list[tuple[str, str]]:
    assert all(breach.where == step.record.id for breach in breaches(step))
    return [(breach.invariant, breach.says) for breach in breaches(step)]


SPENT = {"calls": 5, "mutations": 5}

ROWS: list[Row] = [
    ("a new key", after_a_key_was_used, {}, []),
    (
        "a used key",
        after_a_key_was_used,
        {"key": {"source": "caller", "value": "k"}},
        [("I2", "its key had an intent already, `run_1.2`")],
    ),
    ("a replay", a_replay_beside_open_calls, {}, []),
    (
        "a replay of what is open",
        a_replay_beside_open_calls,
        {"attempt": "run_1.4"},
        [
            ("I5", "it was answered from the record of `run_1.4`, which was open"),
            ("I6", "a call of `write` was answered from the record of `run_1.4`, a call of `read`"),
        ],
    ),
    (
        "a replay of another tool's",
        a_replay_beside_open_calls,
        {"attempt": "run_1.5"},
        [("I6", "a call of `write` was answered from the record of `run_1.5`, a call of `pay`")],
    ),
    ("a replay of another run's", a_replay, {"attempt": "run_9.2"}, []),
    ("a refutation", a_refutation, {}, []),
    (
        "an early refutation",
        an_early_refutation,
        {},
        [("I7", "`run_1.2` is said not to have happened, and could until 2027-01-15T08:01:30+00:00")],
    ),
    (
        "unsent after a round",
        unsent_in_a_later_round,
        {},
        [("I7", "`run_1.2` is said to be unsent, and was sent before")],
    ),
    ("a reference to the same result", a_reference(), {}, []),
    *(
        (name, made, {}, [("I6", "its result was told as that of `run_1.2`, which the client had not got")])
        for name, made in (
            ("a reference to another result", a_reference(result=Digest("c1:another"))),
            ("a reference to what was not delivered as such", a_reference(told_bytes=None)),
            ("a reference to nothing", a_receipt(repeats="run_1.2")),
        )
    ),
    ("a receipt", a_receipt(), {}, []),
    ("a receipt of nothing", a_receipt(result=None), {}, [("I10", "the receipt has no answer of the upstream's")]),
    ("a person's word", a_receipt(source="person", result=None, by=BOSS, reason="seen"), {}, []),
    (
        "nobody's word",
        a_receipt(source="person", result=None, reason="seen"),
        {},
        [("I10", "a person's word has no name or no reason")],
    ),
    (
        "a word without a reason",
        a_receipt(source="person", result=None, by=BOSS),
        {},
        [("I10", "a person's word has no name or no reason")],
    ),
    ("a probe's finding", a_receipt(source="probe", reason="it knows of it", artifact=Digest("c1:found")), {}, []),
    ("a probe without one", a_receipt(source="probe", result=None), {}, [("I10", "the probe's finding is not there")]),
    ("sent again", a_resending(kind="key", key={"argument": "key"}, valid_s=3600), {}, []),
    (
        "sent again under no key",
        a_resending(kind="natural"),
        {},
        [("I4", "`run_1.2` was sent again, and policy names no key that its server honours")],
    ),
    (
        "sent again under an old key",
        a_resending(kind="key", key={"argument": "key"}, valid_s=90),
        {},
        [("I4", "`run_1.2` was sent again when its server had forgotten its key")],
    ),
    (
        "unsent the second time",
        unsent_the_second_time,
        {},
        [("I7", "`run_1.2` is said to be unsent, and was sent before")],
    ),
    ("an intent", an_intent(budgets={"calls": 1, "mutations": 1}), {}, []),
    (
        "an intent beyond the budget",
        an_intent(budgets={"calls": 4}),
        {"charge": SPENT},
        [("I11", "with it the run has spent 5 calls of 4")],
    ),
    ("a budget that only observes", an_intent(budgets={"calls": 4}), {"charge": SPENT, "waived": ("budget",)}, []),
    (
        "an intent that sets aside beyond the budget",
        an_intent(budgets={"calls": 4}),
        {"undo": {"tool": "pay", "charge": {"calls": 4}}},
        [("I11", "with it the run has spent 5 calls of 4")],
    ),
    ("a request", a_request, {}, []),
    ("a request too many", one_request_too_many, {}, [("I11", "with it the run has spent 2 reviews of 1")]),
    (
        "a receipt that gives back",
        a_receipt(),
        {"size_bytes": -40},
        [("I11", "with it the run has spent -10 tokens")],
    ),
    ("an approved intent", an_approved_intent, {}, []),
    (
        "other arguments than were approved",
        an_approved_intent,
        {"arguments": digest({"n": 2}, world.SALT)},
        [("I13", "`{approval}` was given for another action")],
    ),
    (
        "another definition than was approved",
        an_approved_intent,
        {"definition": digest({"other": 2}, world.SALT)},
        [("I13", "`{approval}` was given for another action")],
    ),
    (
        "an approval that another transition asked for",
        an_approved_intent,
        {"transition": "other"},
        [
            ("I13", "`{approval}` was asked for by `ask`, and `other` used it"),
            ("I17", "the policy has no transition `other` for `write`"),
        ],
    ),
    (
        "an approval that is over",
        an_approved_intent_too_late,
        {},
        [("I14", "`{approval}` had expired at 2027-01-16T08:00:00+00:00")],
    ),
    ("a decision", a_decision, {}, []),
    (
        "a decision that is too late",
        a_decision_too_late,
        {},
        [("I14", "`{approval}` had expired at 2027-01-16T08:00:00+00:00")],
    ),
    (
        "a decision by who asks",
        a_decision,
        {"by": {"tenant": "local", "id": "local:user", "roles": ("boss",)}},
        [("I15", "`local:user` answered what they had asked for themselves")],
    ),
    (
        "a decision without the role",
        a_decision,
        {"by": {"tenant": "local", "id": "eve"}},
        [("I15", "`eve` has not the role `boss`")],
    ),
    (
        "a decision of one who answered",
        a_second_decision,
        {"by": {"tenant": "local", "id": "ann", "roles": ("boss",)}},
        [("I15", "`ann` answered twice")],
    ),
    (
        "another phase",
        an_intent(),
        {"phase": "other"},
        [("I17", "it was judged in the phase `other`, and the run was in `open`")],
    ),
    (
        "another policy",
        an_intent(),
        {"policy": "c1:other"},
        [("I17", "it was judged by another policy than the run was under")],
    ),
    (
        "another principal",
        an_intent(),
        {"observed": {"principal": {"tenant": "local", "id": "eve"}}},
        [("I17", "`eve` was allowed a call in a run of `local:user`")],
    ),
    ("more roles", an_intent(), {"observed": {"principal": {"tenant": "local", "id": "local:user"}}}, []),
    (
        "a check that refused",
        an_intent(),
        {"checks": ({"check": "authority", "passed": False},)},
        [("I17", "the check `authority` had refused it")],
    ),
    (
        "a check that only observes",
        an_intent(),
        {"checks": ({"check": "authority", "passed": False},), "waived": ("authority",)},
        [],
    ),
    ("no transition", an_intent(), {"transition": None}, [("I17", "no transition allowed it")]),
    (
        "a transition for another tool",
        an_intent(transitions=[{"name": "one", "tools": ["write"]}, {"name": "two", "tools": ["pay"]}]),
        {"transition": "two"},
        [("I17", "the policy has no transition `two` for `write`")],
    ),
    (
        "a transition from another phase",
        an_intent(
            phases={"open": {}, "made": {}},
            transitions=[
                {"name": "one", "tools": ["write"], "from": ["open"], "to": "made"},
                {"name": "two", "tools": ["write"], "from": ["made"]},
            ],
        ),
        {"transition": "two"},
        [("I17", "the transition `two` does not start from the phase `open`")],
    ),
    (
        "no yes where one is wanted",
        an_approved_intent,
        {"approval": None},
        [("I17", "the transition `ask` wants a person's yes")],
    ),
    ("a move", a_move(), {}, []),
    ("a move without proof", a_move("fail"), {}, [("I19", "the run came to `made`, and `t` did not pass")]),
    ("a success", a_success(), {}, []),
    (
        "a success by nothing",
        a_success(),
        {"evidence": ()},
        [("I19", "it succeeded by what is no fresh evidence that something holds")],
    ),
    (
        "a success by another record",
        a_success(),
        {"evidence": (2,)},
        [("I19", "it succeeded by what is no fresh evidence that something holds")],
    ),
    (
        "a success by its own word",
        a_success(self_reported=True),
        {},
        [("I19", "it succeeded by what is no fresh evidence that something holds")],
    ),
    (
        "a success of something else",
        a_success_of_something_else,
        {},
        [("I19", "it succeeded without fresh evidence of `t`")],
    ),
    (
        "a success too early",
        a_success_with_a_call_open,
        {},
        [("I19", "it succeeded while `run_1.5` was not settled")],
    ),
    ("an evidence", an_evidence, {}, []),
    (
        "an evidence from the future",
        an_evidence,
        {"after": 4},
        [("I19", "its probe is said to have started at record 4, which was not there yet")],
    ),
]


@pytest.mark.parametrize(("made", "changes", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_broken_is_told_and_nothing_else(
    made: Callable[[], tuple[Told, Event]], changes: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    told, event = made()
    changed = event.model_validate({**event.model_dump(), **changes}) if _valid(changes) else event
    step = told.step(changed, **({} if _valid(changes) else changes))
    approval = next(iter(step.after.approvals), "")
    assert says(step) == [(number, text.replace("{approval}", approval)) for number, text in expected]


def _valid(changes: dict[str, Any]) -> bool:
    return "size_bytes" not in changes


def test_every_invariant_has_a_function_or_says_who_sees_to_it() -> None:
    assert [number for number, one in INVARIANTS.items() if not one.of_steps and not one.elsewhere] == []
    broken = {number for _, _, _, expected in ROWS for number, _ in expected}
    assert {number for number, one in INVARIANTS.items() if one.of_steps} == broken


def test_without_the_text_of_its_policy_a_run_is_not_judged_by_it() -> None:
    told, event = an_intent(budgets={"calls": 4})()
    step = told.step(event, transition="gone")
    assert says(Step(step.before, step.record, step.after, None)) == []
