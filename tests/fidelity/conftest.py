"""One cell after the other, for all the tests of a file."""

from collections.abc import AsyncIterator

import pytest

from tests.fidelity.cells import KINDS, Cell, Kind, cell


@pytest.fixture(scope="module", params=KINDS, ids=str)
async def it(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cell]:
    """The cell, open."""
    kind: Kind = request.param
    async with cell(kind, tmp_path_factory.mktemp("raw")) as opened:
        yield opened
