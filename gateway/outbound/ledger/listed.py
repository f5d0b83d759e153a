"""Rows of the list of what is unsettled, as `Tracked`: thousands of them, and nobody else waits meanwhile."""

import asyncio
from collections.abc import Sequence
from typing import Any

from gateway.ports import Tracked

SLICE = 1_000
"""Rows between two turns of the event loop: some milliseconds."""


async def in_slices(rows: Sequence[Sequence[Any]]) -> Sequence[Tracked]:
    """Each row as what it says."""
    made = list[Tracked]()
    for at in range(0, len(rows), SLICE):
        if at:
            await asyncio.sleep(0)
        made += [Tracked(*row) for row in rows[at : at + SLICE]]
    return made
