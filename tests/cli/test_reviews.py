"""How long people take, told in the terminal: figures of the events alone."""

import json
from pathlib import Path

import pytest

from gateway.model.review import Answer, Reviewer
from gateway.runtime.desk import Desk
from tests.cli.agents import ledger_of, run
from tests.cli.test_approvals import PAY, gateway, invoke

pytestmark = pytest.mark.anyio

BOSS = Reviewer("local", "boss", frozenset(), via="token")


async def lived(folder: Path) -> None:
    """Three questions: a quick yes that is used, a no after five minutes, one that waits."""
    async with gateway(folder) as it:
        desk = Desk(it.book)
        for tool, arguments in PAY:
            await it.call(tool, arguments)
        write, first, _ = sorted((await it.book.state_of("run_1")).approvals.values(), key=lambda one: one.seq)
        it.clock.tell(10)
        await desk.looked(write.id, BOSS)
        it.clock.tell(20)
        await desk.decide(Answer(write.id, write.action, "approved", active_s=1.5), BOSS)
        await it.call("write", {"n": 1})
        it.clock.tell(270)
        await desk.decide(Answer(first.id, first.action, "rejected", "no", active_s=40), BOSS)


async def test_the_figures_are_told_for_all_and_by_what_one_asks_for(tmp_path: Path) -> None:
    await lived(tmp_path)
    told = json.loads((await invoke(tmp_path, "reviews", "--json")).stdout)
    one = told["all"]
    assert {name: one[name] for name in ("asked", "awaiting", "approved", "rejected", "used", "quick")} == {
        "asked": 3,
        "awaiting": 1,
        "approved": 1,
        "rejected": 1,
        "used": 1,
        "quick": 1,
    }
    assert (one["first_look"]["median_s"], one["waited"]["max_s"]) == (10, 300)
    shown, _ = await run("reviews", *ledger_of(tmp_path), COLUMNS="140")
    for words in ("1 approved (50%)", "1 quick yes (100%)", "median 10.0 s", "max 5.0 min", "1 waiting"):
        assert words in shown
    assert "people may be asked more than they can look at" not in shown, "of one, that says nothing"
    assert "boss" in (await invoke(tmp_path, "reviews", "--by", "reviewer")).stdout
    by_risk = (await invoke(tmp_path, "reviews", "--by", "risk")).stdout
    assert by_risk.index("high") < by_risk.index("low")
    assert "pay" in (await invoke(tmp_path, "reviews", "--by", "tool")).stdout
    assert "change" in (await invoke(tmp_path, "reviews", "--by", "transition")).stdout


async def test_only_what_was_asked_since_is_told(tmp_path: Path) -> None:
    await lived(tmp_path)
    assert (await invoke(tmp_path, "reviews", "--since", "1m")).stdout == "Nobody was asked anything in that time.\n"
    assert json.loads((await invoke(tmp_path, "reviews", "--since", "3h", "--json")).stdout)["all"]["asked"] == 3


async def test_many_quick_yeses_are_remarked_upon(tmp_path: Path) -> None:
    async with gateway(tmp_path) as it:
        desk = Desk(it.book)
        for number in range(10):
            await it.call("write", {"n": number})
        for one in (await it.book.state_of("run_1")).approvals.values():
            await desk.decide(Answer(one.id, one.action, "approved", active_s=1.0), BOSS)
    shown, _ = await run("reviews", *ledger_of(tmp_path), COLUMNS="140")
    assert "10 quick yeses (100%)" in shown
    assert "10 yeses took less than 3 s: people may be asked more than they can look at." in shown
