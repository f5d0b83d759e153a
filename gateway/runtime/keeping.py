"""What runs for ever beside the calls, and how it is ended."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from gateway.model.at_rest import sealed_by
from gateway.ports import Clock, Ledger

_LOG = logging.getLogger("counterfoil")

AGAIN_S = 5.0
"""Before what runs for ever is begun again, after an error that nobody foresaw."""

LOOKED = 8
"""Payloads that are looked at for the key that they need."""


async def kept(what: str, keep: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Runs for ever, as `keep` should: what ends it is logged, and it is begun again."""
    while True:
        try:
            await keep()
        except Exception:  # noqa: BLE001 - logged whole; without it nobody would see that it has ended
            _LOG.exception("%s failed, and goes on in %.0f s", what, AGAIN_S)
        await clock.sleep(AGAIN_S)


async def end(tasks: Sequence["asyncio.Future[Any]"]) -> None:
    """They are over."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def lacking_key(ledger: Ledger) -> str | None:
    """The id of a key that payloads of the ledger are encrypted with and that is not here; None if none is seen.

    Raises: LedgerUnavailable.
    """
    found = (sealed_by(stored) for _, stored in await ledger.payloads(limit=LOOKED))
    return next((one.hex() for one in found if one is not None), None)
