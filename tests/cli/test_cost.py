"""`counterfoil cost`: each figure under the grade of its source, attributed, and what was sent again unchanged."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.ledgers import console
from gateway.model.canonical import digest
from gateway.model.review import Answer, Reviewer
from gateway.model.tool import Tool
from gateway.outbound.ledger import open_ledger
from gateway.runtime.costs import Tokenizer, Wanted, costs_of
from gateway.runtime.desk import Desk
from tests import world
from tests.cli.agents import ledger_of
from tests.cli.test_approvals import invoke
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

BOSS = Reviewer("local", "boss", frozenset(), via="token")
RULES: dict[str, Any] = {
    "verifiers": {
        "tests": {"probe": {"tool": "check"}, "pass": ["result.content[0].text == 'ok'"], "cost": 0.01},
    },
    "transitions": [
        {"name": "look", "tools": ["read"]},
        {"name": "change", "tools": ["write"], "charge": {"cost": 0.25}, "verify": "tests"},
        {"name": "spend", "tools": ["pay"], "charge": {"cost": 2}, "approval": {}},
    ],
}
SAYS = '{"content":[{"text":"ok","type":"text"}]}'


async def spent(it: House) -> None:
    """Three equal reads, one write that is proven and asked again, a payment that a person agrees to after a minute."""
    for tokens in (1200, 0, 0):
        asked = world.proposal("read", {"n": tokens})
        asked = replace(asked, arguments_digest=digest({"n": tokens}, it.ledger.salt), reported_tokens=tokens)
        await it.engine.call(asked, world.PatientCaller())
    await it.call("write", {"n": 1}, deliver=False)
    await it.call("write", {"n": 1})
    await it.call("pay", {"n": 1})
    (question,) = (await it.book.state_of("run_1")).approvals.values()
    it.clock.tell(60)
    await Desk(it.book).decide(Answer(question.id, question.action, "approved"), BOSS)
    await it.call("pay", {"n": 1})


async def a_ledger(folder: Path) -> None:
    ledger = await open_ledger(ledger_of(folder)[1])
    async with house(ledger, **RULES) as it:
        await spent(it)
    await ledger.close()


async def test_each_figure_stands_under_the_grade_of_its_source(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    told = json.loads((await invoke(tmp_path, "cost", "run_1", "--json")).stdout)
    one, size = told["all"], len(SAYS)
    assert {name: one["measured"][name] for name in ("calls", "mutations", "refusals", "replays", "looks")} == {
        "calls": 5,
        "mutations": 2,
        "refusals": 1,
        "replays": 1,
        "looks": 1,
    }
    assert (one["measured"]["result_bytes"], one["measured"]["waited_s"]) == (5 * size, 60)
    assert one["priced"] == {"calls": 2.25, "verifiers": 0.01}
    assert one["reported_tokens"] == 1200
    assert one["tokens"] == {"estimated": 5 * -(-size // 4), "counted": None, "uncounted": 0}
    tools = {group["name"]: group["figures"]["priced"] for group in told["groups"]["tool"]}
    assert tools == {
        "pay": {"calls": 2.0, "verifiers": 0.0},
        "write": {"calls": 0.25, "verifiers": 0.01},
        "read": {"calls": 0.0, "verifiers": 0.0},
    }
    assert [group["name"] for group in told["groups"]["transition"]] == ["spend", "change", "look"]
    assert [group["name"] for group in told["groups"]["principal"]] == ["local/local:user"]


async def test_what_went_to_the_client_again_unchanged_is_told_by_tool_and_by_result(tmp_path: Path) -> None:
    await a_ledger(tmp_path)
    told = json.loads((await invoke(tmp_path, "cost", "last", "--json")).stdout)
    (heaviest,) = told["results"]
    assert (heaviest["tool"], heaviest["step"], heaviest["times"]) == ("read", 3, 6), "equal answers are one result"
    assert heaviest["again_bytes"] == 5 * len(SAYS)
    shown = (await invoke(tmp_path, "cost", "last", "--context")).stdout
    assert "again" in shown
    assert "1 refusal of our own, whose length is not recorded." in shown


async def test_it_stands_in_eighty_columns_and_says_where_each_grade_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await a_ledger(tmp_path)
    for columns in (80, 120):
        monkeypatch.setattr(console, "_width", columns)
        for more in ((), ("last",), ("last", "--context"), ("--by", "phase")):
            out = (await invoke(tmp_path, "cost", "--since", "2026-01-01", *more)).stdout
            assert max(map(len, out.splitlines())) <= columns
    out = (await invoke(tmp_path, "cost", "last")).stdout
    for words in ("reported   by clients, a claim: 1,200 tokens", "priced     by the prices in policy, of 1 text"):
        assert words in out
    assert (await invoke(tmp_path, "cost", "--workflow", "other")).stdout == "Nothing was spent in that time.\n"
    missing = await invoke(tmp_path, "cost", "run_no", expect=1)
    assert missing.stderr == "counterfoil: no run `run_no` is in this ledger; `counterfoil runs` lists them\n"


async def test_only_what_was_spent_in_a_time_is_told_however_long_ago_its_run_began() -> None:
    async with house(**RULES) as it:
        await it.call("read", {"n": 1})
        it.clock.tell(3_600)
        await it.call("read", {"n": 2})
        opened = (await it.book.state_of("run_1")).opened_at
        assert opened is not None
        late = await costs_of(it.ledger, Wanted(since=opened + timedelta(minutes=30)))
        early = await costs_of(it.ledger, Wanted(until=opened + timedelta(minutes=30)))
        none = await costs_of(it.ledger, Wanted(since=opened + timedelta(days=1)))
    assert (late.all.measured.calls, early.all.measured.calls, none.runs) == (1, 1, 0)
    assert (late.context[0].again.times, early.context[0].again.times) == (1, 0), "it had that result before"


async def test_a_tokenizer_counts_what_is_still_there_and_says_what_is_not() -> None:
    async with house(**RULES) as it:
        it.upstreams.will("read", world.ok("first"), world.ok("second"))
        await it.call("read", {"n": 1})
        await it.call("read", {"n": 2})
        first = next(iter((await it.book.state_of("run_1")).attempts.values())).result
        assert first is not None
        await it.ledger.erase([first], 0.0, await it.ledger.closed())
        told = await costs_of(it.ledger, Wanted(run="run_1"), Tokenizer("ours", lambda _: 7))
    assert told.tokenizer == "ours"
    assert (told.all.tokens.counted, told.all.tokens.uncounted) == (7, 1)
    assert told.all.tokens.estimated > 7


async def test_the_gateways_own_calls_cost_and_put_nothing_before_the_model() -> None:
    rules: dict[str, Any] = {
        "verifiers": {"tests": {"probe": {"tool": "check"}, "pass": ["result.content[0].text == 'no'"]}},
        "transitions": [
            {"name": "change", "tools": ["write"], "verify": "tests", "compensation": {"tool": "pay", "arguments": {}}},
            {"name": "undo", "tools": ["pay"], "charge": {"cost": 3}},
        ],
    }
    async with house(**rules) as it:
        await it.call("write", {"n": 1})
        told = await costs_of(it.ledger, Wanted(run="run_1"))
    assert (told.all.measured.calls, told.all.priced.calls) == (2, 3.0)
    assert {one.tool for one in told.context if one.results.times} == {"write"}


async def test_a_name_of_a_tool_cannot_act(tmp_path: Path) -> None:
    ledger = await open_ledger(ledger_of(tmp_path)[1])
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(Tool("\x1b[8mevil\u202e", "fake", "evil", {"name": "evil"}))
    async with house(ledger, upstreams=upstreams) as it:
        await it.call("\x1b[8mevil\u202e")
    await ledger.close()
    out = (await invoke(tmp_path, "cost", "last")).stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
