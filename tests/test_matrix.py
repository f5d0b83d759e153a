"""The whole matrix: what MCP has, for each client's version, each front, and each upstream's era and transport.

Rows are features (`tests/matrix/`), columns are cells; what is said of them in `docs/relay.md` is what these rows show.
"""

import re
from collections.abc import AsyncIterator

import pytest

from tests.matrix.agent import MODERN
from tests.matrix.cells import PLACES, ROOT, Cell, Place, commanded, opened
from tests.matrix.rows import ROWS
from tests.servers.matrix.http import serving

pytestmark = pytest.mark.anyio

COMMANDED = [
    Place("2025-06-18", "stdio", "2025-11-25", "stdio"),
    Place("2025-11-25", "http", MODERN, "stdio"),
    Place(MODERN, "stdio", "2025-11-25", "sse"),
    Place(MODERN, "http", MODERN, "http"),
]
"""Cells that are tried with the real command too."""


@pytest.fixture(scope="session")
async def base() -> AsyncIterator[str]:
    """Where the servers over HTTP are."""
    async with serving() as address:
        yield address


@pytest.fixture(scope="module", params=PLACES, ids=str)
async def cell(request: pytest.FixtureRequest, base: str) -> AsyncIterator[Cell]:
    """One cell, open for all its rows."""
    async with opened(request.param, base) as it:
        yield it


@pytest.mark.parametrize("row", ROWS)
async def test_matrix(cell: Cell, row: str) -> None:
    await ROWS[row](cell)


@pytest.fixture(scope="module", params=COMMANDED, ids=str)
async def commanded_cell(
    request: pytest.FixtureRequest, base: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Cell]:
    """One cell with the real command, open for all its rows."""
    async with commanded(request.param, base, tmp_path_factory.mktemp("cell")) as it:
        yield it


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("row", ROWS)
async def test_matrix_by_the_command(commanded_cell: Cell, row: str) -> None:
    await ROWS[row](commanded_cell)


def test_each_row_is_told_in_the_documentation() -> None:
    told = re.findall(r"^\|.*\| `(\w+)` \|$", (ROOT / "docs" / "relay.md").read_text(), re.MULTILINE)
    assert told == list(ROWS)
