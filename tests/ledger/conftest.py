"""Ledgers to test with: each kind that there is, those that outlast their process, and the file of one."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg
import pytest

from gateway.outbound.ledger import SqliteLedger, open_ledger, open_sqlite
from gateway.outbound.ledger.postgres import address
from gateway.outbound.ledger.postgres.ledger import PostgresLedger, open_postgres
from gateway.ports import Ledger
from tests.ledger.faulty import locked
from tests.postgres_server import Server


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger's file is, or will be."""
    return tmp_path / "ledger.db"


def _address(kind: str, request: pytest.FixtureRequest, path: Path) -> str:
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return "memory:" if kind == "memory" else f"sqlite:///{path}"


def addresses(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Addresses of ever new ledgers of that kind, for a test that makes many."""
    server: Server | None = request.getfixturevalue("postgres") if kind == "postgres" else None
    for name in (f"many_{next(_NUMBERS)}" for _ in itertools.count()):
        if server is not None:
            yield server.url(name)
        else:
            yield "memory:" if kind == "memory" else f"sqlite:///{folder / name}.db"


_NUMBERS = itertools.count(1)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def ledger(request: pytest.FixtureRequest, path: Path) -> AsyncIterator[Ledger]:
    """Each kind of ledger, new."""
    made = await open_ledger(_address(request.param, request, path))
    yield made
    await made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """The address of a ledger that is not there yet, of each kind that outlasts its process and may be shared."""
    return _address(request.param, request, path)


@pytest.fixture
async def shared(url: str) -> AsyncIterator[Ledger]:
    """A new ledger at `url`."""
    made = await open_ledger(url)
    yield made
    await made.close()


@pytest.fixture
async def sqlite(path: Path) -> AsyncIterator[SqliteLedger]:
    """A new ledger in the file at `path`."""
    made = await open_sqlite(path)
    yield made
    await made.close()


@dataclass
class Grouped:
    """A ledger that commits in groups."""

    url: str
    ledger: SqliteLedger | PostgresLedger
    locked: Callable[[], AbstractAsyncContextManager[None]]
    """Within its block nothing can be written."""


@pytest.fixture
async def grouped(url: str, path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Grouped]:
    """A new ledger of each kind that commits in groups."""
    if address.is_postgres(url):
        server: Server = request.getfixturevalue("postgres")
        ledger: SqliteLedger | PostgresLedger = await open_postgres(url)
        made = Grouped(url, ledger, lambda: locked_table(server, url))
    else:
        made = Grouped(url, await open_sqlite(path), lambda: locked_file(path))
    yield made
    await made.ledger.close()


@asynccontextmanager
async def locked_table(server: Server, url: str, table: str = "event") -> AsyncIterator[None]:
    """Another session has locked the table against whoever would write to it."""
    other = await asyncpg.connect(server.dsn)
    try:
        async with other.transaction():
            await other.execute(f"LOCK TABLE {address.parse(url).schema}.{table} IN EXCLUSIVE MODE")
            yield
    finally:
        await other.close()


@asynccontextmanager
async def locked_file(path: Path) -> AsyncIterator[None]:
    """As `locked`."""
    with locked(path):
        yield
