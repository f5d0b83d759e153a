"""Several gateways, or others, on one PostgreSQL schema: who waits, who is told, and who tries again."""

import asyncio

import anyio
import pytest

from gateway.outbound.ledger.postgres import address
from gateway.outbound.ledger.postgres.ledger import open_postgres
from gateway.ports import Conflict, LedgerUnavailable, Occupied
from tests.ledger.at_postgres import LIMIT_S, SOON, admin, recorded, said
from tests.ledger.conftest import locked_table
from tests.ledger.making import Line, attempt, opened, posting, posts
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
