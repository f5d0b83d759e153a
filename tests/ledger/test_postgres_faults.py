"""What befalls a server and the way to it: said in one line, survived, and nothing that was acknowledged is lost."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import anyio
import pytest

from gateway.outbound.ledger.postgres import address
from gateway.outbound.ledger.postgres.connections import Patience
from gateway.outbound.ledger.postgres.ledger import PostgresLedger, open_postgres
from gateway.ports import Append, LedgerUnavailable
from tests.ledger.at_postgres import GONE, LIMIT_S, SOON, admin, configured, recorded, said
from tests.ledger.conftest import locked_table
from tests.ledger.making import T0, Line, attempt, posting
from tests.ledger.proxy import Fault, Then, proxied
from tests.postgres_server import Server, running


def at(number: int, then: Then) -> Fault:
    """That becomes of whichever connection sends that statement, and of no other."""

    async def fault(_connection: int, statement: int) -> Then:
        return then if statement == number else Then.PASS

    return fault


def terminating(server: Server, number: int) -> Fault:
    """Before that statement the server ends every session of ours, as an administrator does."""

    async def fault(_connection: int, statement: int) -> Then:
        if statement == number:
            async with admin(server) as one:
                await one.execute(
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                    " WHERE application_name = 'counterfoil'"
                )
        return Then.PASS

    return fault


def guessed(line: Line) -> Append:
    """A step that costs one statement."""
    return line.tracking(attempt("att_1", hold="pay alice"))


def looked_at(line: Line) -> Append:
    """A step that is decided in a transaction, for the server must be asked first."""
    return line.step(postings=[posting("a", 1, limit=9)], track=[attempt("att_1", hold="pay alice")])


FAULTS: dict[str, Callable[[Server, int], Fault]] = {
    "ended by an administrator": terminating,
    "cut before": lambda _, number: at(number, Then.CUT_BEFORE),
    "cut after": lambda _, number: at(number, Then.CUT_AFTER),
    "left": lambda _, number: at(number, Then.LEAVE),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("made", [guessed, looked_at])
async def test_whatever_statement_the_connection_is_lost_at_a_step_is_recorded_once_and_acknowledged(
    postgres: Server, postgres_url: str, name: str, made: Callable[[Line], Append]
) -> None:
    schema = address.parse(postgres_url).schema
    with anyio.fail_after(2 * LIMIT_S):
        async with proxied(postgres) as proxy:
            for number in range(50):
                ledger = await open_postgres(proxy.url(f"{schema}_{number}"), patience=SOON)
                if made is looked_at:
                    ledger._writer._group._wary = 1
                proxy.set(FAULTS[name](postgres, number))
                line = Line("run_1")
                step = made(line)
                await ledger.append(step)
                over = proxy.statements
                proxy.set(None)
                assert await recorded(ledger, "run_1") == step.records
                assert await ledger.tracked() == list(step.track)
                assert await ledger.levels(["a"]) == ({("a", "calls"): 1} if step.postings else {})
                await ledger.append(line.step())
                await ledger.close()
                if over <= number:
                    break
    assert number >= (2 if made is guessed else 10)


@pytest.mark.parametrize("name", FAULTS)
async def test_what_has_no_record_is_raised_if_nobody_can_tell_what_became_of_it(
    postgres: Server, postgres_url: str, name: str
) -> None:
    schema = address.parse(postgres_url).schema
    raised = claimed = 0
    with anyio.fail_after(2 * LIMIT_S):
        async with proxied(postgres) as proxy:
            for number in range(50):
                ledger = await open_postgres(proxy.url(f"{schema}_{number}"), patience=SOON)
                seen = attempt("att_1")
                await ledger.append(Line("run_1").tracking(seen))
                proxy.set(FAULTS[name](postgres, number))
                won = None
                try:
                    won = await ledger.claim(seen, "gw_2", T0 + 60)
                except LedgerUnavailable:
                    raised += 1
                over = proxy.statements
                proxy.set(None)
                (found,) = await ledger.tracked()
                assert won in {None, found.owner == "gw_2"}
                claimed += found.owner == "gw_2"
                await ledger.close()
                if over <= number:
                    break
    assert raised >= 1
    assert claimed >= number - raised


async def test_a_commit_that_was_on_its_way_when_its_connection_was_lost_never_lands_beside_its_repetition(
    postgres: Server, postgres_url: str
) -> None:
    ours = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%put%'"
    with anyio.fail_after(LIMIT_S):
        async with proxied(postgres) as proxy, admin(postgres) as one:
            ledger = await open_postgres(proxy.url(address.parse(postgres_url).schema))
            async with locked_table(postgres, postgres_url):
                appending = asyncio.ensure_future(ledger.append(Line("run_1").step()))
                seen: set[int] = set()
                while len(seen) < 2:
                    waiting = [row["pid"] for row in await one.fetch(ours)]
                    assert len(waiting) <= 1
                    if waiting and not seen:
                        proxy.leave()
                    seen |= set(waiting)
                    await anyio.sleep(0.01)
            await appending
            assert len(await recorded(ledger, "run_1")) == 1
            assert len(await ledger.log()) == 1
            await ledger.close()


async def test_a_server_that_cannot_be_asked_what_became_of_a_commit_leaves_it_open() -> None:
    with anyio.fail_after(2 * LIMIT_S), running() as server:
        async with proxied(server) as proxy:
            ledger = await open_postgres(proxy.url("counterfoil"), patience=Patience(outage_s=0.3))
            line = Line("run_1")
            await ledger.append(line.step())

            async def done_and_gone(_connection: int, _statement: int) -> Then:
                proxy.set(refused)
                return Then.CUT_AFTER

            async def refused(_connection: int, _statement: int) -> Then:
                return Then.CUT_BEFORE

            proxy.set(done_and_gone)
            step = line.step()
            with pytest.raises(LedgerUnavailable) as raised:
                await ledger.append(step)
            assert str(raised.value) == said(proxy.url("counterfoil"), GONE)
            proxy.set(None)
            assert (await recorded(ledger, "run_1"))[1:] == step.records
            await ledger.append(line.step())
            await ledger.close()


async def test_a_connection_that_is_silently_dead_is_given_up_and_wedges_nobody(
    postgres: Server, postgres_url: str
) -> None:
    patience = Patience(connect_s=1, statement_s=0.2, lock_s=0.2, outage_s=1)
    with anyio.fail_after(LIMIT_S):
        async with proxied(postgres) as proxy:
            ledger = await open_postgres(proxy.url(address.parse(postgres_url).schema), patience=patience)
            proxy.set(at(1, Then.HANG))
            await ledger.append(Line("run_1").step())
            proxy.set(at(1, Then.HANG))
            assert len(await recorded(ledger, "run_1")) == 1
            await ledger.close()


async def test_reads_are_made_again_when_their_connection_is_lost(postgres: Server, postgres_url: str) -> None:
    with anyio.fail_after(LIMIT_S):
        async with proxied(postgres) as proxy:
            ledger = await open_postgres(proxy.url(address.parse(postgres_url).schema))
            await ledger.append(Line("run_1").step())
            for _ in range(3):
                proxy.cut()
                reads = [ledger.read("run_1") for _ in range(8)]
                assert [len(found) for found in await asyncio.gather(*reads)] == [1] * 8
            await ledger.close()


async def test_while_the_server_is_away_everything_is_unavailable_and_afterwards_nothing_needs_a_restart() -> None:
    with anyio.fail_after(2 * LIMIT_S), running() as server:
        ledger = await open_postgres(server.url(), patience=Patience(outage_s=0.3))
        line = Line("run_1")
        await ledger.append(line.step())
        server.stop()
        away = said(server.url(), "cannot be reached: see that the server runs and takes connections from here")
        calls: list[Awaitable[object]] = [
            ledger.append(Line("run_2").step()),
            ledger.append(Line("run_3").step()),
            ledger.claim(attempt("att_1"), "gw_1", T0),
            ledger.read("run_1"),
            ledger.now(),
            ledger.closed(),
        ]
        came = await asyncio.gather(*calls, return_exceptions=True)
        assert [str(one) for one in came] == [away] * 6
        server.start()
        await ledger.append(line.step())
        assert len(await recorded(ledger, "run_1")) == 2
        assert await recorded(ledger, "run_2") == []
        await ledger.close()


async def _write(ledger: PostgresLedger, run: str, done: asyncio.Event, acknowledged: dict[str, int]) -> int:
    """How many appends raised and had been stored all the same. It asks after each that raised, as the gateway does."""
    line, doubtful = Line(run), 0
    while not done.is_set():
        step = line.step()
        try:
            await ledger.append(step)
        except LedgerUnavailable:
            while True:
                with contextlib.suppress(LedgerUnavailable):
                    found = await recorded(ledger, run)
                    break
            if step.records[0] in found:
                doubtful += 1
            else:
                line.expected = step.expected
                continue
        acknowledged[run] = line.expected[0]
    return doubtful


@pytest.mark.slow
async def test_a_server_that_crashes_under_twelve_writers_loses_nothing_that_was_acknowledged() -> None:
    acknowledged: dict[str, int] = {}
    with anyio.fail_after(4 * LIMIT_S), running() as server:
        ledgers = [await open_postgres(server.url()) for _ in range(3)]
        done = asyncio.Event()
        writing = [
            asyncio.ensure_future(_write(ledger, f"run_{which}_{n}", done, acknowledged))
            for which, ledger in enumerate(ledgers)
            for n in range(4)
        ]
        for _ in range(4):
            before = sum(acknowledged.values())
            while sum(acknowledged.values()) < before + 500:
                await anyio.sleep(0.01)
            await anyio.to_thread.run_sync(server.crash)
            await anyio.to_thread.run_sync(server.start)
        before = sum(acknowledged.values())
        while sum(acknowledged.values()) < before + 100:
            await anyio.sleep(0.01)
        done.set()
        await asyncio.gather(*writing)
        for run, count in acknowledged.items():
            assert [record.seq for record in await recorded(ledgers[0], run)] == list(range(1, count + 1))
        assert len(acknowledged) == 12
        for ledger in ledgers:
            await ledger.close()


async def test_a_server_that_is_read_only_can_be_read(postgres: Server, postgres_url: str) -> None:
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url, patience=SOON)
        line = Line("run_1")
        await ledger.append(line.step())
        async with configured(postgres, "default_transaction_read_only", "on"):
            calls: list[Awaitable[None]] = [ledger.append(Line("run_2").step()), ledger.renew("gw_1", ["att_1"], T0)]
            for call in calls:
                with pytest.raises(LedgerUnavailable) as raised:
                    await call
                assert str(raised.value) == said(
                    postgres_url, "is read-only, a standby perhaps: give the address of the server that takes writes"
                )
            assert len(await recorded(ledger, "run_1")) == 1
        await ledger.append(line.step())
        await ledger.close()


async def test_a_server_that_is_full_says_so_and_leaves_nothing_open(postgres: Server, postgres_url: str) -> None:
    await (await open_postgres(postgres_url)).close()
    async with admin(postgres) as one:
        schema = address.parse(postgres_url).schema
        await one.execute("CREATE ROLE few LOGIN CONNECTION LIMIT 1")
        await one.execute(f"GRANT ALL ON SCHEMA {schema} TO few")
        await one.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO few")
        url = postgres_url.replace("tester@", "few@")
        with pytest.raises(LedgerUnavailable) as raised:
            await open_postgres(url)
        assert str(raised.value) == said(
            url, "takes no more connections: raise its `max_connections`, or run fewer gateways on it"
        )
        with anyio.fail_after(LIMIT_S):
            while await one.fetchval("SELECT count(*) FROM pg_stat_activity WHERE usename = 'few'"):
                await anyio.sleep(0.01)
        await one.execute("DROP OWNED BY few")
        await one.execute("DROP ROLE few")
