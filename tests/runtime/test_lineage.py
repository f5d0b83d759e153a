"""What the ledger says of where a run comes from."""

import pytest

from gateway.model.principal import Parent
from gateway.runtime.lineage import opened_from
from tests import world
from tests.runtime.house import house

pytestmark = pytest.mark.anyio


async def test_the_ledger_knows_from_which_run_another_was_opened() -> None:
    async with house() as it:
        await it.engine.open_run(
            run="run_2", principal=world.USER, origin="token", attribution={}, parent=Parent("run_1")
        )
        found = [await opened_from(it.ledger, run) for run in ("run_2", "run_1", "run_never", "switches")]
        assert found == ["run_1", None, None, None]
