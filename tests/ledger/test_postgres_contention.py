"""Several gateways, or others, on one PostgreSQL schema: who waits, who is told, and who tries again."""

import asyncio
from collections import Counter
from collections.abc import Callable

import anyio
import pytest

from gateway.model.canonical import Digest
from gateway.outbound.ledger.postgres import address
from gateway.outbound.ledger.postgres.ledger import PostgresLedger, open_postgres
from gateway.outbound.ledger.postgres.schema import VERSION
from gateway.ports import Append, Conflict, LedgerUnavailable, Occupied
from tests.ledger.at_postgres import LIMIT_S, SOON, admin, recorded, said
from tests.ledger.conftest import locked_table
from tests.ledger.making import Line, attempt, opened, posting, posts
from tests.ledger.proxy import Then, proxied
from tests.postgres_server import Server


async def test_a_lock_that_another_session_keeps_is_waited_for_and_then_said(
    postgres: Server, postgres_url: str
) -> None:
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url, patience=SOON)
        async with locked_table(postgres, postgres_url):
            with pytest.raises(LedgerUnavailable) as raised:
                await ledger.append(Line("run_1").step())
            assert await recorded(ledger, "run_1") == []
        assert str(raised.value) == said(postgres_url, "is locked by another session: end the one that holds the lock")
        await ledger.append(Line("run_1").step())
        await ledger.close()


async def test_an_eraser_waits_for_a_record_that_is_just_being_written(postgres: Server, postgres_url: str) -> None:
    schema, cited = address.parse(postgres_url).schema, Digest("c1:arguments")
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url)
        await ledger.append(Line("run_1").paying({cited: b"{}"}))
        seen = await ledger.closed()
        add = f"INSERT INTO {schema}.event (run, seq, kind, link, body) VALUES ('run_2', 1, 'x', 'x', $1)"  # noqa: S608
        async with admin(postgres) as other, other.transaction():
            await other.execute(f"SELECT {schema}.enter({VERSION})")
            await other.execute(add, b'{"arguments":"c1:arguments"}')
            erasing = asyncio.ensure_future(ledger.erase([cited], 1.0, seen))
            done, _ = await asyncio.wait({erasing}, timeout=0.1)
            assert not done
        assert await erasing == 0
        assert await ledger.erased([cited]) == {}
        await ledger.close()


async def test_of_two_that_wait_for_each_other_we_try_again(postgres: Server, postgres_url: str) -> None:
    schema = address.parse(postgres_url).schema
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url)
        await ledger.append(posts("run_1", posting("a", 1), posting("b", 1)))
        async with admin(postgres) as other:
            await other.execute("SET deadlock_timeout = '60s'")  # so that it is we who find out
            async with other.transaction():
                take = f"UPDATE {schema}.accounts SET level = level + 10 WHERE account = $1"  # noqa: S608
                await other.execute(take, "b")
                appending = asyncio.ensure_future(ledger.append(posts("run_2", posting("a", 1), posting("b", 1))))
                waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%put%'"
                async with admin(postgres) as third:
                    while not await third.fetchval(waits):
                        await anyio.sleep(0.01)
                await other.execute(take, "a")
        await appending
        assert await ledger.levels(["a", "b"]) == {("a", "calls"): 12, ("b", "calls"): 12}
        assert len(await recorded(ledger, "run_2")) == 1
        await ledger.close()


async def test_what_another_gateway_did_between_our_look_and_our_write_is_seen(
    postgres: Server, postgres_url: str
) -> None:
    """Each of these is true when it is looked at, and no longer when it is written."""
    with anyio.fail_after(LIMIT_S):
        ours, theirs = await open_postgres(postgres_url), await open_postgres(postgres_url)
        async with locked_table(postgres, postgres_url):
            steps = [
                Line("run_1").step(opened("theirs")),
                Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")),
                posts("run_3", posting("a", 1, limit=1)),
            ]
            first = [asyncio.ensure_future(theirs.append(step)) for step in steps]
            await anyio.wait_all_tasks_blocked()
            others = [
                Line("run_1").step(opened("ours")),
                Line("run_4").tracking(attempt("att_4", "run_4", hold="pay alice")),
                posts("run_5", posting("a", 1, limit=1)),
                Line("run_6").step(),
            ]
            second = [asyncio.ensure_future(ours.append(step)) for step in others]
            await anyio.wait_all_tasks_blocked()
        came = await asyncio.gather(*first, *second, return_exceptions=True)
        kinds = [type(one).__name__ for one in came]
        assert sorted(kinds) == ["Conflict", "Exhausted", "NoneType", "NoneType", "NoneType", "NoneType", "Occupied"]
        assert kinds.count("NoneType") == 4
        assert {type(came[0]), type(came[3])} == {type(None), Conflict}
        assert {type(came[1]), type(came[4])} == {type(None), Occupied}
        assert came[6] is None
        assert await ours.levels(["a"]) == {("a", "calls"): 1}
        await ours.close()
        await theirs.close()


async def test_gateways_that_meet_in_many_places_never_wait_in_a_circle(postgres: Server, postgres_url: str) -> None:
    """Two groups that take the same runs, each in the other's order of coming, let go at the same moment."""
    deadlocks = "SELECT sum(deadlocks)::int FROM pg_stat_database"
    with anyio.fail_after(LIMIT_S):
        ours, theirs = await open_postgres(postgres_url), await open_postgres(postgres_url)
        async with admin(postgres) as one:
            before = await one.fetchval(deadlocks)
            for turn in range(4):
                steps = [Line(f"run_{turn}_{n}").step(opened("x" * 2000)) for n in range(200)]
                async with locked_table(postgres, postgres_url):
                    waiting = [asyncio.ensure_future(ours.append(step)) for step in steps]
                    waiting += [asyncio.ensure_future(theirs.append(step)) for step in reversed(steps)]
                    await anyio.wait_all_tasks_blocked()
                came = await asyncio.gather(*waiting, return_exceptions=True)
                assert Counter(type(error) for error in came) == {type(None): 200, Conflict: 200}
            await ours.close()
            await theirs.close()
            await one.execute("SELECT pg_stat_clear_snapshot()")
            assert await one.fetchval(deadlocks) == before


STEPS: dict[str, Callable[[str], Append]] = {
    "run": lambda who: Line("run_1").step(opened(who)),
    "hold": lambda who: Line(f"run_{who}").tracking(attempt(f"att_{who}", f"run_{who}", hold="pay alice")),
    "account": lambda who: posts(f"run_{who}", posting("a", 1, limit=2)),
    "new account": lambda who: posts(f"run_{who}", posting("b", 1, limit=1)),
}
"""Two of each cannot both be."""


WAITS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
"""Whether somebody waits for a lock of ours, who are held up ourselves."""


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.parametrize("step", STEPS)
async def test_whatever_another_gateway_does_between_two_statements_of_ours_one_of_both_is_recorded(
    postgres: Server, postgres_url: str, step: str, *, looks: bool
) -> None:
    schema = address.parse(postgres_url).schema
    won: Counter[str] = Counter()
    with anyio.fail_after(2 * LIMIT_S):
        async with proxied(postgres) as proxy, admin(postgres) as watching:
            for number in range(50):
                name = f"{schema}_{number}"
                ours, theirs = await open_postgres(proxy.url(name)), await open_postgres(postgres.url(name))
                await ours.append(posts("run_0", posting("a", 1)))
                ours._writer._group._wary = 2 if looks else 0
                appending: list[asyncio.Future[None]] = []

                async def between(
                    _: int,
                    statement: int,
                    theirs: PostgresLedger = theirs,
                    appending: "list[asyncio.Future[None]]" = appending,
                    number: int = number,
                ) -> Then:
                    if statement == number:
                        appending.append(asyncio.ensure_future(theirs.append(STEPS[step]("theirs"))))
                        while not (appending[0].done() or await watching.fetchval(WAITS)):
                            await anyio.sleep(0.002)
                    return Then.PASS

                proxy.set(between)
                mine = asyncio.ensure_future(ours.append(STEPS[step]("ours")))
                await asyncio.wait([mine])
                proxy.set(None)
                came = await asyncio.gather(mine, *appending, return_exceptions=True)
                if not appending:  # ours was over before
                    await ours.close()
                    await theirs.close()
                    break
                assert sorted(type(one).__name__ for one in came) != ["NoneType", "NoneType"]
                assert None in came
                won["ours" if came[0] is None else "theirs"] += 1
                assert len(await ours.log()) == 2
                levels = await ours.levels(["a", "b"])
                assert levels[("a", "calls")] == (2 if step == "account" else 1)
                assert levels.get(("b", "calls"), 0) == (step == "new account")
                await ours.close()
                await theirs.close()
    assert won["theirs"] >= 1


async def test_a_step_without_records_waits_for_who_may_be_moving_its_run(postgres: Server, postgres_url: str) -> None:
    sql = address.parse(postgres_url).schema
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url)
        line = Line("run_1")
        await ledger.append(line.step(opened()))
        async with admin(postgres) as other, other.transaction():
            await other.fetchval(f"SELECT {sql}.enter($1)", VERSION)
            theirs = line.step().records[0]
            await other.execute(
                f"INSERT INTO {sql}.event (run, seq, kind, link, body) VALUES ('run_1', 2, 'k', $1, $2)",  # noqa: S608
                *theirs.sealed[::-1],
            )
            step = Append("run_1", (1, theirs.previous), (), track=[attempt("att_1")])
            appending = asyncio.ensure_future(ledger.append(step))
            waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'LOCK%'"
            async with admin(postgres) as third:
                while not await third.fetchval(waits):
                    await anyio.sleep(0.01)
        with pytest.raises(Conflict):
            await appending
        assert await ledger.tracked() == []
        await ledger.close()
