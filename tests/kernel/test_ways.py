"""What a run lacks for its success: nothing, unless it is certain. And whether there is time for it."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.rules import Rules
from gateway.kernel.soonest import least, too_late
from gateway.kernel.stop import stop
from gateway.kernel.ways import ASSUMED, Offered, Usable, as_noted, lacking, noted, offered_by
from gateway.model.canonical import digest
from gateway.model.events import Charge, Effect, EvidenceRecorded, Outcome, PhaseMoved
from gateway.model.principal import Principal
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import Tool
from tests import world
from tests.kernel.made import MANY, lives, policies
from tests.kernel.test_decide import WRITE, intended, receipt

NOW = utc(world.T0)
TOOLS = [world.tool(name) for name in ("look", "edit", "push", "check")]
PUSH: dict[str, Any] = {
    "name": "push", "tools": ["push"], "from": ["changed"], "to": "done", "authority": ["push"], "takes_s": 20,
    "verify": "t", "charge": {"cost": 2},
}  # fmt: skip
EDIT: dict[str, Any] = {"name": "edit", "tools": ["edit", "write"], "to": "changed", "takes_s": 5}
WAY: dict[str, Any] = {
    "phases": {"open": {}, "changed": {}, "done": {}, "lost": {"ends": "infeasible"}},
    "tools": {"look": {"effect": "read"}, "edit": {"effect": "write"}, "push": {"effect": "write"}},
    "grants": [{"principal": "local:*", "authority": ["push"]}],
    "transitions": [EDIT, PUSH],
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"], "takes_s": 10}},
    "success": {"evidence": ["t"], "phase": "done"},
}


def way(**fields: Any) -> Rules:
    return world.rules(**WAY | fields)


def offer(by: Rules, *without: str, complete: bool = True, tools: list[Tool] = TOOLS) -> Offered:
    return offered_by(by, [one for one in tools if one.name not in without], complete=complete)


def lacks(by: Rules, offered: Offered | None, run: Run | None = None) -> list[tuple[str, str]]:
    found = lacking(run if run is not None else world.opened(by), by, offered, NOW)
    return [(lack.kind, lack.what) for lack in found]


def proven(run: Run, *, fresh: bool = True) -> Run:
    run = world.after(run, EvidenceRecorded(verifier="t", verdict="pass", says="t", started_at=NOW, after=run.version))
    held = run.evidence["t"]
    return run._replace(evidence=run.evidence.insert("t", replace(held, fresh=fresh)))


PINNED = {"edit": {"digest": "c1:" + "0" * 64, "definition": {"name": "edit"}}}
PINS = {"edit": {"digest": digest(PINNED["edit"]["definition"], b""), "definition": {"name": "edit"}}}
ROWS: dict[str, tuple[dict[str, Any], tuple[str, ...], list[tuple[str, str]]]] = {
    "all is there": ({}, (), []),
    "a tool on the way": ({}, ("edit",), [("tool", "edit")]),
    "the last tool": ({}, ("push",), [("tool", "push")]),
    "what a verifier asks": ({}, ("check",), [("tool", "check")]),
    "two of them": ({}, ("push", "check"), [("tool", "check"), ("tool", "push")]),
    "what nothing needs": ({}, ("look",), []),
    "authority": ({"grants": []}, (), [("authority", "push")]),
    "authority of a tool": (
        {"tools": WAY["tools"] | {"edit": {"effect": "write", "permissions": ["edit"]}}}, (), [("authority", "edit")]),
    "a pin": ({"pins": PINS}, (), [("withheld", "edit")]),
    "a pin that nobody made": (
        {"unpinned": "withhold", "pins": PINS}, (),
        [("withheld", "check"), ("withheld", "edit")]),
    "a budget": ({"budgets": {"cost": 1}}, (), [("budget", "cost")]),
    "a person who may not be asked": (
        {"budgets": {"reviews": 0}, "transitions": [EDIT, PUSH | {"approval": {}}]}, (), [("budget", "reviews")]),
    "no transition": ({"transitions": [EDIT, PUSH | {"from": ["done"]}]}, (), [("path", "done")]),
    "a forbidden step": ({"forbid": [{"name": "no", "tools": ["pu*"]}]}, (), [("forbidden", "no")]),
    "a condition that never holds": (
        {"transitions": [EDIT, PUSH | {"when": ["false"]}]}, (), [("condition", "push")]),
    "what is forbidden under a condition": ({"forbid": [{"name": "no", "when": ["args.n > 1"]}]}, (), []),
    "what only observes": (
        {"mode": "observe", "grants": [], "budgets": {"cost": 1}, "forbid": [{"name": "no"}]}, (), []),
    "a rule that only observes": (
        {"grants": [], "transitions": [EDIT, PUSH | {"mode": "observe"}]}, (), []),
    "one way of two": (
        {"grants": [], "transitions": [EDIT, PUSH, {"name": "ask", "tools": ["look"], "to": "done"}]}, (), []),
    "a way by a failure": ({"transitions": [{"name": "try", "tools": ["look"], "on": {"error": "done"}}]}, (), []),
    "a failure that the registry does not tell": (
        {"transitions": [{"name": "try", "tools": ["look"], "on": {"conflict": "done"}}]}, (), [("path", "done")]),
    "a way through the end of a run": (
        {"transitions": [EDIT | {"to": "lost"}, PUSH | {"from": ["lost"]}]}, (), [("path", "done")]),
    "an effect that no tool has": (
        {"transitions": [EDIT | {"effect": ["destructive"]}, PUSH]}, (), [("tool", "edit")]),
    "no success": ({"success": None}, ("push", "check"), []),
    "success without a phase": ({"success": {"evidence": ["t"]}}, ("push", "edit"), []),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_it_is_said_what_is_lacking_and_nothing_else(row: str) -> None:
    fields, missing, expected = ROWS[row]
    by = way(**fields)
    assert lacks(by, offer(by, *missing)) == expected


def test_a_server_that_is_down_or_not_there_yet_is_no_lack() -> None:
    by = way()
    down = [replace(one, healthy=False, trouble="restarting") for one in TOOLS]
    assert lacks(by, offer(by, tools=down)) == []
    assert lacks(by, offer(by, "edit", "check", complete=False)) == []
    assert lacks(by, ASSUMED) == lacks(by, None) == []
    bound = way(grants=[])
    assert lacks(bound, None) == lacks(bound, ASSUMED) == [("authority", "push")], "but authority comes from no server"
    withheld = way(unpinned="withhold")
    assert lacks(withheld, None) == [("withheld", "check"), ("withheld", "edit")]
    known = offer(way(pins=PINS), complete=False)
    assert lacks(way(pins=PINS), known) == [], "`write` would do as well, and may yet come"


def test_a_tool_whose_name_looks_like_another_is_withheld() -> None:
    by, odd = way(), [replace(one, withheld=one.name == "push") for one in TOOLS]
    found = offer(by, tools=odd)
    assert found.tools["push"] == Usable(Effect.WRITE, "name")
    assert lacks(by, found) == [("withheld", "push")]


def test_what_the_run_has_already_need_not_be_had_again() -> None:
    by = way()
    run = world.after(world.opened(by), PhaseMoved(source="open", target="done", transition="push"))
    assert lacks(by, offer(by, "edit", "push"), run) == []
    assert lacks(by, offer(by, "check"), run) == [("tool", "check")]
    assert lacks(by, offer(by, "check"), proven(run)) == []
    assert lacks(by, offer(by, "check"), proven(run, fresh=False)) == [("tool", "check")]


def test_while_something_is_unsettled_nothing_is_certain() -> None:
    by = way()
    run = intended(world.opened(by), by, WRITE)
    assert lacks(by, offer(by, "push"), run) == []
    ended = world.after(run, receipt())
    assert lacks(by, offer(by, "push"), ended) == [("tool", "push")]
    assert lacks(by, offer(by, "push"), ended._replace(owed=ended.owed.insert("run_1.2", 2))) == []


def test_what_may_come_back_counts_as_left() -> None:
    by = way(budgets={"cost": 3})
    run = world.opened(by)._replace(spent=Charge(cost=2_000_000))
    assert lacks(by, offer(by), run) == [("budget", "cost")]
    assert lacks(by, offer(by), run._replace(spent=Charge(cost=1_000_000))) == []
    told = way(budgets={"cost": 1}, transitions=[EDIT, PUSH | {"charge": {"cost_from": "args.cost"}}])
    assert lacks(told, offer(told)) == [], "what a formula gives may be nothing"


def test_a_lack_says_what_it_is_of_whom() -> None:
    by = way(grants=[])
    (found,) = lacking(world.opened(by), by, offer(by), NOW)
    assert (found.rule, found.says) == ("push", "`local:user` lacks the authority `push`, which `push` needs")
    (found,) = lacking(world.opened(way()), way(), offer(way(), "edit"), NOW)
    assert found.says == "no upstream offers a tool for `edit`: `edit`, `write`"


def test_what_was_offered_is_noted_as_far_as_policy_may_ask_for_it() -> None:
    by = way(pins=PINS)
    said = noted(offer(by), by.policy)
    assert said == {
        "complete": True,
        "tools": {"edit": ["write", "pin"], "push": ["write", None], "check": ["write", None]},
    }
    assert lacks(by, as_noted(said)) == lacks(by, offer(by))


# --- time -----------------------------------------------------------------------------------------------------------


def late(by: Rules, run: Run, after_s: float) -> str | None:
    found = too_late(run, by, NOW + timedelta(seconds=after_s))
    return None if found is None else found.rule


def test_the_quickest_way_is_the_sum_of_what_its_steps_take() -> None:
    by = way(stops={"deadline_s": 60})
    run = world.opened(by)
    assert least(run, by) == 35.0
    assert (late(by, run, 25), late(by, run, 25.001)) == (None, "stops.deadline_s")
    changed = world.after(run, PhaseMoved(source="open", target="changed", transition="edit"))
    assert (late(by, changed, 30), late(by, changed, 31)) == (None, "stops.deadline_s")
    assert least(proven(changed), by) == 20.0 + 10.0, "the way itself asks the verifier"
    done = world.after(changed, PhaseMoved(source="changed", target="done", transition="push"))
    assert (least(done, by), least(proven(done), by), least(proven(done, fresh=False), by)) == (10.0, 0.0, 10.0)


def test_a_quicker_way_counts_only_for_whoever_may_take_it() -> None:
    quick = {"name": "quick", "tools": ["look"], "to": "done", "authority": ["boss"]}
    by = way(transitions=[EDIT, PUSH, quick], grants=[{"authority": ["push"]}, {"roles": ["b"], "authority": ["boss"]}])
    run = world.opened(by)
    assert least(run, by) == 35.0
    assert least(run._replace(principal=Principal("local:boss", roles=frozenset({"b"}))), by) == 10.0
    assert least(run._replace(delegated=frozenset()), by) is None


def test_the_time_ends_by_whichever_limit_comes_first() -> None:
    by = way(stops={"deadline_s": 100}, budgets={"elapsed_s": 90})
    run = world.opened(by)
    assert late(by, run, 56) == "budgets.elapsed_s"
    assert late(by, run._replace(expires_at=NOW + timedelta(seconds=40)), 6) == "run.expires_at"
    watching = way(stops={"deadline_s": 100}, budgets={"elapsed_s": 90}, mode="observe")
    assert (late(watching, run, 56), late(watching, run, 91)) == (None, "stops.deadline_s")


def test_nobody_is_late_without_a_limit_a_success_or_a_time_that_something_takes() -> None:
    free: dict[str, Any] = {"stops": {"deadline_s": 60}}
    assert late(way(), world.opened(way()), 1e6) is None
    assert late(way(**free, success=None), world.opened(way()), 59) is None
    instant = way(
        **free, verifiers={"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
        transitions=[{**EDIT, "takes_s": 0}, {**PUSH, "takes_s": None}],
    )  # fmt: skip
    assert late(instant, world.opened(instant), 1e6) is None
    nowhere = way(**free, transitions=[EDIT])
    assert late(nowhere, world.opened(nowhere), 59) is None, "that is no matter of time"


def test_while_something_is_unsettled_nobody_knows_how_soon() -> None:
    by = way(stops={"deadline_s": 60})
    run = intended(world.opened(by), by, WRITE)
    assert late(by, run, 59) is None
    assert late(by, world.after(run, receipt()), 59) == "stops.deadline_s"


def test_a_run_without_time_enough_is_over_and_says_how_much_it_would_take() -> None:
    by = way(stops={"deadline_s": 60})
    over = stop(world.opened(by), by, NOW + timedelta(seconds=50))
    assert over is not None
    assert (over.outcome, over.rule) == (Outcome.DEADLINE_MISSED, "stops.deadline_s")
    assert over.reason == "success cannot be met any more: it takes at least 35 s, and 10 s are left"
    assert stop(world.opened(by, origin="default"), by, NOW + timedelta(seconds=50)) is None


# --- properties -----------------------------------------------------------------------------------------------------


@MANY
@given(st.data())
def test_more_that_is_offered_never_lacks_more(data: st.DataObject) -> None:
    by = world.rules(**data.draw(policies()))
    run = data.draw(lives(by)).run
    all_tools = [world.tool(name) for name in ("read", "write", "pay", "check")]
    some = data.draw(st.lists(st.sampled_from(all_tools), unique_by=lambda one: one.name))
    few, more = offered_by(by, some, complete=True), offered_by(by, all_tools, complete=True)
    if lacking(run, by, more, utc(world.T0)):
        assert lacking(run, by, few, utc(world.T0))
    if lacking(run, by, ASSUMED, utc(world.T0)):
        assert lacking(run, by, more, utc(world.T0))
