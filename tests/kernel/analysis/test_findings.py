"""Each finding has a policy that shows it, and one beside it, a word away, about which there is nothing to say."""

from typing import Any

import pytest

from gateway.kernel.analysis import CODES, findings
from gateway.model.flaws import Place
from tests.kernel.analysis.shown_rules import RULES, Fields
from tests.kernel.analysis.shown_runs import DO, PROVE, RUNS
from tests.kernel.analysis.shown_tools import TOOLS
from tests.kernel.analysis.shown_undo import UNDOING
from tests.kernel.analysis.written import found, policy, rule, staged, told

SHOWN = [*RULES, *TOOLS, *UNDOING]


def test_the_policies_that_the_others_differ_from_are_quiet() -> None:
    assert found(policy()) == []
    assert found(staged()) == []


@pytest.mark.parametrize(
    ("code", "place", "shown", "near"), SHOWN, ids=[f"{one[0]}-{at}" for at, one in enumerate(SHOWN)]
)
def test_it_is_found_where_it_is_and_not_a_word_away(code: str, place: Place, shown: Fields, near: Fields) -> None:
    assert (code, place) in found(policy(**shown))
    assert code not in {it[0] for it in found(policy(**near))}


@pytest.mark.parametrize(
    ("code", "place", "shown", "near"), RUNS, ids=[f"{one[0]}-{at}" for at, one in enumerate(RUNS)]
)
def test_it_is_found_in_a_workflow_of_phases(code: str, place: Place, shown: Fields, near: Fields) -> None:
    assert (code, place) in found(staged(**shown))
    assert code not in {it[0] for it in found(staged(**near))}


def test_every_code_is_shown() -> None:
    assert {one[0] for one in (*SHOWN, *RUNS)} == set(CODES)


@pytest.mark.parametrize(("shown", "alone"), [(one[2], one[0]) for one in SHOWN if CODES[one[0]][0] == "error"])
def test_one_mistake_is_told_once(shown: Fields, alone: str) -> None:
    assert [it.code for it in findings(policy(**shown)) if it.severity != "note"] == [alone]


def test_a_finding_says_what_is_wrong_and_what_to_do() -> None:
    it = told(staged(transitions=[DO, {**PROVE, "authority": ["a", "b"]}], success=None), "transition-unauthorized")
    assert it.message == "no grant gives `a`, `b`, which `prove` needs"
    assert it.advice == "add it to a grant under `grants`, or do not ask for it"
    assert it.severity == "error"


def test_the_cheapest_way_is_told() -> None:
    phases: dict[str, Any] = {"work": {}, "next": {}, "done": {}}
    steps = [rule("go", "do", to="next"), {**PROVE, "from": ["next"]}]
    it = told(staged(phases=phases, transitions=steps, budgets={"calls": 1}), "budget-below-success")
    assert it.message == "the cheapest way to success takes 2 calls, and a run has 1 call: `go`, `prove`"
