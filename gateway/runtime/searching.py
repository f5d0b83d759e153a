"""Records that people look for, newest first. It looks so far and no further, and says how far that was."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import ValidationError

from gateway.model.record import Record, decode
from gateway.model.review import Reviewer
from gateway.ports import Ledger, Logged, UnreadableRecord
from gateway.runtime.sight import Sight

STRETCH = 500
"""Places of the log that are read at once, and looked through in one turn of the event loop."""
MAX_STRETCHES = 10
"""Stretches that one search looks through."""
MAX_STEPS = 48
"""Looks at the log to find where a time is: it halves what is left with each."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What is looked for; all that is said must fit."""

    run: str = ""
    attempt: str = ""
    approval: str = ""
    tool: str = ""
    """A part of its name."""
    principal: str = ""
    """A part of the name of whose run it is."""
    kind: str = ""
    """A kind of event, or the part before its dot."""
    text: str = ""
    """A part of a reason, or of what something says."""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found."""

    records: tuple[Record, ...]
    looked: int
    """How many records were looked at."""
    back_to: datetime | None
    """The time of the oldest of them."""
    next: int | None
    """The place before which to look further; None where the log begins, or the time that was asked for."""


async def search(ledger: Ledger, by: Reviewer, sought: Sought, *, before: int | None = None, limit: int = 100) -> Found:
    """The newest records that fit and may be seen.

    Raises: LedgerUnavailable.
    """
    look = _Look(Sight(ledger, by), sought, limit)
    if run := sought.run or sought.attempt.rpartition(".")[0]:
        return await _in_run(ledger, look, run, before)
    end = before if before is not None else await _end(ledger, sought.until)
    for _ in range(MAX_STRETCHES):
        start = max(0, end - STRETCH - 1)
        logged = [one for one in await ledger.log(start, limit=STRETCH) if one.place < end]
        for one in reversed(logged):
            if await look.at(_record(one)):
                return look.found(one.place if not look.past else None)
        await asyncio.sleep(0)
        if start == 0:
            return look.found(None)
        end = start + 1
    return look.found(end)


async def _in_run(ledger: Ledger, look: "_Look", run: str, before: int | None) -> Found:
    """A run is read as a whole, and paged by the places of its own records."""
    for record, _ in reversed(await ledger.read(run)):
        if (before is None or record.seq < before) and await look.at(record):
            return look.found(record.seq if not look.past else None)
    return look.found(None)


async def _end(ledger: Ledger, until: datetime | None) -> int:
    """The place before which to look: the end of the log, or about where that time is in it."""
    end = await ledger.closed() + 1
    low, high = 0, end
    for _ in range(MAX_STEPS if until is not None else 0):
        if high - low <= STRETCH:
            break
        middle = (low + high) // 2
        at = _time(await ledger.log(middle, limit=1))
        if at is None or (until is not None and at > until):
            high = middle
        else:
            low = middle
    return high + 1 if until is not None else end


def _time(logged: Sequence[Logged]) -> datetime | None:
    record = _record(logged[0]) if logged else None
    return None if record is None else record.at


def _record(logged: Logged) -> Record | None:
    """None for what this version cannot read: `counterfoil verify` tells of it."""
    try:
        return decode(logged.body)
    except ValidationError:
        return None


class _Look:
    def __init__(self, sight: Sight, sought: Sought, limit: int) -> None:
        self.past = False
        """Whether what is older than all that is sought was reached."""
        self._sight = sight
        self._sought = sought
        self._limit = limit
        self._records: list[Record] = []
        self._looked = 0
        self._back_to: datetime | None = None

    async def at(self, record: Record | None) -> bool:
        """Whether it is time to stop after this one."""
        self._looked += 1
        if record is None:
            return False
        self._back_to = record.at
        if self._sought.since is not None and record.at < self._sought.since:
            self.past = True
            return True
        if _fits(record, self._sought) and await self._seen(record):
            self._records.append(record)
        return len(self._records) >= self._limit

    async def _seen(self, record: Record) -> bool:
        try:
            opened = await self._sight.opened(record.run)
        except UnreadableRecord:
            return False
        if opened is None:
            return False
        whose = f"{opened.principal.tenant}/{opened.principal.id}".lower()
        return self._sought.principal.lower() in whose

    def found(self, further: int | None) -> Found:
        """What was found; where to look further."""
        return Found(tuple(self._records), self._looked, self._back_to, further)


def _is_of(kind: str, sought: str) -> bool:
    return not sought or kind == sought or kind.startswith(f"{sought}.")


def _fits(record: Record, sought: Sought) -> bool:
    event = record.event
    named = (("attempt", sought.attempt), ("approval", sought.approval))
    return (
        _is_of(event.kind, sought.kind)
        and (not sought.run or record.run == sought.run)
        and all(not wanted or getattr(event, name, None) == wanted for name, wanted in named)
        and sought.tool.lower() in str(getattr(event, "tool", "")).lower()
        and (sought.until is None or record.at <= sought.until)
        and (not sought.text or sought.text.lower() in _said(record).lower())
    )


def _said(record: Record) -> str:
    """What an event says in sentences."""
    said = (getattr(record.event, name, None) for name in ("reason", "says", "kept", "goal"))
    checks = (one.reason for one in getattr(record.event, "checks", ()))
    return " ".join(one for one in (*said, *checks) if one)
