"""Kill switches: what a person has stopped is not sent, by any gateway on the ledger, from the moment it is durable."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.model.events import SwitchThrown
from gateway.model.party import Party
from gateway.model.record import utc
from gateway.model.review import Refused, Reviewer
from gateway.model.switch import SWITCHES
from gateway.outbound.ledger import open_ledger
from gateway.ports import NoSuchRun
from gateway.runtime.desk import Desk
from tests import world
from tests.audit.ledgers import found, verified
from tests.runtime.house import House, house, outcome, refused
from tests.runtime.office import asking, office
from tests.runtime.undoing import PAID, REFUNDED, sent, standing, swept, undoing

pytestmark = pytest.mark.anyio

BOSS = Reviewer("local", "local:boss", everywhere=True)


def switch(**names: Any) -> SwitchThrown:
    return SwitchThrown(**names, by=BOSS.who, reason="it pays twice")


async def throw(it: House, **names: str) -> int:
    return (await Desk(it.book).throw(switch(**names), BOSS)).number


@pytest.mark.parametrize(
    "names",
    [{}, {"tenant": "local"}, {"principal": "local:user"}, {"upstream": "fake"}, {"tool": "write"}],
    ids=lambda names: next(iter(names), "all"),
)
async def test_what_is_stopped_is_denied_with_the_reason_until_it_is_lifted(names: dict[str, str]) -> None:
    async with house() as it:
        number = await throw(it, **names)
        shown = await it.call("write", {"a": 1})
        assert refused(shown) == ("denied", "switch")
        assert shown.refusal is not None
        assert "it pays twice" in shown.refusal.reason
        assert it.upstreams.sent == []
        await Desk(it.book).lift(number, BOSS, "it was the test system")
        assert outcome(await it.call("write", {"a": 1})) == "result"
        assert found(await verified(it.ledger, keys=[])) == []


@pytest.mark.parametrize(
    "names",
    [
        {"tenant": "acme"},
        {"principal": "other"},
        {"upstream": "mail"},
        {"tool": "pay"},
        {"tool": "write", "tenant": "x"},
    ],
    ids=str,
)
async def test_what_a_switch_does_not_name_goes_on(names: dict[str, str]) -> None:
    async with house() as it:
        await throw(it, **names)
        assert outcome(await it.call("write")) == "result"


async def test_a_read_is_stopped_too_and_what_was_done_before_is_still_answered_from_its_record() -> None:
    async with house() as it:
        done = await it.call("write", {"a": 1}, deliver=False)
        await throw(it)
        assert refused(await it.call("read")) == ("denied", "switch")
        assert (await it.call("write", {"a": 1})).attempt == done.attempt


async def test_a_policy_that_only_observes_stops_all_the_same() -> None:
    async with house(mode="observe") as it:
        await throw(it, tool="write")
        assert refused(await it.call("write")) == ("denied", "switch")


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
async def test_another_gateway_sends_nothing_from_the_moment_a_switch_is_durable(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    at = f"sqlite:///{tmp_path}/l.db" if kind == "sqlite" else request.getfixturevalue("postgres_url")
    ledger, other = await open_ledger(at), await open_ledger(at)
    async with house(ledger) as it, house(other, owner="other") as elsewhere:
        await elsewhere.open("run_2")
        assert outcome(await elsewhere.call("write", {"a": 1}, run="run_2")) == "result"
        for at_once in range(3):  # it has just decided by what it knew, and no clock has moved
            number = await throw(it, upstream="fake")
            assert refused(await elsewhere.call("write", {"b": at_once}, run="run_2")) == ("denied", "switch")
            await Desk(it.book).lift(number, BOSS, "go on")
            assert outcome(await elsewhere.call("write", {"c": at_once}, run="run_2")) == "result"
        assert [one.arguments for one in elsewhere.upstreams.sent][1:] == [{"c": 0}, {"c": 1}, {"c": 2}]
        assert found(await verified(ledger, keys=[])) == []
    await ledger.close()
    await other.close()


async def test_what_is_relayed_without_a_verdict_is_barred_with_its_principal_and_its_upstream() -> None:
    async with house() as it:
        assert await it.engine.barred(world.USER, ["fake"]) is None
        await throw(it, tool="write")
        assert await it.engine.barred(world.USER, ["fake"]) is None
        assert "the tool `write`" in str(await it.engine.barred(world.USER, ["fake"], "write"))
        assert await it.engine.barred(world.USER, ["fake"], "read") is None
        await throw(it, upstream="fake", principal="local:user")
        assert await it.engine.barred(world.USER, ["other"]) is None
        barred = await it.engine.barred(world.USER, ["other", "fake"])
        assert barred == (
            "`local:boss` has stopped the upstream `fake` for the principal `local:user` (switch 2): it pays twice"
        )


async def test_an_agent_that_asks_where_it_stands_is_told_what_is_stopped() -> None:
    async with house() as it:

        async def stands() -> tuple[str | None, set[str]]:
            told = await it.engine.claims.status(
                "run_1", world.USER, workflow=None, parent=None, offered=["read", "write"], party=Party("test"),
                since=None, tool="gateway__status",
            )  # fmt: skip
            assert told.result is not None
            status = told.result["structuredContent"]
            return status.get("closed"), {name for one in status["eligible"] for name in one["tools"]}

        assert await stands() == (None, {"read", "write"})
        await throw(it, tool="write")
        assert await stands() == (None, {"read"})
        await throw(it, tenant="local")
        assert await stands() == ("`local:boss` has stopped the tenant `local` (switch 2): it pays twice", set())


async def test_what_is_under_way_is_recorded_although_all_is_stopped() -> None:
    async with house() as it:

        async def stopped_meanwhile(_: Any) -> Any:
            await throw(it)
            return world.ok()

        it.upstreams.will("write", stopped_meanwhile)
        shown = await it.call("write")
        assert outcome(shown) == "result"
        assert (await it.book.state_of("run_1")).attempts[shown.attempt or ""].state == "answered"


async def test_a_switch_is_no_run_that_an_agent_can_open_or_call_in() -> None:
    async with house() as it:
        await throw(it, tool="pay")
        with pytest.raises(NoSuchRun):
            await it.open(SWITCHES)
        with pytest.raises(NoSuchRun):
            await it.call("read", run=SWITCHES)
    async with house() as it:
        with pytest.raises(NoSuchRun):
            await it.open(SWITCHES)


async def test_who_sees_one_tenant_stops_that_one_alone_and_says_why() -> None:
    async with house() as it:
        desk, theirs = Desk(it.book), Reviewer("acme", "eve", roles=frozenset({"owner"}))
        for names in ({}, {"tool": "pay"}, {"tenant": "local"}):
            with pytest.raises(Refused, match="may stop what is of the tenant `acme`"):
                await desk.throw(switch(**names), theirs)
        with pytest.raises(Refused, match="say why"):
            await desk.throw(switch(tenant="acme").model_copy(update={"reason": " "}), theirs)
        mine = await desk.throw(switch(tenant="acme", tool="pay"), theirs)
        boss = await desk.throw(switch(tenant="local"), BOSS)
        assert [one.number for one in await desk.switches(theirs)] == [mine.number]
        assert [one.number for one in await desk.switches(BOSS)] == [mine.number, boss.number]
        for number in (boss.number, 99):
            with pytest.raises(Refused, match=f"no switch {number} is thrown"):
                await desk.lift(number, theirs, "please")
        by_link = Reviewer("acme", "eve", approval="ap_1")
        assert await desk.switches(by_link) == ()
        with pytest.raises(Refused):
            await desk.throw(switch(tenant="acme"), by_link)


async def test_what_is_owed_is_undone_although_whoever_asked_is_stopped() -> None:
    async with undoing() as it:

        async def stopped_meanwhile(_: Any) -> Any:
            await throw(it, principal="local:user")
            return it.upstreams.always["pay"]

        it.upstreams.will("pay", stopped_meanwhile)
        await it.call(*PAID)
        assert sent(it) == [PAID, REFUNDED]


@pytest.mark.parametrize("names", [{"tool": "refund"}, {"upstream": "fake"}, {}], ids=str)
async def test_what_is_owed_waits_where_the_tool_the_upstream_or_everything_is_stopped(names: dict[str, str]) -> None:
    async with undoing() as it:

        async def stopped_meanwhile(_: Any) -> Any:
            await throw(it, **names)
            return it.upstreams.always["pay"]

        it.upstreams.will("pay", stopped_meanwhile)
        shown = await it.call(*PAID)
        assert sent(it) == [PAID]
        await swept(it)
        assert (await standing(it, shown.attempt or "")).state == "owed", "not given up: it waits"
        await Desk(it.book).lift(1, BOSS, "go on")
        await swept(it)
        assert sent(it) == [PAID, REFUNDED]


async def test_whoever_is_stopped_does_not_let_themselves_go_on_but_at_their_own_machine() -> None:
    async with house() as it:
        number = await throw(it, principal="local:boss")
        with pytest.raises(Refused, match="somebody else must let it go on"):
            await Desk(it.book).lift(number, replace(BOSS, via="oidc"), "I want it")
        await Desk(it.book).lift(number, replace(BOSS, id="local:other", via="oidc"), "mended")


async def test_a_ledger_that_came_back_without_the_newest_switches_is_believed(tmp_path: Path) -> None:
    at, before = tmp_path / "l.db", tmp_path / "before.db"
    ledger = await open_ledger(f"sqlite:///{at}")
    async with house(ledger) as it:
        with closing(sqlite3.connect(at)) as source, closing(sqlite3.connect(before)) as copy:
            source.backup(copy)
        await Desk(it.book).lift(await throw(it, tool="pay"), BOSS, "go on")
        assert outcome(await it.call("write", {"n": 1})) == "result"
        restored = await open_ledger(f"sqlite:///{before}")
        it.book.ledger = it.book._heads._ledger = restored
        assert outcome(await it.call("write", {"n": 2})) == "result"
        await restored.close()
    await ledger.close()


async def test_a_switch_between_the_yes_and_the_call_stops_the_call_and_leaves_the_yes() -> None:
    async with office(transitions=asking()) as it:
        await it.calls()
        await it.says()
        number = await throw(it.it, tool="write")
        assert refused(await it.it.call("write", {"n": 1})) == ("denied", "switch")
        assert (await it.asked()).usable(utc(it.it.clock.now()))
        await Desk(it.it.book).lift(number, BOSS, "it was the test system")
        assert (await it.calls(), it.sent) == ("result", 1)
        assert found(await verified(it.it.ledger, keys=[])) == []
