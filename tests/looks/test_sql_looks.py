"""Queries of verifiers against real databases: they can select and nothing else, and are bounded."""

import sqlite3
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from gateway.outbound.looks import DatabasePlace
from gateway.outbound.looks.rows import MAX_ROWS
from gateway.ports import Answer, Silence
from tests import postgres_server
from tests.looks.made import look, seen, verdict, why

pytestmark = pytest.mark.anyio

MAKE = """
create table orders (id integer primary key, state text, total double precision);
insert into orders values (1, 'paid', 12.5), (2, 'open', 0);
"""


@pytest.fixture
def sqlite_place(tmp_path: Path) -> DatabasePlace:
    file = tmp_path / "a b?#.db"
    with sqlite3.connect(file) as made:
        made.executescript(MAKE)
    made.close()
    return DatabasePlace("orders", f"sqlite:///{file}")


@pytest.fixture
async def postgres_place(postgres: postgres_server.Server) -> DatabasePlace:
    made = await asyncpg.connect(postgres.dsn)
    await made.execute(f"drop table if exists orders; {MAKE}")
    await made.close()
    return DatabasePlace("orders", postgres.dsn)


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> DatabasePlace:
    found: DatabasePlace = request.getfixturevalue(f"{request.param}_place")
    return found


async def query(place: DatabasePlace, text: str, timeout_s: float = 10.0, **parameters: Any) -> Answer:
    said = {"query": text, "parameters_from": dict.fromkeys(parameters, "1")}
    return await look("sql", said, place, told={"parameters": parameters}, timeout_s=timeout_s)


async def test_rows_are_seen_by_name(place: DatabasePlace) -> None:
    found = seen(await query(place, "select id, state, total from orders where id = :id and ':x' <> ''", id=1))
    assert found == {"rows": [{"id": 1, "state": "paid", "total": 12.5}], "count": 1, "truncated": False}
    assert seen(await query(place, "select 1 as one from orders where id = 99"))["count"] == 0


async def test_two_columns_of_one_name_prove_nothing(place: DatabasePlace) -> None:
    for text in ("select 1 as a, 2 as a", "select id, state as id from orders where id = 99"):
        assert "gives two columns of the name `" in why(await query(place, text))


async def test_a_parameter_is_a_value_whatever_it_says(place: DatabasePlace) -> None:
    evil = "x' or '1'='1"
    assert seen(await query(place, "select id from orders where state = :s or state = :s", s=evil))["rows"] == []


WRITES = [
    "insert into orders values (3, 'x', 1)",
    "update orders set state = 'paid'",
    "delete from orders",
    "drop table orders",
    "create table other (a int)",
    "with x as (select 1) delete from orders",
]


@pytest.mark.parametrize("text", WRITES)
async def test_nothing_can_be_written(place: DatabasePlace, text: str) -> None:
    assert why(await query(place, text)).startswith("`orders` refused the query")
    assert seen(await query(place, "select count(*) as n, max(state) as s from orders"))["rows"] == [
        {"n": 2, "s": "paid"}
    ]


@pytest.mark.parametrize("text", ["select 1; select 2", "nonsense", "select * from missing", "select ?"])
async def test_what_is_no_query_is_refused(place: DatabasePlace, text: str) -> None:
    assert why(await query(place, text)).startswith("`orders` refused the query")


SLOW = {
    "sqlite": "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) as c from n",
    "postgresql": "select count(*) from pg_sleep(60)",
}


async def test_a_query_that_takes_too_long_is_ended(place: DatabasePlace) -> None:
    answer = await query(place, SLOW[place.url.partition(":")[0]], timeout_s=0.5)
    assert answer == Silence("it took longer than 0.5 s") or "refused the query" in why(answer)
    assert seen(await query(place, "select count(*) as n from orders"))["rows"] == [{"n": 2}]


MANY = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select i from n"
RULE: dict[str, Any] = {"sql": {"place": "orders", "query": "select 1"}, "pass": ["result.count > 0"]}


async def test_more_rows_than_are_read_prove_nothing(place: DatabasePlace) -> None:
    answer = await query(place, MANY)
    assert (seen(answer)["count"], seen(answer)["truncated"]) == (MAX_ROWS, True)
    assert verdict(RULE, answer) == ("inconclusive", "`it` could not judge: there are more rows than are read")
    assert verdict(RULE, await query(place, "select 1 as a")) == ("pass", "`it` passed")
    wide = await query(
        place, MANY.replace("1000", "100").replace("select i from", "select i, :x as x from"), x="x" * 10_000
    )
    assert seen(wide)["truncated"] is True


async def test_values_of_sqlite(sqlite_place: DatabasePlace) -> None:
    text = "select null as a, x'ff' as b, 9e999 as c, cast(x'ff61' as text) as d, 'a' || char(0) as e"
    found = seen(await query(sqlite_place, text))
    assert found["rows"] == [{"a": None, "b": "/w==", "c": "inf", "d": "\ufffda", "e": "a\ufffd"}]


async def test_values_of_postgres(postgres_place: DatabasePlace) -> None:
    text = (
        "select 12.50::numeric as n, timestamptz '2027-01-15 09:30Z' as t, array[1, 2] as l, '{\"a\": 1}'::jsonb as j,"
        " 'NaN'::float8 as f, :u::text::uuid as u, ':x::y' as q"
    )
    found = seen(await query(postgres_place, text, u="00000000-0000-0000-0000-000000000001"))
    assert found["rows"] == [
        {
            "n": "12.50",
            "t": "2027-01-15T09:30:00Z",
            "l": [1, 2],
            "j": '{"a": 1}',
            "f": "nan",
            "u": "00000000-0000-0000-0000-000000000001",
            "q": ":x::y",
        }
    ]


@pytest.mark.parametrize(
    "text", ["attach 'other.db' as o", "pragma user_version = 3", "vacuum", "select load_extension('x')", "begin"]
)
async def test_sqlite_can_do_nothing_but_select(sqlite_place: DatabasePlace, text: str) -> None:
    assert why(await query(sqlite_place, text)).startswith("`orders` refused the query")


@pytest.mark.parametrize(
    "text", ["set transaction read write", "begin", "commit", "copy orders to program 'true'", "select setval('a', 1)"]
)
async def test_postgres_cannot_be_talked_into_writing(postgres_place: DatabasePlace, text: str) -> None:
    _ = await query(postgres_place, text)
    assert why(await query(postgres_place, "delete from orders")).endswith("(SQLSTATE 25006)")


async def test_a_database_that_is_not_there_is_told_without_its_address(tmp_path: Path) -> None:
    gone = DatabasePlace("orders", f"sqlite:///{tmp_path}/gone.db")
    assert why(await query(gone, "select 1")) == "`orders` refused the query: unable to open database file"
    assert not (tmp_path / "gone.db").exists()
    nobody = DatabasePlace("orders", "postgresql://u:s3cr3t-pw@127.0.0.1:1/d", ("s3cr3t-pw",))
    assert why(await query(nobody, "select 1")) == "`orders` cannot be reached"


async def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("no database, though long enough to look like one " * 20)
    assert "not a database" in why(await query(DatabasePlace("orders", f"sqlite:///{tmp_path}/x"), "select * from a"))


async def test_a_database_that_somebody_is_writing_can_be_read(sqlite_place: DatabasePlace) -> None:
    other = sqlite3.connect(sqlite_place.url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("pragma journal_mode = wal")
    other.execute("begin immediate")
    other.execute("update orders set state = 'lost'")
    assert seen(await query(sqlite_place, "select state from orders where id = 1"))["rows"] == [{"state": "paid"}]
    other.close()
