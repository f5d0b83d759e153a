"""That an answer was delivered is known to whoever decides next, and costs no commit while calls follow each other."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from gateway.outbound.ledger import SqliteLedger, open_sqlite
from tests.runtime.house import House, house, outcome

pytestmark = pytest.mark.anyio

LIMIT_S = 20
CALLS = 20


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    made = await open_sqlite(tmp_path / "ledger.db")
    yield made
    await made.close()


@pytest.fixture
async def it(ledger: SqliteLedger) -> AsyncIterator[House]:
    async with house(ledger) as made:
        yield made


async def test_deliveries_are_written_with_the_calls_that_follow(it: House, ledger: SqliteLedger) -> None:
    before = ledger.commits
    with anyio.fail_after(LIMIT_S):
        for number in range(CALLS):
            shown = await it.call("write", {"n": number}, deliver=False)
            it.engine.delivered(shown)
    made = ledger.commits - before
    # Two for each call: its intent and its receipt. A machine that stands still for a moment may make it some more.
    assert 2 * CALLS <= made < 2.5 * CALLS


async def test_an_equal_call_is_a_new_one_though_the_delivery_is_not_yet_on_disk(
    it: House, ledger: SqliteLedger
) -> None:
    first = await it.call("write", {"n": 1}, deliver=False)
    it.engine.delivered(first)
    second = await it.call("write", {"n": 1}, deliver=False)
    assert outcome(second) == "result"
    assert second.attempt != first.attempt
    kinds = [record.event.kind for record, _ in await ledger.read("run_1")]
    assert kinds.index("outcome.delivered") < len(kinds) - 1 - kinds[::-1].index("intent.recorded")


async def test_an_equal_call_of_another_run_finds_the_effect_let_go(it: House) -> None:
    await it.open("run_2")
    first = await it.call("write", {"n": 1}, deliver=False)
    it.engine.delivered(first)
    second = await it.call("write", {"n": 1}, run="run_2", deliver=False)
    assert second.run == "run_2"
    assert second.attempt != first.attempt


async def test_a_delivery_is_on_disk_once_its_gateway_has_ended(ledger: SqliteLedger) -> None:
    async with house(ledger) as it:
        it.engine.delivered(await it.call("write", {"n": 1}, deliver=False))
    kinds = [record.event.kind for record, _ in await ledger.read("run_1")]
    assert kinds[-1] == "outcome.delivered"
