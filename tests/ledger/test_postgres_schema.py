"""What stands in a PostgreSQL schema: made whole, recognised, migrated forward, and found without a search."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import anyio
import asyncpg
import pytest

from gateway.outbound.ledger.postgres import address, connections, schema
from gateway.outbound.ledger.postgres.ledger import PostgresLedger, open_postgres
from gateway.outbound.ledger.postgres.statements import statements
from gateway.ports import LedgerUnavailable, NotOurLedger
from tests.ledger.at_postgres import LIMIT_S, SOON, admin, configured, said
from tests.ledger.making import Line, attempt, opened, posting, small
from tests.postgres_server import USER, Server

NEXT = (*schema.MIGRATIONS, ("ALTER TABLE {s}.attempt ADD COLUMN note text",))

BROKEN = (*schema.MIGRATIONS, ("ALTER TABLE {s}.attempt ADD COLUMN note text", "CREATE TABLE {s}.extra (x none)"))


@pytest.fixture
async def db(postgres: Server) -> AsyncIterator["asyncpg.Connection"]:
    async with admin(postgres) as connection:
        yield connection


@pytest.fixture
def name(postgres_url: str) -> str:
    return address.parse(postgres_url).schema


def newer(monkeypatch: pytest.MonkeyPatch, migrations: Any) -> None:
    monkeypatch.setattr(schema, "MIGRATIONS", migrations)
    monkeypatch.setattr(schema, "VERSION", len(migrations))


async def refused(url: str, kind: type[Exception] = NotOurLedger) -> str:
    with pytest.raises(kind) as raised:
        await open_postgres(url, patience=SOON)
    return str(raised.value)


async def columns(db: "asyncpg.Connection", name: str) -> list[str]:
    rows = await db.fetch(
        "SELECT column_name::text FROM information_schema.columns WHERE table_schema = $1 AND table_name = 'attempt'",
        name,
    )
    return [row[0] for row in rows]


async def test_a_migration_adds_to_what_is_there_and_stops_gateways_of_the_version_before(
    postgres_url: str, name: str, db: "asyncpg.Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Line("run_1")
    old = await open_postgres(postgres_url)
    await old.append(line.tracking(attempt("att_1", hold="pay alice")))
    with monkeypatch.context() as later:
        newer(later, NEXT)
        ledger = await open_postgres(postgres_url)
        again = await open_postgres(postgres_url)
        assert ledger.salt == again.salt == old.salt
        assert "note" in await columns(db, name)
        assert len(await ledger.read("run_1")) == 1
        assert await ledger.tracked() == [attempt("att_1", hold="pay alice")]
        for one in (ledger, again):
            await one.close()
    stopped = said(postgres_url, "was migrated by a newer version: restart this gateway with that version")
    for call in (old.append(line.step()), old.renew("gw_1", ["att_1"], 1.0)):
        with pytest.raises(LedgerUnavailable) as raised:
            await call
        assert str(raised.value) == stopped
    assert len(await old.read("run_1")) == 1
    await old.close()
    assert await refused(postgres_url) == said(
        postgres_url,
        f"has schema {len(NEXT)} and this version knows only {schema.VERSION}: upgrade, or give another address",
    )


async def test_a_migration_that_fails_changes_nothing(
    postgres_url: str, name: str, db: "asyncpg.Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_postgres(postgres_url)).close()
    with monkeypatch.context() as later:
        newer(later, BROKEN)
        await refused(postgres_url, LedgerUnavailable)
    assert "note" not in await columns(db, name)
    ledger = await open_postgres(postgres_url)
    await ledger.append(Line("run_1").step())
    await ledger.close()


async def test_a_migration_waits_for_whoever_writes(
    postgres_url: str, name: str, db: "asyncpg.Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_postgres(postgres_url)).close()
    newer(monkeypatch, NEXT)
    with anyio.fail_after(LIMIT_S):
        async with db.transaction():
            assert await db.fetchval(statements(name).enter, len(NEXT) - 1)
            opening = asyncio.ensure_future(open_postgres(postgres_url))
            while not await db.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
                await anyio.sleep(0.01)
            assert not opening.done()
        await (await opening).close()
    assert "note" in await columns(db, name)


async def test_of_several_that_migrate_one_does(
    postgres_url: str, name: str, db: "asyncpg.Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    await (await open_postgres(postgres_url)).close()
    newer(monkeypatch, NEXT)
    for ledger in await asyncio.gather(*(open_postgres(postgres_url) for _ in range(4))):
        await ledger.close()
    assert await columns(db, name) == [*(await columns(db, name))]
    assert (await columns(db, name)).count("note") == 1


async def test_a_schema_of_another_program_is_left_as_it_is(
    postgres_url: str, name: str, db: "asyncpg.Connection"
) -> None:
    theirs = f"the schema `{name}` at `{address.shown(postgres_url)}` belongs to another program: "
    theirs += "give another, `?schema=name`"
    await db.execute(f"CREATE SCHEMA {name}")
    await db.execute(f"CREATE TABLE {name}.accounts (x int)")
    assert await refused(postgres_url) == theirs
    await db.execute(f"CREATE TABLE {name}.ledger (x int)")
    assert await refused(postgres_url) == theirs
    await db.execute(f"DROP TABLE {name}.ledger, {name}.accounts")
    await db.execute(f"CREATE TABLE {name}.ledger (format text, version int, salt bytea)")
    assert await refused(postgres_url) == theirs
    await db.execute(f"INSERT INTO {name}.ledger VALUES ('something else', 1, '')")  # noqa: S608
    assert await refused(postgres_url) == theirs
    assert await db.fetchval("SELECT count(*) FROM pg_tables WHERE schemaname = $1", name) == 1


async def test_a_schema_that_an_administrator_made_is_used_by_whom_it_was_made_for(
    postgres_url: str, name: str, db: "asyncpg.Connection"
) -> None:
    await db.execute(f"CREATE ROLE keeper LOGIN; CREATE SCHEMA {name} AUTHORIZATION keeper")
    ledger = await open_postgres(postgres_url.replace(USER, "keeper"))
    await ledger.append(Line("run_1").step())
    await ledger.close()
    await db.execute("DROP OWNED BY keeper; DROP ROLE keeper")


async def test_a_ledger_whose_tables_went_says_so(postgres_url: str, name: str, db: "asyncpg.Connection") -> None:
    ledger = await open_postgres(postgres_url)
    await ledger.append(Line("run_1").step())
    await db.execute(f"DROP TABLE {name}.event CASCADE")
    for call in (ledger.append(Line("run_2").step()), ledger.read("run_1")):
        with pytest.raises(LedgerUnavailable) as raised:
            await call
        assert str(raised.value) == said(postgres_url, "has lost tables of the ledger: restore it from a backup")
    await ledger.close()


@pytest.mark.slow
@pytest.mark.long
async def test_a_server_that_a_ledger_cannot_rest_on_is_refused(
    postgres: Server, postgres_url: str, db: "asyncpg.Connection", monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as old:
        old.setattr(connections, "OLDEST_SERVER", 99)
        told = await refused(postgres_url, LedgerUnavailable)
        version = await db.fetchval("SELECT current_setting('server_version_num')::int / 10000")
        assert told == said(postgres_url, f"runs PostgreSQL {version}: 99 or newer is needed")
    await db.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    url = postgres_url.replace("/postgres?", "/ascii?")
    assert await refused(url, LedgerUnavailable) == said(
        url, "is in a database of the encoding SQL_ASCII: create one with `ENCODING 'UTF8'`"
    )
    await db.execute("DROP DATABASE ascii")
    async with configured(postgres, "fsync", "off"):
        assert await refused(postgres_url, LedgerUnavailable) == said(
            postgres_url,
            "is on a server with `fsync = off`, which loses what it acknowledged when its power fails: switch it on",
        )


@pytest.mark.parametrize(
    ("told", "meant"),
    [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
)
async def test_a_commit_is_acknowledged_when_it_is_durable_whatever_the_server_does_by_itself(
    postgres: Server, postgres_url: str, told: str, meant: str
) -> None:
    async with configured(postgres, "synchronous_commit", told):
        ledger = await open_postgres(postgres_url)
        assert await (await ledger._writer._line.connection()).fetchval("SHOW synchronous_commit") == meant
        await ledger.close()


async def test_a_place_is_closed_only_when_none_before_it_can_still_come(
    postgres_url: str, name: str, db: "asyncpg.Connection"
) -> None:
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url)
        async with db.transaction():
            # Another gateway has drawn a place, and is not there yet when a later one is.
            await db.fetchval(statements(name).enter, schema.VERSION)
            await db.execute(f"INSERT INTO {name}.event (run, seq, kind, link, body) VALUES ('r', 1, 'k', 'l', 'b')")  # noqa: S608
            await ledger.append(Line("run_1").step())
            assert [one.place for one in await ledger.log()] == [2]
            closing = asyncio.ensure_future(ledger.closed())
            while not await db.fetchval("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"):
                await anyio.sleep(0.01)
            # Who writes next waits behind it, and it waits for us.
            appending = asyncio.ensure_future(ledger.append(Line("run_2").step()))
            await anyio.wait_all_tasks_blocked()
            assert not closing.done()
        closed = await closing
        assert [one.place for one in await ledger.log() if one.place <= closed] == list(range(1, closed + 1))
        assert closed >= 2
        await appending
        await ledger.close()


@pytest.mark.slow
async def test_who_stays_within_a_transaction_holds_up_the_closing_and_nobody_for_long(
    postgres_url: str, name: str, db: "asyncpg.Connection"
) -> None:
    with anyio.fail_after(LIMIT_S):
        ledger = await open_postgres(postgres_url)
        async with db.transaction():
            await db.fetchval(statements(name).enter, schema.VERSION)
            with pytest.raises(LedgerUnavailable) as raised:
                await ledger.closed()
            assert str(raised.value) == said(
                postgres_url, "is locked by another session: end the one that holds the lock"
            )
            await ledger.append(Line("run_1").step())
        assert await ledger.closed() == 1
        await ledger.close()


async def test_two_ledgers_in_one_database_do_not_meet(postgres: Server, postgres_url: str, name: str) -> None:
    one, other = await open_postgres(postgres_url), await open_postgres(postgres.url(f"{name}_other"))
    assert one.salt != other.salt
    with anyio.fail_after(LIMIT_S):
        async with admin(postgres) as db, db.transaction():
            await db.fetchval(statements(name).enter, schema.VERSION)
            assert await other.closed() == 0
            for ledger in (one, other):
                await ledger.append(
                    Line("run_1").step(
                        opened(), postings=[posting("a", 1, limit=1)], track=[attempt("att_1", hold="pay alice")]
                    )
                )
    for ledger in (one, other):
        assert len(await ledger.log()) == 1
        await ledger.close()


QUERIES: dict[str, list[Any]] = {
    "heads": [["run_1"]],
    "witness": ["run_1", 1],
    "holders": [["h"]],
    "levels": [["a"], ["calls"]],
    "lock_levels": [["a"], ["calls"]],
    "claim": ["gw", 1.0, "att", "gw", 1.0, "open"],
    "renew": [1.0, "gw", ["att"]],
    "read": ["run_1", 0, 64],
    "store": [b""],
    "find_rare": [["run.opened"], 5],
    "find_rare_before": [["run.opened"], 5, 9],
    "find": [["outcome.delivered"], 5],
    "find_before": [["outcome.delivered"], 5, 9],
    "place": ["run_1", 1],
    "named": [["ap_1", "ap_2"]],
    "payload": ["c1:a"],
    "levels_of": [["a"]],
    "accounts": ["a", "calls", 5],
    "tracked_in": [["open"]],
    "log": [0, 5],
    "links": [0, 5],
    "checkpoint": [1, 1, "", 1.0, ""],
    "checkpoints": [1],
    "payloads": ["", 5],
    "erase": [["c1:a"], 1.0],
    "erased": [["c1:a"]],
    "once": ["a", 1.0, 1.0, 2],
    "said": ["a"],
}


async def test_no_query_of_a_call_reads_more_than_its_rows(postgres_url: str, name: str) -> None:
    """As a gateway plans them, also while the ledger is empty and nothing is known of its tables."""
    ledger = await open_postgres(postgres_url)
    connection = await ledger._writer._line.connection()
    sql = statements(name)
    for query, values in QUERIES.items():
        plan = [row[0] for row in await connection.fetch(f"EXPLAIN {getattr(sql, query)}", *values)]
        assert [line for line in plan if "Seq Scan" in line] == [], query
        assert not [line for line in plan if "Sort" in line and query in {"read", "log", "links", "find"}], query
        assert query != "named" or any("event_named" in line for line in plan), plan
    await ledger.close()


async def test_what_changes_with_every_call_writes_no_index(postgres_url: str, name: str) -> None:
    ledger: PostgresLedger = await open_postgres(postgres_url)
    line = Line("run_1")
    await ledger.append(line.step(postings=[posting("a", 1)], track=[attempt("att_1")]))
    for number in range(20):
        await ledger.append(line.step(small(), postings=[posting("a", 1)]))
        await ledger.renew("gw_1", ["att_1"], 1.0 + number)
    connection = await ledger._writer._line.connection()
    await connection.execute(
        "SELECT pg_stat_force_next_flush()" if connection.get_server_version() >= (15,) else "SELECT 1"
    )
    hot = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = $2"
    for table in ("accounts", "attempt"):
        with anyio.fail_after(LIMIT_S):
            while (await connection.fetchrow(hot, name, table))[0] < 20:
                await anyio.sleep(0.02)
        updated, in_place = await connection.fetchrow(hot, name, table)
        assert (table, updated) == (table, in_place)
    await ledger.close()


async def test_all_that_stands_in_a_schema_is_known(postgres_url: str, name: str, db: "asyncpg.Connection") -> None:
    await (await open_postgres(postgres_url)).close()
    found = {(kind, one): what for kind, one, what in await db.fetch(schema.LAYOUT.replace("{s}", name))}
    assert found == schema.made(name)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DROP INDEX {s}.event_rare", ["the index `event_rare` is gone"]),
        (
            "DROP INDEX {s}.attempt_hold; CREATE INDEX attempt_hold ON {s}.attempt (hold)",
            ["the index `attempt_hold` is another one"],
        ),
        ("CREATE RULE r AS ON INSERT TO {s}.payload DO INSTEAD NOTHING", ["there is a rule, `r`"]),
        (
            """
            CREATE FUNCTION {s}.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
            CREATE TRIGGER t BEFORE INSERT ON {s}.event FOR EACH ROW EXECUTE FUNCTION {s}.f();
            """,
            ["there is a trigger, `t`"],
        ),
        (
            "CREATE OR REPLACE FUNCTION {s}.closed() RETURNS bigint LANGUAGE sql AS $$ SELECT 0::bigint $$",
            ["the function `closed` is another one"],
        ),
        ("CREATE TABLE {s}.mine (x integer); CREATE VIEW {s}.v AS SELECT 1", []),
    ],
)
async def test_what_a_schema_is_made_of(
    postgres_url: str, name: str, db: "asyncpg.Connection", sql: str, says: list[str]
) -> None:
    ledger = await open_postgres(postgres_url)
    await db.execute(sql.replace("{s}", name))
    assert await ledger.strange() == says
    await ledger.close()
