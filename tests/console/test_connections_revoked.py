"""Whoever is let in no more has connected nothing, at whichever moment that was said."""

import asyncio

import pytest

from gateway.inbound.console.revoking import of_reviewer
from tests.console.test_connections import ANN, ground
from tests.credentials.test_tokens import until

pytestmark = pytest.mark.anyio


async def test_whoever_is_revoked_while_they_connect_has_connected_nothing() -> None:
    async with ground() as it:
        browser = await it.at.visitor(ANN)
        address = await it.gone(browser)
        it.provider.goes_on.clear()
        comes = asyncio.ensure_future(it.back(browser, it.agreed(address)))
        await until(lambda: it.provider.served.asked)
        assert await it.at.it.ledger.once(of_reviewer("acme", "ann"), it.at.it.clock.now() + 1e6)
        it.provider.goes_on.set()
        answer = await comes
        assert (answer.status_code, "nothing was connected" in answer.text) == (401, True)
        assert await it.whose() is None
        assert len(it.provider.revoked) == 1
