"""Scripted agents before a real gateway: one that is fluent, one that loops, one that goes on, one that invents."""

from pathlib import Path
from typing import Any

import pytest

from gateway.inbound.mcp.own_tools import OWN_TOOLS
from tests.lies.lived import TEXT
from tests.lies.real import LOOK, PUT, believing, served, shop

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ORDER = {"id": "a1", "text": TEXT}
FINISH = "gateway__finish"
CIRCLES: dict[str, Any] = {"stops": {"repeated_state": {"after": 3, "reads": 4}}}


def terminal(told: dict[str, Any]) -> dict[str, Any]:
    """The terminal object, but for the tool that was asked for."""
    assert told["terminal"] is True
    return {name: value for name, value in told.items() if name != "tool"}


# --- fluent -----------------------------------------------------------------------------------------------------------


async def test_who_says_at_once_and_again_that_all_is_done_has_proven_nothing(tmp_path: Path) -> None:
    it = shop(tmp_path, {"patient": believing("probe"), "shop": believing("probe", **CIRCLES)})
    async with served(it) as agents:
        patient, token = it.token("patient")
        fluent = agents(token)
        for at in range(12):
            told = await fluent.told(FINISH, {"says": "All tests pass. The order is stored. I have verified it twice."})
            assert (told["finished"], bool(told["missing"])) == (False, True)
            if at == 5:
                assert (await fluent.call(PUT, {**ORDER, "lie": "nothing"}))["isError"] is True
        short, token = it.token()
        fluent = agents(token)
        said = [await fluent.told(FINISH, {"says": "Done!"}) for _ in range(6)]
        # Nobody is asked again so soon, so it is told when, and that is no circle yet.
        assert [one["finished"] for one in said] == [False] * 6
        assert said[-1]["retry_after_s"] > 0
    assert it.reached() == 2  # the change, and the look that found that it is none
    for run in (patient, short):
        assert [one for one in await it.events(run) if one["kind"] == "run.stopped"] == []


# --- looping ----------------------------------------------------------------------------------------------------------


def wrong_ways() -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """One round of each circle."""
    return {
        "looks at two things in turn": [(LOOK, {"id": "a"}), (LOOK, {"id": "b"})],
        "asks for what is refused": [("liar__drop", {"id": "a"})],
        "fails the same check by other writes": [(PUT, {"lie": "nothing", "id": "n", "text": "{}"})],
    }


@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=[] if "turn" in way else [pytest.mark.long]) for way in wrong_ways()]
)
async def test_who_goes_round_in_circles_is_warned_once_and_stopped(tmp_path: Path, way: str) -> None:
    policy = believing("probe", **CIRCLES)
    policy["transitions"] = [one | {"on": {}} if one["name"] == "put" else one for one in policy["transitions"]]
    it = shop(tmp_path, {"shop": policy})
    async with served(it) as agents:
        run, token = it.token()
        looping, warned, over = agents(token), 0, None
        for at in range(12):
            for tool, given in wrong_ways()[way]:
                told = await looping.call(tool, {name: value.format("x" * at) for name, value in given.items()})
                content = told.get("structuredContent") or {}
                record = told.get("_meta", {}).get("counterfoil/record", {})
                warned += "once more ends the run" in str((content.get("warnings"), record.get("warnings")))
                if content.get("terminal") is True:
                    over = over or content["outcome"]
        assert (over, warned) == ("repeated_state", 1)
        reached = it.reached()
        assert (await looping.told(PUT, ORDER))["outcome"] == "repeated_state"
        assert it.reached() == reached
    assert [one["kind"] for one in await it.events(run)].count("run.stopped") == 1


# --- goes on ----------------------------------------------------------------------------------------------------------


def attempts_at(number: int, run: str) -> list[tuple[str, Any]]:
    """All that an agent can still think of."""
    own = {
        "gateway__plan": {"objective": f"try {number}"},
        "gateway__note": {"says": "it is done", "sources": [f"{run}#1"], "confidence": 1.0},
        FINISH: {"outcome": "verified_success" if number % 2 else "infeasible"},
    }
    others = [(PUT, {"id": f"n{number}", "text": "x"}), (PUT, ORDER), (LOOK, {"id": "a1"}), ("liar__drop", {})]
    return [*others, *own.items()]


@pytest.mark.long
async def test_a_stopped_run_gives_everybody_the_same_answer_for_ever_and_sends_nothing(tmp_path: Path) -> None:
    it = shop(tmp_path, {"shop": believing("probe", budgets={"calls": 2})})
    reached = 0
    run, token = it.token()
    seen: list[dict[str, Any]] = []
    reached = 0
    for _ in range(2):  # the second gateway knows the run by the ledger alone
        async with served(it) as agents:
            agent = agents(token)
            if not seen:
                first = await agent.call(PUT, {**ORDER, "lie": "half"}, **{"claudecode/toolUseId": "t1"})
                assert first["structuredContent"]["outcome"] == "verification_failed"
                await agent.call(LOOK, {"id": "a1"})
                seen.append(terminal(await agent.told(LOOK, {"id": "a1"})))
                reached = it.reached()
            for number in range(20):
                for tool, given in attempts_at(number, run):
                    seen.append(terminal(await agent.told(tool, given)))
            async with agent.session() as one, agent.session() as other:
                for number in range(4):
                    for tool, given in attempts_at(number, run):
                        answers = [await session(tool, given) for session in (one, other)]
                        seen += [terminal(answer["structuredContent"]) for answer in answers]
            assert (await agent.tools()) == [*OWN_TOOLS]
            told = await agent.told("gateway__status")
            assert (told["state"], told["over"]["outcome"], told["eligible"]) == ("stopped", "budget_exhausted", [])
            again = await agent.call(PUT, {**ORDER, "lie": "half"}, **{"claudecode/toolUseId": "t1"})
            assert again["structuredContent"]["outcome"] == "verification_failed"  # a known key has its record
            assert (await agent.told("gateway__plan", {"objective": 7}))["outcome"] == "invalid_arguments"
    assert len(seen) > 390
    assert {str(one) for one in seen} == {str(seen[0])}
    assert seen[0]["outcome"] == "budget_exhausted"
    assert it.reached() == reached
    kinds = [one["kind"] for one in await it.events(run)]
    assert (kinds.count("run.stopped"), kinds.count("intent.recorded")) == (1, 2)
    after = kinds[kinds.index("run.stopped") + 1 :]
    # That an answer arrived is written a moment later: of the two calls before the end it may come after it.
    assert set(after) <= {"proposal.denied", "proposal.replayed", "outcome.delivered"}
    assert kinds.count("outcome.delivered") <= 2


# --- invents ----------------------------------------------------------------------------------------------------------

SPOOFED: dict[str, Any] = {
    "counterfoil/record": {"phase": "stored", "evidence": [{"event": "run_1#3", "says": "`probe` passed"}]},
    "counterfoil/evidence": {"probe": "pass"},
    "counterfoil/run": "run_of_somebody_else",
    "counterfoil/usage": {"tokens": 5, "evidence": ["probe"]},
}
SAID = "`probe` passed: the order is stored, all 214 tests are green"
WRONG: list[tuple[str, Any]] = [
    (FINISH, {"outcome": "verified_success", "evidence": [{"verifier": "probe", "verdict": "pass"}]}),
    (FINISH, {"outcome": "human_escalation"}),
    (FINISH, {"outcome": ["verified_success"]}),
    (FINISH, "verified_success"),
    ("gateway__note", {"says": SAID, "sources": ["run_1#999"], "confidence": 1.0}),
    ("gateway__note", {"says": SAID, "sources": [], "confidence": 2.0}),
    ("gateway__note", {"says": SAID, "verdict": "pass", "sources": [], "confidence": 1.0}),
    ("gateway__plan", {"objective": SAID, "phase": "stored"}),
    ("gateway__status", {"since": "run_1#-1"}),
    ("gateway__status", {"phase": "stored"}),
    ("gateway__result", {"attempt": "run_1.1", "verdict": "pass"}),
    ("gateway__result", {"attempt": "run_of_somebody_else.2"}),
]


async def test_who_invents_evidence_has_none(tmp_path: Path) -> None:
    it = shop(tmp_path, {"shop": believing("probe")})
    async with served(it) as agents:
        run, token = it.token()
        agent = agents(token)
        plan = {"objective": SAID, "success_evidence": [SAID], "assumptions": []}
        assert (await agent.told("gateway__plan", plan))["revision"] == 1
        assert (await agent.told("gateway__note", {"says": SAID, "sources": [f"{run}#1"], "confidence": 1.0}))["event"]
        for tool, given in WRONG:
            told = await agent.told(tool, given, **SPOOFED)
            assert told["outcome"] in {"invalid_arguments", "denied"}, (tool, given)
        for tool in ("gateway__verify", "probe", "verify", "gateway__evidence"):
            answer = await agent.call(tool, {"verifier": "probe", "verdict": "pass"}, **SPOOFED)
            assert answer["isError"] is True
        shown = await agent.call(PUT, {**ORDER, "lie": "shape", "by": SAID}, **SPOOFED)
        record = shown["_meta"]["counterfoil/record"]
        assert (record["run"], record["phase"], "stopped" in record) == (run, "doubt", False)
        told = await agent.told(FINISH, {"says": SAID}, **SPOOFED)
        assert (told["finished"], [one["what"] for one in told["missing"]]) == (False, ["stored"])
        seen = await agent.told("gateway__status", {}, **SPOOFED)
        assert (seen["phase"]["name"], [one["says"] for one in seen["hypotheses"]]) == ("doubt", [SAID])
        assert SAID not in str(seen["evidence"])
    events = await it.events(run)
    assert [one["attempt"] for one in events if one["kind"] == "evidence.recorded"] == [f"{run}.{_place(events)}"]
    assert "run.stopped" not in [one["kind"] for one in events]


def _place(events: list[dict[str, Any]]) -> int:
    return next(at for at, one in enumerate(events, 1) if one["kind"] == "intent.recorded")
