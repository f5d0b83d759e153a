"""What runs for ever beside the calls goes on after whatever happens to it, and says what did."""

import asyncio

import pytest

from gateway.runtime.keeping import AGAIN_S, kept
from tests.world import ToldClock

pytestmark = pytest.mark.anyio


async def test_what_runs_for_ever_is_begun_again_after_an_error_that_nobody_foresaw(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, begun = ToldClock(), 0

    async def keep() -> None:
        nonlocal begun
        begun += 1
        if begun < 3:
            raise RuntimeError("a bug")
        await asyncio.Event().wait()

    keeping = asyncio.ensure_future(kept("recovery", keep, clock))
    for _ in range(6):
        await asyncio.sleep(0)
        clock.tell(AGAIN_S)
    assert begun == 3
    assert [one.getMessage() for one in caplog.records] == ["recovery failed, and goes on in 5 s"] * 2
    assert all(one.exc_info is not None for one in caplog.records)
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
