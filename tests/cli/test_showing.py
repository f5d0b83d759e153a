"""`show`: each transition with the phases that it led through, what the agent said, and what the run came to."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.totals import MAX_PHASES, totals
from gateway.model.canonical import digest
from gateway.model.events import PhaseMoved
from gateway.model.finish import Finish
from gateway.model.party import Party
from gateway.model.record import Record, utc
from gateway.model.run import Run
from gateway.outbound.ledger import open_ledger
from tests import world
from tests.cli.agents import ledger_of, run
from tests.runtime.house import house
from tests.runtime.test_claims import FAILS, PASSES, note, plan, say

pytestmark = pytest.mark.anyio

WORKFLOW: dict[str, Any] = {
    "phases": {"begun": {}, "failed": {}, "proven": {}},
    "verifiers": {"tests": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.exit == 0"]}},
    "transitions": [
        {
            "name": "change",
            "tools": ["write"],
            "charge": {"cost": 0.25},
            "verify": "tests",
            "to": "proven",
            "on": {"verification_failed": "failed"},
        },
        {"name": "look", "tools": ["read"]},
    ],
    "success": {"evidence": ["tests"], "phase": "proven"},
}
ASSUMED = {"says": "the tests pass at once", "evidence": "tests", "field": "verdict", "equals": "pass"}


async def a_repair(folder: Path) -> None:
    """A run that was planned wrong, failed, was claimed to be done too early, and then proven."""
    ledger = await open_ledger(ledger_of(folder)[1])
    async with house(ledger, **WORKFLOW) as it:
        it.upstreams.will("check", FAILS, PASSES)
        await say(it, plan(ASSUMED))
        asked = replace(world.proposal("read", {}), arguments_digest=digest({}, ledger.salt), reported_tokens=1200)
        await it.engine.call(asked, world.PatientCaller())
        await it.call("write", {"text": "a long text that need not be shown " * 3, "path": "a.py"})
        await say(it, note(until={"evidence": "tests"}))
        await it.engine.finishing.finish(
            "run_1", world.USER, Finish(says="done, surely"), Party("t"), "gateway__finish"
        )
        await it.call("write", {"path": "b.py"})
    await ledger.close()


def lines(out: str) -> list[str]:
    """Without rules, empty lines and sizes."""
    told = (" ".join(line.split()) for line in out.splitlines())
    return [re.sub(r"\d+ bytes", "N bytes", line) for line in told if line.strip("─")]


NARROW = """\
run_1 (test)
step transition, call, result verdict charge tool time
1 local:user, phase begun run opened
2 revision 1, 1 assumption plan
“the tests pass”
3 look allowed 1 call 0 ms
read {}
1200 tokens of its model, says
the client
ok, N bytes
5 change begun → failed allowed 1 call 0 ms
write {"path": "a.py", "text": 1 mutation
"a long text that need not be cost 0.25
shown a long text that n…
ok, N bytes
FAIL: `tests` found that
`result.structuredContent.exit
== 0` does not hold (0 ms)
effect failed
9 the plan assumes something of contradicted
`verdict`, and the evidence of
`tests` says otherwise
“the tests pass at once”
11 a hypothesis (0.7) until note
`tests` speaks anew, or
2027-01-15T09:00:00+00:00
“the cache is stale”
12 the agent says: claimed
verified_success
“done, surely”
13 lacks tests, proven not done
14 change failed → proven allowed 1 call 0 ms
write {"path": "b.py"} 1 mutation
ok, N bytes cost 0.25
PASS: `tests` passed (0 ms)
effect committed
18 success STOP
`tests` passed verified_success
begun → failed → proven
3 calls, 2 mutations, 0 ms of tools, 0 ms of verifiers, 1 failed verification,
1200 tokens of its model, says the client
effects: 1 failed, 1 committed; over: verified_success
"""
WIDE = """\
5 change begun → failed allowed 1 call 0 ms ok, N bytes
write {"path": "a.py", "text": "a long text 1 mutation FAIL: `tests` found that
that need not be shown a long text that n… cost 0.25 `result.structuredContent.exit == 0` does not
hold (0 ms)
effect failed
"""


async def test_a_run_is_read_at_a_glance(tmp_path: Path) -> None:
    await a_repair(tmp_path)
    narrow, _ = await run("show", "run_1", *ledger_of(tmp_path), COLUMNS="80")
    assert max(map(len, narrow.splitlines())) <= 80
    assert lines(narrow) == NARROW.splitlines()
    wide, _ = await run("show", "run_1", *ledger_of(tmp_path), COLUMNS="140")
    assert WIDE in "\n".join(lines(wide)) + "\n"


def moved(places: int) -> list[Record]:
    """A run that went on from phase to phase."""
    events = (PhaseMoved(source=f"p{n}", target=f"p{n + 1}", transition="go") for n in range(places))
    return [
        Record(run="run_1", seq=n, at=utc(world.T0), previous="", event=event)
        for n, event in enumerate(events, start=1)
    ]


ENDS = [*(f"p{n}" for n in range(10)), "(5 more)", *(f"p{n}" for n in range(15, 25))]


@pytest.mark.parametrize(("moves", "way"), [(2, ["p0", "p1", "p2"]), (MAX_PHASES + 4, ENDS)])
def test_a_long_way_is_told_by_its_ends(moves: int, way: list[str]) -> None:
    assert next(totals(Run("run_1"), moved(moves))) == " → ".join(way)
