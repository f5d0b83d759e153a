"""Payloads that nobody needs any more are erased, and that they are is recorded. Events stay, and so does the chain.

A payload goes only if every record that cites it lets it go, in whatever run. Never erased are policies and definitions
of tools, and what belongs to anything that is open, unknown, held, owed or waiting.
"""

import re
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby, islice
from typing import Protocol

from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.citation import Citation, Cited
from gateway.model.events import Event, IntentRecorded, PayloadsErased, RunOpened, RunStopped, Who
from gateway.model.record import decode
from gateway.model.run import Run
from gateway.ports import Logged, Tracked, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.policies import PolicyMissing

RECORDS = 500
"""That are read at once."""
AT_ONCE = 200
"""Payloads that are erased in one step; after a step that was cut short, the next one begins where it was."""

_KEYED = re.compile(rb'"(\w+)":"(c1:[0-9a-f]{64})"')
_DIGEST = re.compile(rb'"(c1:[0-9a-f]{64})"')
_NEEDED = frozenset({b"policy", b"definition", b"source", b"target"})
"""Fields that cite what decides: policies, and tools as they were defined."""
_NO_PAYLOAD = frozenset({b"hold", b"alike", b"action", b"scope"})
"""Fields whose digests are of no payload."""

UNTOLD = "undelivered"
"""The one state in the ledger's list in which only the attempt itself is kept, and not all of its run."""


class Citations(Protocol):
    """Which records cite which payloads, on disk."""

    def opened(self, run: str, tenant: str, principal: str) -> None:
        """The run is bound to that principal."""
        ...

    def moved(self, run: str, at: float, *, stopped: bool) -> None:
        """Something was recorded in the run."""
        ...

    def classified(self, attempt: str, data_class: str) -> None:
        """The attempt's result is of that class."""
        ...

    def cite(self, found: Iterable[Cited]) -> None:
        """These records cite these payloads."""
        ...

    def need(self, digests: Iterable[str]) -> None:
        """These are never erased."""
        ...

    def settle(self, free: Callable[[Citation], bool]) -> None:
        """What every citation of it lets go may be erased."""
        ...

    def gone(self) -> Generator[tuple[str, int, str]]:
        """What may be erased, with each run and record that cites it: payload by payload, those of one run together."""
        ...

    def close(self) -> None:
        """It is not asked any more."""
        ...


@dataclass(frozen=True, slots=True)
class Erasure:
    """What is to be erased."""

    rule: str
    """In words, for the record."""
    free: Callable[[Citation], bool]
    """Whether what this record cites may go, as far as that is not for the ledger's list to say."""
    by: Who | None = None
    """None where the configuration wants it."""


@dataclass(slots=True)
class Erased:
    """What came of it."""

    payloads: int = 0
    """How many are gone, or would be."""
    runs: dict[str, int] = field(default_factory=dict)
    """The same by run; a payload that several cite counts in each."""
    left: list[str] = field(default_factory=list)
    """Runs that something must be settled in first, of those that were meant."""
    unread: int = 0
    """Runs to which nothing could be recorded, so that nothing of them was erased."""


class Eraser:
    """One pass over a ledger."""

    def __init__(self, book: Book, citations: Citations, wanted: Erasure, pause: Callable[[], Awaitable[None]]) -> None:
        """`pause` is awaited between two steps."""
        self._book = book
        self._citations = citations
        self._wanted = wanted
        self._pause = pause
        self._at = 0
        self._fresh: set[str] = set()
        """What was cited since it was decided what may go."""
        self._awake: set[str] = set()
        """Runs in which something was recorded since then."""
        self._settled = False

    async def run(self, *, dry: bool) -> Erased:
        """What is wanted is erased, or with `dry` only counted.

        Raises: LedgerUnavailable.
        """
        found = Erased()
        await self._read()
        listed = await self._book.ledger.tracked()
        self._citations.settle(_Free(self._wanted, listed, found))
        self._settled = True
        with closing(self._citations.gone()) as gone:
            payloads = groupby(gone, key=lambda row: row[2])
            while step := [row for _, rows in islice(payloads, AT_ONCE) for row in rows]:
                await self._step(sorted(step), found, dry=dry)
                await self._pause()
        return found

    # --- what is cited ----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """The log from where it was read last, as far as it goes now, and no further than nothing can be missing."""
        end = await self._book.ledger.closed()
        while self._at < end and (batch := await self._book.ledger.log(self._at, limit=RECORDS)):
            for one in batch:
                if one.place > end:
                    return
                self._take(one)
                self._at = one.place
            await self._pause()

    def _take(self, one: Logged) -> None:
        named = _KEYED.findall(one.body)
        needed = {digest.decode() for name, digest in named if name in _NEEDED}
        spare = {digest.decode() for name, digest in named if name in _NO_PAYLOAD}
        cited = {digest.decode() for digest in _DIGEST.findall(one.body)} - needed - spare
        self._citations.need(needed)
        if self._settled:
            self._fresh |= cited | needed
        try:
            record = decode(one.body)
        except ValueError:
            self._citations.need(cited)  # nobody knows whose it is
            return
        event, at = record.event, record.at.timestamp()
        attempt = f"{one.run}.{one.seq}" if isinstance(event, IntentRecorded) else getattr(event, "attempt", None)
        if isinstance(event, RunOpened):
            self._citations.opened(one.run, event.principal.tenant, event.principal.id)
        if isinstance(event, IntentRecorded) and event.data_class is not None:
            self._citations.classified(f"{one.run}.{one.seq}", event.data_class)
        if not isinstance(event, PayloadsErased):
            self._citations.moved(one.run, at, stopped=isinstance(event, RunStopped))
            if self._settled:
                self._awake.add(one.run)
        self._citations.cite(Cited(digest, one.run, one.seq, at, attempt or "") for digest in cited)

    # --- one step ---------------------------------------------------------------------------------------------------

    async def _step(self, rows: Sequence[tuple[str, int, str]], found: Erased, *, dry: bool) -> None:
        """Those of the rows, all of each of these payloads, whose payload is there still are recorded as erased, run by
        run, and then are.
        """
        await self._read()  # what was cited a moment ago is not for us to take
        awake = {digest for run, _, digest in rows if run in self._awake}
        there = await self._there({digest for _, _, digest in rows} - self._fresh - awake)
        erased = set[str]()
        for run, group in groupby(rows, key=lambda row: row[0]):
            cited = [(seq, digest) for _, seq, digest in group if digest in there]
            digests = {digest for _, digest in cited}
            if not digests or not (dry or await self._recorded(run, cited, found)):
                continue
            found.runs[run] = found.runs.get(run, 0) + len(digests)
            erased |= digests
        if dry:
            found.payloads += len(erased)
        elif erased:
            now = await self._book.ledger.now()
            found.payloads += await self._book.ledger.erase([Digest(one) for one in sorted(erased)], now, self._at)

    async def _there(self, digests: set[str]) -> frozenset[str]:
        """Those that are stored, whatever of them."""
        gone = await self._book.ledger.erased([Digest(one) for one in digests]) if digests else {}
        found = set[str]()
        for one in sorted(digests - gone.keys()):
            rows = await self._book.ledger.payloads(one[:-1], limit=1)
            if rows and rows[0][0] == one:
                found.add(one)
        return frozenset(found)

    async def _recorded(self, run: str, cited: Sequence[tuple[int, str]], found: Erased) -> bool:
        wanted = self._wanted
        event = PayloadsErased(
            rule=wanted.rule,
            count=len({digest for _, digest in cited}),
            cited_by=tuple(sorted({seq for seq, _ in cited})),
            by=wanted.by,
        )

        def said(_run: Run, _rules: Rules, _now: datetime) -> Sequence[Event]:
            return (event,)

        try:
            _ = await self._book.say(run, said)
        except (CorruptLedger, PolicyMissing, UnreadableRecord):
            found.unread += 1
            return False
        return True


class _Free:
    """Whether what a record cites may go, the ledger's list included."""

    def __init__(self, wanted: Erasure, listed: Sequence[Tracked], found: Erased) -> None:
        self._wanted = wanted
        self._runs = {one.run for one in listed if one.state != UNTOLD}
        self._attempts = {one.attempt for one in listed if one.state == UNTOLD}
        self._found = found

    def __call__(self, cited: Citation) -> bool:
        if not self._wanted.free(cited):
            return False
        if cited.run in self._runs:
            if cited.run not in self._found.left:
                self._found.left.append(cited.run)
            return False
        return cited.attempt not in self._attempts


def by_age(days: float | None, days_of: Mapping[str, float], now: float) -> Callable[[Citation], bool]:
    """What a retention lets go: of runs that are over, whatever is so old; of others, nothing before nothing was
    recorded in them for as long.
    """

    def free(cited: Citation) -> bool:
        most = days if cited.data_class is None else days_of.get(cited.data_class, days)
        if most is None:
            return False
        return (cited.at if cited.stopped else cited.last_at) <= now - most * 86_400

    return free
