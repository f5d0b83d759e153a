"""Work that must come to its end, whoever stops waiting for it."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def to_its_end(work: Awaitable[T], call_off: Callable[[], object] = lambda: None) -> T:
    """What the work gives. Whoever is cancelled meanwhile has called it off, and is cancelled once it is over."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            call_off()
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        _ = task.exception()  # nobody is left who would want to know
    raise cancelled
