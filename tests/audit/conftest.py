"""A ledger of every kind of event, sealed, for those who change it."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.model.note import Note
from gateway.outbound.ledger import open_sqlite
from tests.audit.ledgers import KEY, every_kind, sealed
from tests.audit.tampered import reseal


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Note]:
    """A ledger of every kind of event, sealed half-way and at its end, and its head."""
    path = tmp_path_factory.mktemp("made") / "ledger.db"

    async def make() -> Note:
        ledger = await open_sqlite(path)
        await every_kind(ledger)
        head = await sealed(ledger)
        await ledger.close()
        assert head is not None
        return head

    head = asyncio.run(make())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        reseal(db, KEY, sizes=[20])
    return path, head


@pytest.fixture
def path(made: tuple[Path, Note], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(made[0], tmp_path / "ledger.db"))


@pytest.fixture
def head(made: tuple[Path, Note]) -> Note:
    return made[1]


@pytest.fixture
def db(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, isolation_level=None)) as opened:
        yield opened
