"""Every crash, enumerated: a gateway dies once before and once after each passage through each port.

The passages are counted in a first telling of the story, so one that is new in the code is died at as well.
`python -m tests.crash.every` dies at all of them, for all tools and faults, and then twice in a row.
"""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gateway.outbound.ledger import open_ledger
from tests.crash.every import new_memory
from tests.crash.ground import TOOLS, Ground
from tests.crash.invariants import violations
from tests.crash.outside import FAULTS
from tests.crash.stories import told, wrong_with
from tests.postgres_server import Server

LIMIT_S = 100


async def died_everywhere(tool: str, fault: str, new: Callable[[], Ground] = new_memory) -> int:
    """How often the gateway died, each time without harm."""
    whole, seen = await told(new(), tool, fault)
    assert whole.records
    for number, passage in enumerate(seen[0]):
        assert (await wrong_with(new(), tool, fault, number)) == [], f"{tool}, {fault}, died {passage} ({number})"
    return len(seen[0])


@pytest.mark.parametrize("fault", ["none", "dropped after it was done"])
async def test_a_crash_at_any_passage_loses_nothing_and_doubles_nothing(fault: str) -> None:
    with anyio.fail_after(LIMIT_S):
        assert await died_everywhere("write", fault) > 40


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
async def test_a_crash_at_any_passage_does_no_harm_whatever_the_tool(tool: str) -> None:
    with anyio.fail_after(LIMIT_S):
        assert await died_everywhere(tool, "none") > 30


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_crash_at_any_passage_does_no_harm_whatever_the_server_does(fault: str) -> None:
    """To a plain write; what other tools make of the faults takes minutes, see above."""
    with anyio.fail_after(LIMIT_S):
        assert await died_everywhere("write", fault) > 30


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tool", TOOLS)
async def test_without_a_crash_every_fault_is_settled(tool: str, fault: str) -> None:
    with anyio.fail_after(LIMIT_S):
        assert await wrong_with(new_memory(), tool, fault) == []


@pytest.mark.slow
@pytest.mark.long
async def test_whoever_settles_what_a_dead_one_left_may_die_of_it_too() -> None:
    fault = "done after the deadline"
    with anyio.fail_after(LIMIT_S):
        _, seen = await told(new_memory(), "keyed", fault)
        at = next(number for number, passage in enumerate(seen[0]) if str(passage) == "after upstream.call")
        _, (_, second) = await told(new_memory(), "keyed", fault, at)
        for number, passage in enumerate(second):
            assert (await wrong_with(new_memory(), "keyed", fault, at, number)) == [], f"died {passage} ({number})"


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.long), "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[int], str]:
    """Where the ledger of each telling is."""
    if request.param == "sqlite":
        return lambda number: f"sqlite:///{tmp_path / f'{number}.db'}"
    server: Server = request.getfixturevalue("postgres")
    return lambda number: server.url(f"crash_{number + 1}_{tmp_path.name[-12:].lower()}")


@pytest.mark.slow
async def test_a_crash_at_any_passage_does_no_harm_to_a_ledger_that_is_durable(address: Callable[[int], str]) -> None:
    with anyio.fail_after(LIMIT_S):
        number, passages = -1, 1
        while number < passages:
            ledger = await open_ledger(address(number))
            try:
                history, seen = await told(Ground.new(ledger), "write", "none", *([number] if number >= 0 else []))
                assert violations(history) == [], f"died at passage {number} of {passages}"
            finally:
                await ledger.close()
            passages = passages if number >= 0 else len(seen[0])
            number += 1
        assert passages > 40
