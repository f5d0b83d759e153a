"""Ledgers to test with: each kind that there is, and the file of the one that has a file."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.outbound.ledger import SqliteLedger, open_ledger, open_sqlite
from gateway.ports import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the ledger's file is, or will be."""
    return tmp_path / "ledger.db"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """The address of a new ledger of each kind."""
    if request.param == "postgres":
        address: str = request.getfixturevalue("postgres_url")
        return address
    return "memory:" if request.param == "memory" else f"sqlite:///{path}"


@pytest.fixture
async def ledger(url: str) -> AsyncIterator[Ledger]:
    """Each kind of ledger, new."""
    made = await open_ledger(url)
    yield made
    await made.close()


@pytest.fixture
async def sqlite(path: Path) -> AsyncIterator[SqliteLedger]:
    """A new ledger in the file at `path`."""
    made = await open_sqlite(path)
    yield made
    await made.close()
