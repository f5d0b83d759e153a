"""Tells people, by the channels that the configuration names, that something waits for them.

Each message is sent at least once, whatever is killed when, under an id that is the same each time. Several gateways do
not send one at the same time: whoever tells of a question claims its tracked row first; of what has no such row, or one
that recovery needs, each gateway tells after a delay of its own, once it has seen that nobody else did.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeAlias

from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import Who
from gateway.model.record import utc
from gateway.ports import LedgerUnavailable, NotTaken, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.channels import Line, pause_s
from gateway.runtime.leases import NOBODYS, Leases
from gateway.runtime.matters import Matter, question
from gateway.runtime.outbox import Outbox, Parcel, Watch, delivered, failed
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.wording import message

_LOG = logging.getLogger("counterfoil.notices")

LinkFor: TypeAlias = Callable[[Who | None, Matter], str | None]
"""Where that is answered; for one reviewer alone, if one is given."""

LOOK_S = 1.0
MOST_S = 5.0
"""Between two looks at what waits; the longer one took, the longer is the pause after it."""
WORKERS = 8
"""Questions of which is told side by side."""
LEASE_S = 15.0
"""After so long without a sign of life of whoever tells of a question, another gateway does."""
LAST_S = 1.0
"""For so long an orderly end waits for what is being sent."""
AGAIN_S = 2.0
"""After which it is tried again to tell of what another gateway was telling of."""


class Announcer:
    """Tells people. One for each process that has channels."""

    def __init__(
        self,
        book: Book,
        lines: Sequence[Line],
        link_for: LinkFor,
        random: Callable[[], float],
        for_people: Callable[[str], bool] = lambda _attempt: False,
        redact: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`random` gives numbers from 0 to 1. `for_people` says of an unknown attempt whether this gateway knows that
        only a person can settle it. `redact` is what sentences go through before anything is cut or spelled out.
        """
        self._book = book
        self._lines = lines
        self._link_for = link_for
        self._random = random
        self._redact = redact
        self._clock = book.clock
        self._owner = f"{book.options.owner}/notices"  # recovery must not take our lease for its own gateway's
        self._outbox = Outbox(book, lines, self._owner, for_people)
        self._leases = Leases(book.clock, self._owner, LEASE_S)
        self._workers: list[asyncio.Task[None]] = []
        self._ending = False
        self._unrecorded = False
        """Whether some of what is due may be done, and only not recorded."""

    def state(self) -> dict[str, Any]:
        """For `/readyz`."""
        return {
            "undelivered": sum(len(one.parcels) for one in self._outbox.due.values()),
            "channels": {line.name: line.state() for line in self._lines},
        }

    def unusable(self) -> Sequence[tuple[str, str]]:
        """The channels that cannot be used as they are configured, and why."""
        return [(line.name, line.notifier.trouble) for line in self._lines if line.notifier.trouble is not None]

    async def keep(self) -> None:
        """Runs for ever."""
        self._ending = False
        try:
            while True:
                began = self._clock.monotonic()
                try:
                    await self.look()
                except LedgerUnavailable as error:
                    self._book.health.refused(str(error))  # which says it once
                took_s = self._clock.monotonic() - began
                await self._clock.sleep(min(max(LOOK_S, 20 * took_s), MOST_S))
        finally:
            await self._end()

    async def _end(self) -> None:
        """Nothing more is begun, and what was sent a moment ago is recorded, if that takes no time to speak of."""
        self._ending = True
        if self._workers:
            await asyncio.wait(self._workers, timeout=LAST_S)
        for one in self._workers:
            one.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def look(self) -> None:
        """What is new is seen, and what is due is being told.

        Raises: LedgerUnavailable.
        """
        await self._outbox.see()
        self._leases.forget(self._outbox.due)
        ended = [one for one in self._workers if one.done()]
        self._workers = [one for one in self._workers if one not in ended]
        for one in ended:
            one.result()  # an error there is one of ours
        more = min(WORKERS, len(self._outbox.due)) - len(self._workers)
        self._workers += [asyncio.create_task(self._work()) for _ in range(more)]

    async def idle(self) -> None:
        """Whatever was due has been told, or tried."""
        await asyncio.gather(*self._workers)

    async def _work(self) -> None:
        """Tells of one thing after the other, until nothing more is due or no channel is free."""
        while (watch := self._next()) is not None:
            parcels = list(self._outbox.ready(watch))
            watch.busy = True
            for one in parcels:
                one.line.busy += 1
            try:
                await self._tell(watch, parcels)
            except LedgerUnavailable as error:
                if not isinstance(error, UnreadableRecord):
                    self._book.health.refused(str(error))
                self._later(watch, parcels, error)
            except (CorruptLedger, PolicyMissing) as error:
                self._later(watch, parcels, error)
            finally:
                watch.busy = False
                for one in parcels:
                    one.line.busy -= 1

    def _next(self) -> Watch | None:
        now, outbox = self._clock.monotonic(), self._outbox
        if self._ending or not (self._unrecorded or any(line.free(now) for line in self._lines)):
            return None
        found = next((one for one in outbox.due.values() if not one.busy and any(outbox.ready(one))), None)
        self._unrecorded = self._unrecorded and found is not None
        return found

    def _later(self, watch: Watch, parcels: Sequence[Parcel], why: Exception) -> None:
        """What it met with is of the ledger, not of a channel: a message that was taken is not sent again for it."""
        _LOG.warning("what was told of %s is not recorded yet: %s", watch.waits.name, why)
        self._unrecorded = True
        for one in parcels:
            one.due = self._clock.monotonic() + pause_s(max(1, one.tries), NotTaken(""), self._random)

    async def _tell(self, watch: Watch, parcels: Sequence[Parcel]) -> None:
        """Of one thing, on these channels.

        Raises: LedgerUnavailable, CorruptLedger, PolicyMissing.
        """
        async with self._turn(watch, claimed=all(one.stage != "over" for one in parcels)) as ours:
            if not ours:
                for one in parcels:
                    one.due = self._clock.monotonic() + AGAIN_S
                return
            asked = await question(self._book, watch.waits)
            if asked is None:
                self._outbox.drop(watch, parcels)
                return
            moot = [one for one in parcels if one.notice in asked.told or _is_moot(one, asked)]
            self._outbox.drop(watch, moot)
            await self._outbox.missed(asked, moot)
            sending = (self._send(watch, one, asked) for one in parcels if one not in moot)
            for what in await asyncio.gather(*sending, return_exceptions=True):
                if what is not None:
                    raise what

    @asynccontextmanager
    async def _turn(self, watch: Watch, *, claimed: bool) -> AsyncIterator[bool]:
        """Whether it is this gateway's turn to tell of it, and until the end of the block nobody else's."""
        row = watch.waits.row if claimed else None
        if row is None:
            yield True
            return
        until = self._clock.now() + LEASE_S
        if not self._leases.free(row) or not await self._book.ledger.claim(row, self._owner, until):
            self._outbox.look_again()
            yield False
            return
        alive = asyncio.create_task(self._live(row.attempt))
        try:
            yield True
        finally:
            alive.cancel()
            watch.waits = replace(watch.waits, row=replace(row, owner=self._owner, lease_until=NOBODYS))
            with suppress(LedgerUnavailable):  # then it is free once the lease is over
                await self._book.ledger.renew(self._owner, [row.attempt], NOBODYS)

    async def _live(self, name: str) -> None:
        """Its lease is renewed for as long as it is being told of."""
        while True:
            await self._clock.sleep(LEASE_S / 3)
            with suppress(LedgerUnavailable):
                await self._book.ledger.renew(self._owner, [name], self._clock.now() + LEASE_S)

    async def _send(self, watch: Watch, one: Parcel, asked: Matter) -> None:
        if one.done is None:
            one.tries += 1
            link = self._link_for(one.line.audience.reviewer, asked)
            told = message(self._redacted(asked), one.notice, one.stage, link, utc(self._clock.now()))
            self._judge(one, asked, await one.line.notifier.send(told))
        if one.done is not None:
            await self._outbox.record(asked.run, one.done)
            self._outbox.drop(watch, [one])

    def _redacted(self, asked: Matter) -> Matter:
        """Without secrets and personal data in the sentences that policies, agents and servers had a hand in. Who asks
        is told: without that, nobody could answer.
        """
        return replace(asked, reason=self._redact(asked.reason), consequence=self._redact(asked.consequence))

    def _judge(self, one: Parcel, asked: Matter, said: NotTaken | None) -> None:
        """What the channel's word means for the message: it is done, or tried again."""
        if said is None:
            one.line.took()
            one.done = delivered(one, asked.name)
            return
        now = self._clock.monotonic()
        if not one.line.failures:
            _LOG.warning("the channel `%s` did not take a message: %s", one.line.name, said.reason)
        one.line.left_alone(said, now, self._random)
        one.due = now + pause_s(one.tries, said, self._random)
        if said.never or self._clock.now() + (one.due - now) >= one.until:
            one.line.given_up += 1
            one.done = failed(one, asked.name, said.reason)
            _LOG.error("nobody was told of %s by `%s`: %s", asked.name, one.line.name, said.reason)


def _is_moot(one: Parcel, asked: Matter) -> bool:
    """Whether nobody need be told any more."""
    return one.done is None and one.stage != "over" and asked.state != "open"
