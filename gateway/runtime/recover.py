"""Settles what is open and no longer awaited: at start, and swept again. It sends no effect.

An attempt is touched only after its lease has expired, and is claimed first, so that no gateway settles
what another still waits for.
"""

import logging

from gateway.kernel.reduce import CorruptLedger
from gateway.model.run import AttemptState, Tracked
from gateway.ports import LedgerUnavailable
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.undo import Undoer

_LOG = logging.getLogger("counterfoil.recover")


async def sweep(book: Book, carrier: Carrier, undoer: Undoer | None = None) -> int:
    """How many attempts were settled: reads abandoned, writes unknown and held, verifiers asked again, effects undone
    that must not stay.
    """
    settled = 0
    found = await book.ledger.tracked(states={"open", "unverified"})
    carrier.leases.forget(one.attempt for one in found)
    for tracked in found:
        if carrier.waits_for(tracked.attempt) or not carrier.leases.free(tracked):
            continue  # our own and alive, or another's who may be
        try:
            if tracked.state == "unverified" and not await carrier.can_verify(tracked.run, tracked.attempt):
                continue  # another gateway serves what it has to be judged by
            if await book.ledger.claim(tracked, book.options.owner, book.clock.now() + book.options.lease_s):
                settled += await _settle(book, carrier, tracked)
        except (CorruptLedger, PolicyMissing) as error:
            _LOG.error("attempt %s cannot be settled: %s", tracked.attempt, error)
    return settled + (await undoer.sweep() if undoer is not None else 0)


async def _settle(book: Book, carrier: Carrier, tracked: Tracked) -> int:
    run = await book.fresh_state_of(tracked.run)
    attempt = run.attempts.get(tracked.attempt)
    if attempt is None:
        raise CorruptLedger(f"run `{tracked.run}` knows no such attempt")
    if attempt.unverified:
        return int((await carrier.verify_again(run.id, attempt.id)).attempts[attempt.id].settled)
    waits = attempt.state is AttemptState.SUSPENDED and attempt.suspended_until is not None
    if waits and attempt.suspended_until is not None and attempt.suspended_until.timestamp() > book.clock.now():
        return 0
    await book.lose(run.id, attempt.id, "its gateway went away before an answer was recorded")
    return 1


async def keep_sweeping(book: Book, carrier: Carrier, undoer: Undoer) -> None:
    """Runs for ever: one sweep for each lease time."""
    while True:
        try:
            if count := await sweep(book, carrier, undoer):
                _LOG.info("settled %d attempts that were left open", count)
        except LedgerUnavailable as error:
            _LOG.warning("recovery waits for the ledger: %s", error)
        await book.clock.sleep(book.options.lease_s)
