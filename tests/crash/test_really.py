"""Really: a gateway process is killed by SIGKILL at its passages through its ports, before a real server that counts.

`python -m tests.crash.processes --rounds 300` dies at every passage and at some hundred moments.
"""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from tests.crash.processes import LIMIT_S, passages, round_of, together
from tests.postgres_server import Server

pytestmark = pytest.mark.slow

ROUNDS = 6
"""At how many of the passages a gateway dies here, evenly spread; the command dies at all."""


@pytest.fixture(params=["sqlite", "postgres"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Where the ledger of a round is."""
    if request.param == "sqlite":
        return lambda name: f"sqlite:///{tmp_path / name}.db"
    server: Server = request.getfixturevalue("postgres")
    return lambda name: server.url(f"round_{name}_{tmp_path.name[-12:].lower()}")


@pytest.mark.parametrize("http", [False, pytest.param(True, marks=pytest.mark.long)])
async def test_a_gateway_that_is_killed_at_a_passage_loses_nothing_and_doubles_nothing(
    *, http: bool, tmp_path: Path, address: Callable[[str], str]
) -> None:
    dry = tmp_path / "dry"
    dry.mkdir()
    with anyio.fail_after(5 * LIMIT_S):
        seen = await passages(dry, address("dry"))
        for number in range(int(http), ROUNDS, 2):
            folder, at = tmp_path / str(number), (2 * number + 1) * len(seen) // (2 * ROUNDS)
            folder.mkdir()
            found = await round_of(folder, address(str(number)), at=at, http=http)
            assert found == [], f"died {seen[at]} ({at} of {len(seen)})"


@pytest.mark.long
async def test_a_gateway_that_is_killed_at_some_moment_loses_nothing_and_doubles_nothing(
    tmp_path: Path, address: Callable[[str], str]
) -> None:
    with anyio.fail_after(3 * LIMIT_S):
        assert await round_of(tmp_path, address("round"), after_s=1.5) == []


async def test_of_four_gateways_over_one_ledger_those_that_die_never_block_the_others(
    tmp_path: Path, address: Callable[[str], str]
) -> None:
    with anyio.fail_after(3 * LIMIT_S):
        found, longest_s = await together(tmp_path, address("shared"), 4, kills=2, seed=1)
    assert found == []
    assert longest_s < 10
