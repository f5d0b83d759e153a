"""Why a call of a recorded run was allowed or not: as it was, judged again, and what would become of another one."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.model.tool import Silence
from gateway.outbound.ledger import open_ledger
from gateway.runtime.policies import spelled
from tests import world
from tests.cli.test_explain import document, ended, looked, told
from tests.runtime.house import house

HOSTILE = "[/red]evil\x1b[8m\u202e"
RULES: dict[str, Any] = {
    "transitions": [
        {"name": "look", "tools": ["read"]},
        {"name": "write", "tools": ["write"], "when": ["args.n < values.most"], "preconditions": ["fit"]},
        {"name": "pay", "tools": ["pay"], "approval": {"reason": "money"}},
    ],
    "values": {"most": 5},
    "verifiers": {"fit": {"probe": {"tool": "check"}, "pass": ["has(result.content)"]}},
    "accounts": {"daily": {"per": [], "limit": {"calls": 4}}},
}


async def a_run(folder: Path) -> None:
    """One run, whose verdicts are those of `OUTCOMES`."""
    ledger = await open_ledger(f"sqlite:///{folder}/ledger.db")
    async with house(ledger, **RULES) as it:
        it.upstreams.will("write", world.ok(), Silence("gone"))
        await it.call("read", {"q": HOSTILE})
        await it.call("write", {"n": 1})
        await it.call("write", {"n": 9, "note": HOSTILE})
        await it.call("write", {"n": 2})
        await it.call("write", {"n": 2})
        await it.call("pay", {"n": 3})
        await it.call("pay", {"n": 3})
        await it.call("read")
        await it.call("write", {"n": 3})
    await ledger.close()


OUTCOMES = {
    2: "allowed",
    4: "allowed",
    7: "denied",
    8: "allowed",
    10: "held",
    11: "needs_approval",
    12: "needs_approval",
    13: "allowed",
    15: "rate_limited",
}
"""By step."""


@pytest.fixture
def place(tmp_path: Path) -> tuple[str, ...]:
    """The arguments that name a ledger with one run."""
    asyncio.run(a_run(tmp_path))
    return "--run", "run_1", "--ledger", f"sqlite:///{tmp_path}/ledger.db"


def test_each_verdict_of_a_run_is_told_as_it_was_and_judged_again_to_the_same(place: tuple[str, ...]) -> None:
    told_so = {}
    for seq, outcome in OUTCOMES.items():
        found = document(*place, "--seq", str(seq), code=0 if outcome == "allowed" else 3)
        assert found["again"] == {
            "possible": True,
            "missing": [],
            "under_another_policy": False,
            "recorded": {"outcome": outcome, "says": found["says"]},
            "same": True,
            "differences": [],
        }
        reached = [line for line in found["checks"] if line["result"] != "unreached"]
        assert [(line["check"], line["inputs"]) for line in reached] == [
            (one["check"], one["inputs"]) for one in found["verdict"]["checks"]
        ]
        told_so[seq] = found["outcome"]
    assert told_so == OUTCOMES


def test_without_a_step_the_last_verdict_that_was_no_yes_is_explained(place: tuple[str, ...]) -> None:
    found = document(*place, code=3)
    assert (found["seq"], found["client"]["outcome"]) == (15, "rate_limited")
    assert looked(found, "budget")["account accounts.daily.calls"]["bears"] == "against"
    assert document("--run", "last", *place[2:], code=3)["seq"] == 15


def test_an_attempt_is_found_by_its_name_alone(place: tuple[str, ...]) -> None:
    found = document("--attempt", "run_1.4", *place[2:], code=0)
    assert (found["seq"], found["call"]["arguments"]) == (4, {"n": 1})
    assert looked(found, "preconditions")["probe fit"]["bears"] == "for"


def test_a_recorded_call_is_judged_under_another_policy(place: tuple[str, ...], tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(
        "workflow: test\ntools: {write: {effect: write}}\n"
        "transitions: [{name: freely, tools: [write], preconditions: [seen]}]\n"
        'verifiers: {seen: {probe: {tool: look}, pass: ["has(result.content)"]}}\n'
        "accounts: {hourly: {per: [], window: hour, limit: {calls: 1}}}\n"
    )
    found = document(*place, "--seq", "7", "--under", str(other), code=0)
    assert (found["outcome"], found["again"]["same"]) == ("allowed", False)
    assert found["assumed"] == [
        "nothing stands on `accounts.hourly [] 2027-01-15T08`",
        "`seen` passes when it is asked",
    ]
    assert {"part": "outcome", "recorded": "denied", "again": None} in found["again"]["differences"]
    denied = told(*place, "--seq", "2", "--under", str(other), code=3)
    assert "Judged under this policy, it is another verdict. As it was recorded: allowed by" in denied
    assert "  · tool: recorded passed, now refused\n" in denied
    now = document(*place, "--tool", "pay", "--under", str(other), code=3)
    assert (now["outcome"], now["reading"]) == ("denied", ["no transition names `pay` as a write tool"])


def test_under_the_policy_that_it_was_judged_by_nothing_differs(place: tuple[str, ...], tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_bytes(spelled(world.policy(**RULES)))  # JSON is YAML
    for seq, outcome in OUTCOMES.items():
        found = document(*place, "--seq", str(seq), "--under", str(own), code=0 if outcome == "allowed" else 3)
        assert (found["again"]["same"], found["again"]["differences"]) == (True, [])


def test_what_was_erased_is_named_and_the_record_is_told_all_the_same(place: tuple[str, ...], tmp_path: Path) -> None:
    whole = document(*place, "--seq", "7", code=3)
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as file, file:
        file.execute("DELETE FROM payload WHERE digest = ?", (whole["verdict"]["arguments"],))
    erased = document(*place, "--seq", "7", code=3)
    missing = [f"the arguments `{whole['verdict']['arguments']}`"]
    assert (erased["again"]["possible"], erased["again"]["missing"]) == (False, missing)
    assert (erased["says"], erased["verdict"]) == (whole["says"], whole["verdict"])
    assert [line["result"] for line in erased["checks"]] == [line["result"] for line in whole["checks"]]
    shown = told(*place, "--seq", "7", code=3)
    assert "call    write (erased, changed or encrypted)" in shown
    assert "It cannot be judged again: the ledger lacks the arguments" in shown
    assert '{"unmet": {"write": "the condition `args.n < values.most` does not' in shown


def test_a_call_that_nobody_made_is_judged_in_the_run_as_it_stands(place: tuple[str, ...], tmp_path: Path) -> None:
    before = (tmp_path / "ledger.db").read_bytes()
    full = document(*place, "--tool", "write", "--args", '{"n": 4}', "--now", "2027-01-15T09:00:00Z", code=3)
    assert full["outcome"] == "rate_limited"
    tomorrow = ("--now", "2027-01-16T09:00:00Z")
    found = document(*place, "--tool", "write", "--args", '{"n": 4}', *tomorrow, code=0)
    assert found["assumed"] == [
        "the upstream of the tool can be called",
        "the tool is defined as in the record `run_1#15`",
        "the principal comes as the run was opened",
        "`fit` would be asked, and passes",
    ]
    held = document(*place, "--tool", "write", "--args", '{"n": 2}', *tomorrow, code=3)
    assert (held["outcome"], held["client"]["attempt"]) == ("held", "run_1.8")
    failed = document(*place, "--tool", "write", "--args", '{"n": 4}', *tomorrow, "--probe", "fit=fail", code=3)
    assert ended(failed)["preconditions"] == "refused"
    other = document(*place, "--tool", "read", "--principal", "mallory", *tomorrow, code=3)
    assert other["checks"][1]["rule"] == "run.principal"
    unknown = document(*place, "--tool", "ship", *tomorrow, code=3)
    assert unknown["assumed"][1].endswith("no record has its definition")
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_hostile_text_neither_acts_nor_hides(place: tuple[str, ...]) -> None:
    for columns in (80, 120):
        for more in (["--seq", "7"], ["--seq", "2"], ["--tool", HOSTILE, "--args", json.dumps({HOSTILE: HOSTILE})]):
            out = told(*place, *more, code=0 if more == ["--seq", "2"] else 3, columns=columns)
            assert "\x1b" not in out
            assert "\u202e" not in out
            assert max(len(line) for line in out.splitlines()) <= columns


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--run", "run_7"], "no run `run_7` is in this ledger"),
        (["--run", "run_1", "--seq", "3"], "run `run_1` has no verdict at step 3"),
        (["--run", "run_1", "--attempt", "run_1.3"], "no attempt `run_1.3` is in this run"),
        (["--run", "run_1", "--tool", "read", "--phase", "open"], "phase cannot be said of it"),
        (["--run", "run_1", "--tool", "read", "--effect", "read"], "takes no `--effect`"),
        (["--run", "run_1", "--tool", "read", "--seq", "2"], "say either"),
        (["--run", "run_1", "--role", "x"], "say either"),
    ],
)
def test_what_is_not_in_the_ledger_ends_with_2(place: tuple[str, ...], arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(app, ["explain", *arguments, *place[2:]])
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in done.stderr


def test_where_there_is_no_ledger_it_ends_with_2(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["explain", "--run", "last", "--ledger", f"sqlite:///{tmp_path}/none.db"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no ledger" in done.stderr
