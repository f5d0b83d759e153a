"""Consoles to come to."""

from collections.abc import AsyncIterator

import pytest

from tests.console.ground import Standing, consoles


@pytest.fixture
async def it() -> AsyncIterator[Standing]:
    """One console, on a ledger in memory."""
    async with consoles("memory:") as (one,):
        yield one
