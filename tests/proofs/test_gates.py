"""The rules of evidence one by one: kinds, freshness by objects, sampling, and what nothing was seen of."""

import itertools
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.fresh import overtaken, stale
from gateway.kernel.stop import proves, stop
from gateway.model.events import EvidenceRecorded, IntentRecorded
from gateway.model.record import utc
from gateway.model.run import Evidence, Run
from tests import world
from tests.kernel import made

GRADES = ("independent", "opinion", "self_reported")
NOW = utc(world.T0)


def said(verdict: Any = "pass", **more: Any) -> EvidenceRecorded:
    return EvidenceRecorded(verifier="t", verdict=verdict, says="so", started_at=NOW, **more)


@pytest.mark.parametrize(
    ("verdict", "fresh", "self_reported", "opinion", "accept"),
    [*itertools.product(["pass", "fail", "inconclusive"], [True, False], [True, False], [True, False], GRADES)],
)
def test_a_gate_opens_for_a_fresh_pass_of_its_kind_alone(
    verdict: str, accept: Any, *, fresh: bool, self_reported: bool, opinion: bool
) -> None:
    held = Evidence(3, said(verdict, self_reported=self_reported, opinion=opinion), fresh)
    grade = "self_reported" if self_reported else "opinion" if opinion else "independent"
    right = verdict == "pass" and fresh and GRADES.index(grade) <= GRADES.index(accept)
    assert proves(held, accept) == right
    rules = world.rules(
        verifiers={"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
        success={"evidence": ["t"], "accept": accept},
    )
    run = world.opened(rules)._replace(evidence=Run("").evidence.insert("t", held))
    assert (stop(run, rules, NOW) is not None) == right


OBJECTS = st.none() | st.lists(st.sampled_from("ABC"), unique=True, max_size=3).map(tuple)


@given(about=st.lists(st.sampled_from("ABC"), unique=True, max_size=3), wrote=OBJECTS, covered=st.booleans())
def test_a_write_leaves_fresh_what_is_about_others_and_nothing_else(about: Any, wrote: Any, *, covered: bool) -> None:
    rules = world.rules(tools={"write": {"effect": "write", "objects": ["args.o"]}})
    event = said(about=tuple(about), covers=("write",) if covered else ("pay",), after=1)
    run = world.after(world.opened(rules), event)
    concerned = covered and (not about or not wrote or bool({*about} & {*wrote}))
    assert run.evidence["t"].fresh
    assert stale(run, "write", wrote)["t"].fresh != concerned
    told = {} if wrote is None else {"o": list(wrote)}
    intent = made.judge(run, world.proposal("write", told), rules, made.Seen(), world.T0)
    assert isinstance(intent, IntentRecorded)
    written = world.after(run, intent)
    assert written.evidence["t"].fresh != concerned
    # What looks while it is open, or had begun to look before, is overtaken by the same rule.
    assert overtaken(written, event.model_copy(update={"after": written.version})) == concerned
    assert overtaken(written, event) == concerned


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_the_same_calls_are_sampled_again_and_about_as_many_as_policy_says(part: float) -> None:
    rules = world.rules(
        verifiers={"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
        transitions=[{"name": "look", "tools": ["read"], "verify": "t", "sample": part}],
    )

    def drawn() -> list[bool]:
        taken = []
        for number in range(300):
            run = world.opened(rules, run=f"run_{number}")
            seen = made.judge(run, world.proposal("read", run=run.id), rules, made.Seen(), world.T0)
            assert isinstance(seen, IntentRecorded)
            taken.append(seen.verifier is not None)
        return taken

    first = drawn()
    assert first == drawn()
    assert abs(sum(first) / len(first) - part) < 0.1


def test_what_nothing_was_seen_of_changes_nothing_but_what_is_known_of_it() -> None:
    rules = world.rules(
        phases={"open": {}, "done": {}, "doubt": {}},
        transitions=[
            {"name": "w", "tools": ["write"], "verify": "t", "to": "done", "on": {"verification_failed": "doubt"}}
        ],
        verifiers={"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
        success={"evidence": ["t"]},
    )
    opened = world.opened(rules)
    before = world.after(opened, said("pass", after=1))
    assert stop(before, rules, NOW) is not None
    after = world.after(before, said("inconclusive", after=2, cost=5).model_copy(update={"duration_s": 1.0}))
    assert stop(after, rules, NOW + timedelta(days=1)) is None
    kept = {"version", "head", "evidence", "last_at"}
    same = {name for name in Run._fields if getattr(before, name) == getattr(after, name)}
    assert {*Run._fields} - same <= kept
