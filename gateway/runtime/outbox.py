"""What people must still be told: found in the ledger, and done when the ledger says so. Only the rest is in memory."""

import hashlib
import heapq
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules
from gateway.model.events import Event
from gateway.model.notice import NoticeSent, Stage, notice_id
from gateway.model.run import Run
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.channels import Line
from gateway.runtime.matters import FOUND, OVER, Matter, Waits, decided, over, question, waiting
from gateway.runtime.policies import PolicyMissing

_LOG = logging.getLogger("counterfoil.notices")

READ = 500
"""What is seen for the first time is read so many at a time."""
KEPT_S = 86_400.0
"""After which a message that no try has brought is recorded as failed."""
LEAST_S = 3_600.0
"""For so long a message is tried in any case, however old what it tells of is when it is first seen."""
SOON = 0.8
"""Of a question's life: then those who were told are told again, if it is still open."""
LEAST_LIFE_S = 120.0
"""A question that stands for less than that is told of once."""
SPREAD_S = 8.0
"""Over which gateways spread what they cannot claim."""
UNKNOWN_S = 300.0
"""For so long the gateways may settle an unknown outcome themselves before people are told, if they can at all."""

UNREADABLE = (CorruptLedger, UnreadableRecord, PolicyMissing)


@dataclass(slots=True, eq=False)
class Parcel:
    """One message to one channel that is not done."""

    line: Line
    notice: str
    stage: Stage
    until: float
    """In seconds since the epoch; from then on it is given up."""
    due: float
    """By the monotonic clock."""
    tries: int = 0
    done: NoticeSent | None = None
    """What came of it, while that is not recorded yet."""


@dataclass(slots=True, eq=False)
class Watch:
    """Something that waits, and the messages about it that are not done."""

    waits: Waits
    parcels: list[Parcel] = field(default_factory=list)
    busy: bool = False
    staged: bool = False
    """As in a question: others may have to be told of it later."""


class Outbox:
    """The messages of one process. It sends none."""

    def __init__(self, book: Book, lines: Sequence[Line], owner: str, for_people: Callable[[str], bool]) -> None:
        self._book = book
        self._clock = book.clock
        self._lines = lines
        self._owner = owner
        self._for_people = for_people
        self._known: dict[str, Watch] = {}
        """All that waits, by name."""
        self.due: dict[str, Watch] = {}
        """What has messages that are not done, what is over among them if that must be said."""
        self._soon: list[tuple[float, str]] = []
        """A heap: when a question is nearly up."""
        self._decided: frozenset[str] = frozenset()
        """Records of answers that were seen."""
        self._recalled = False
        """Whether it was looked for what was over while nobody was there to tell."""
        self._place: int | None = None
        """Up to which the log has been looked at."""

    # --- what waits ---------------------------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Something may be other than it was seen, though nothing was recorded."""
        self._place = None

    async def see(self) -> None:
        """Whatever waits by now is known, and whatever waits no more is not.

        Raises: LedgerUnavailable.
        """
        place = await self._book.ledger.closed()
        if not self._recalled:
            await self._recall()
            self._recalled = True
        if place != self._place:
            found = {one.name: one for one in await waiting(self._book)}
            new = [one for name, one in found.items() if name not in self._known]
            for waits in new[:READ]:
                await self._begin(waits)
            gone = [watch for name, watch in self._known.items() if name not in found]
            for watch in gone:
                if not watch.busy:  # else what is being told of it is recorded first
                    del self._known[watch.waits.name]
                    await self._end(watch)
            self._renew(found.values())
            for watch in await self._moved():
                await self._next_stage(watch)
            self._place = place if len(new) <= READ and not any(one.busy for one in gone) else None
        await self._see_soon()

    def _renew(self, found: Iterable[Waits]) -> None:
        for waits in found:
            watch = self._known.get(waits.name)
            if watch is not None and not watch.busy:
                watch.waits = waits

    async def _begin(self, waits: Waits) -> None:
        """It is watched from now on, with a message to each channel that wants one and has none."""
        watch = self._known[waits.name] = Watch(waits)
        try:
            asked = await question(self._book, waits, whole=False)
        except UNREADABLE as error:
            _LOG.error("nobody can be told of %s: %s", waits.name, error)
            return
        if asked is None:
            return
        watch.staged = asked.staged
        self._put(watch, asked, "asked", [line for line in self._lines if line.wants(asked)])
        if asked.expires_at is not None:
            life_s = (asked.expires_at - asked.asked_at).total_seconds()
            if life_s >= LEAST_LIFE_S:
                heapq.heappush(self._soon, (asked.asked_at.timestamp() + SOON * life_s, waits.name))

    async def _moved(self) -> Sequence[Watch]:
        """Questions in stages about which somebody may have said something since the last look."""
        staged = [one for one in self._known.values() if one.staged]
        if not staged:
            return ()
        said = await decided(self._book)
        new = said.keys() - self._decided
        runs, self._decided = {said[record] for record in new}, frozenset(said)
        return [one for one in staged if len(new) == FOUND or one.waits.run in runs]

    async def _next_stage(self, watch: Watch) -> None:
        """Where others are asked by now, their channels are told."""
        with suppress(*UNREADABLE):
            asked = await question(self._book, watch.waits)
            watch.staged = asked is not None and asked.staged
            if asked is not None and asked.state == "open":
                self._put(watch, asked, "asked", [line for line in self._lines if line.wants(asked)])

    async def _see_soon(self) -> None:
        """Those who were told of a question are told that its time is nearly up."""
        while self._soon and self._soon[0][0] <= self._clock.now():
            _, name = heapq.heappop(self._soon)
            watch = self._known.get(name)
            if watch is None:
                continue
            with suppress(*UNREADABLE):
                asked = await question(self._book, watch.waits, whole=False)
                if asked is not None and asked.state == "open":
                    self._put(watch, asked, "soon", self._told(asked))

    async def _end(self, watch: Watch) -> None:
        """It waits no more: whoever was told of a question that nobody need answer is told so."""
        self.due.pop(watch.waits.name, None)
        if watch.waits.about == "approval":
            with suppress(*UNREADABLE):
                asked = await question(self._book, watch.waits)
                if asked is not None and not self._say_over(asked):
                    await self.missed(asked, watch.parcels)

    async def _recall(self) -> None:
        """What was over while nobody was there to tell is told of now."""
        for waits in await over(self._book, KEPT_S):
            with suppress(*UNREADABLE):
                asked = await question(self._book, waits)
                if asked is not None:
                    self._say_over(asked)

    def _say_over(self, asked: Matter) -> bool:
        """Whether it is a question that nobody need answer any more; those who were told of it are to be told so."""
        if asked.state not in OVER:
            return False
        self._put(Watch(Waits(asked.about, asked.name, asked.run)), asked, "over", self._told(asked))
        return True

    def _told(self, asked: Matter) -> list[Line]:
        """The channels that were told of it."""
        ids = {line.name: notice_id(asked.run, asked.seq, line.name, "asked") for line in self._lines}
        return [line for line in self._lines if asked.told.get(ids[line.name]) == "delivered"]

    # --- messages -----------------------------------------------------------------------------------------------------

    def _put(self, watch: Watch, asked: Matter, stage: Stage, lines: Sequence[Line]) -> None:
        """A message of that stage to each of these channels for which none is done."""
        now = self._clock.now()
        until = max((asked.asked_at.timestamp() if stage == "asked" else now) + KEPT_S, now + LEAST_S)
        if asked.expires_at is not None and stage == "soon":
            until = asked.expires_at.timestamp()
        for line in lines:
            name = notice_id(asked.run, asked.seq, line.name, stage)
            if name not in asked.told and all(one.notice != name for one in watch.parcels):
                due = self._clock.monotonic() + self._delay_s(watch.waits, name, stage)
                watch.parcels.append(Parcel(line, name, stage, until, due))
        if watch.parcels:
            self.due[watch.waits.name] = watch

    def _delay_s(self, waits: Waits, notice: str, stage: Stage) -> float:
        wait_s = UNKNOWN_S if waits.about == "unknown" else 0.0
        if waits.row is not None and stage != "over":
            return wait_s
        turn = hashlib.sha256(f"{self._owner} {notice}".encode()).digest()
        return wait_s + SPREAD_S * int.from_bytes(turn[:4]) / 2**32

    def ready(self, watch: Watch) -> Iterator[Parcel]:
        """Those of its messages that can be sent now."""
        now = self._clock.monotonic()
        early = watch.waits.about == "unknown" and self._for_people(watch.waits.name)
        for one in watch.parcels:
            due = one.due - UNKNOWN_S if early and not one.tries else one.due
            if due <= now and (one.done is not None or one.line.free(now)):
                yield one

    def drop(self, watch: Watch, done: Sequence[Parcel]) -> None:
        """These are no longer to be sent."""
        watch.parcels = [one for one in watch.parcels if one not in done]
        if not watch.parcels and self.due.get(watch.waits.name) is watch:
            del self.due[watch.waits.name]

    # --- what is done -------------------------------------------------------------------------------------------------

    async def record(self, run: str, sent: NoticeSent) -> None:
        """The ledger knows what came of it.

        Raises: LedgerUnavailable, CorruptLedger, PolicyMissing.
        """

        def said(state: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            return () if sent.notice in state.told else (sent,)

        _ = await self._book.transact(run, said, {})

    async def missed(self, asked: Matter, parcels: Sequence[Parcel]) -> None:
        """Where a question's time is up, and not all who should have been could be told, that is recorded.

        Raises: as `record`.
        """
        for one in parcels if asked.state == "expired" else ():
            if one.stage == "asked" and one.tries and one.done is None and one.notice not in asked.told:
                one.line.given_up += 1
                await self.record(asked.run, failed(one, asked.name, f"its time was up, and {one.line.refused}"))


def failed(one: Parcel, about: str, why: str) -> NoticeSent:
    """That the message is not tried any more."""
    return NoticeSent(
        about=about, channel=one.line.name, notice=one.notice, outcome="failed", tries=one.tries, reason=why
    )


def delivered(one: Parcel, about: str) -> NoticeSent:
    """That the channel took it."""
    return NoticeSent(about=about, channel=one.line.name, notice=one.notice, outcome="delivered", tries=one.tries)
