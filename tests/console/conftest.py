"""Consoles to come to, and a provider to sign in at."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.console.ground import Standing, consoles
from tests.console.provider import OpenId, stage
from tests.console.signing import Signing, SigningMaker, at


@pytest.fixture
async def it() -> AsyncIterator[Standing]:
    """One console, on a ledger in memory."""
    async with consoles("memory:") as (one,):
        yield one


@pytest.fixture(scope="session")
def providers() -> Iterator[Callable[[float], OpenId]]:
    with stage() as new:
        yield new


@pytest.fixture
def signing(providers: Callable[[float], OpenId]) -> SigningMaker:
    """Makes a console and its provider."""

    @asynccontextmanager
    async def made(**more: Any) -> AsyncIterator[Signing]:
        async with consoles("memory:") as (console,):
            yield at(console, providers(console.clock.now()), **more)

    return made
