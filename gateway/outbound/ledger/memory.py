"""A ledger in memory: every promise of the port but durability. For tests, ours and yours, and for trying out."""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import islice
from typing import TypeAlias

from gateway.model.canonical import Digest
from gateway.model.events import ApprovalRequested
from gateway.model.record import Record
from gateway.outbound.ledger.accounts import Account, Change, Standing, forgettable, past, posted
from gateway.outbound.ledger.chain import (
    UNOPENED,
    check_beside,
    check_expected,
    check_holds,
    decoded,
    entries,
    intact,
    storable,
)
from gateway.outbound.ledger.erasing import uncited
from gateway.outbound.ledger.memory_consents import MemoryConsents
from gateway.outbound.ledger.said import FORGET, KEPT_S
from gateway.ports import Append, Checkpoint, Consents, LedgerUnavailable, Logged, Stands, Tracked

_Line: TypeAlias = tuple[str, bytes, str, str, int, int]
"""What a file would have of a record: its kind, body, link, run, place in the run and place in the log, from 0.

A plain tuple of those is not visited by the garbage collector; records are many objects, and it would go through all of
them again and again.
"""


class MemoryLedger:
    """A `Ledger` that ends with its process.

    A step is applied at once, in the order of the calls, and then the event loop has its turn, as it
    has while a real ledger waits for the disk.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        self.trouble: str | None = None
        """While set, every call raises `LedgerUnavailable` with these words, and writes nothing."""
        self._salt = secrets.token_bytes(32) if salt is None else salt
        self._log: list[_Line] = []
        self._runs: dict[str, list[_Line]] = {}
        self._named: dict[str, _Line] = {}
        """Questions that were asked, by name."""
        self._payloads: dict[Digest, bytes] = {}
        self._erased: dict[Digest, float] = {}
        self._checkpoints: list[Checkpoint] = []
        self._attempts: dict[str, Tracked] = {}
        self._holders: dict[Digest, str] = {}
        """Hold to the attempt that has it."""
        self._accounts: dict[Account, Standing] = {}
        self._units: dict[str, set[str]] = {}
        """The units that each account has a level in."""
        self._ends: list[tuple[float, str, str]] = []
        """A heap of when accounts may be forgotten; some of it is no longer true."""
        self._said: dict[str, float] = {}
        self._unsaid: list[tuple[float, str]] = []
        """A heap of when names may be forgotten."""
        self._consents = MemoryConsents(self._check_available)

    @property
    def salt(self) -> bytes:
        """As `Ledger.salt`."""
        return self._salt

    @property
    def consents(self) -> Consents:
        """As `Ledger.consents`."""
        return self._consents

    async def append(self, step: Append) -> None:
        """As `Ledger.append`."""
        made = entries(step)
        self._check_available()
        run = self._runs.get(step.run, [])
        check_expected(step, self._head(step.run))
        check_beside(step, self._head)
        check_holds(step, self._holder)
        changes = posted(step.postings, self._accounts.get) if step.postings else ()
        # Nothing below can fail: the step is applied whole, or was refused above.
        for place, one in enumerate(made, len(self._log)):
            line = (one.record.event.kind, one.body, one.link, step.run, one.record.seq, place)
            self._log.append(line)
            run.append(line)
            if isinstance(one.record.event, ApprovalRequested):
                self._named[one.record.event.approval] = line
        self._runs.setdefault(step.run, run)
        for digest, body in step.payloads.items():
            self._payloads.setdefault(digest, bytes(body))
            self._erased.pop(digest, None)
        for attempt in step.untrack:
            self._release(self._attempts.pop(attempt, None))
        for tracked in step.track:
            self._release(self._attempts.get(tracked.attempt))
            self._attempts[tracked.attempt] = tracked  # one that is already tracked keeps its age
            if tracked.hold is not None:
                self._holders[tracked.hold] = tracked.attempt
        if changes:
            self._post(step, changes)
        await asyncio.sleep(0)

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """As `Ledger.read`."""
        self._check_available()
        until = None if limit is None else after + limit
        return [(decoded(body, link), body) for _, body, link, *_ in self._runs.get(run, [])[after:until]]

    async def find(
        self, kinds: Sequence[str], *, limit: int = 1000, before: tuple[str, int] | None = None
    ) -> Sequence[Record]:
        """As `Ledger.find`."""
        self._check_available()
        end = len(self._log) if before is None else self._place(*before)
        found = (line for line in map(self._log.__getitem__, range(end - 1, -1, -1)) if line[0] in kinds)
        return [decoded(body, link) for _, body, link, *_ in islice(found, limit)]

    async def named(self, names: Collection[str]) -> Sequence[Record]:
        """As `Ledger.named`."""
        self._check_available()
        found = [self._named[name] for name in names if name in self._named]
        return [decoded(body, link) for _, body, link, *_ in found]

    async def payload(self, digest: Digest) -> bytes | None:
        """As `Ledger.payload`."""
        self._check_available()
        body = self._payloads.get(digest)
        return None if body is None else intact(body, digest, self._salt)

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """As `Ledger.levels`."""
        self._check_available()
        return {
            (account, unit): self._accounts[account, unit].level
            for account in accounts
            for unit in sorted(self._units.get(account, ()))  # a verdict records them in this order
        }

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """As `Ledger.accounts`."""
        self._check_available()
        found = sorted(item for item in self._accounts.items() if item[0] > after)
        return [Stands(*account, *standing) for account, standing in found[:limit]]

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """As `Ledger.tracked`."""
        self._check_available()
        return [tracked for tracked in self._attempts.values() if states is None or tracked.state in states]

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """As `Ledger.claim`."""
        self._check_available()
        held = self._attempts.get(seen.attempt)
        if held is None or (held.owner, held.lease_until, held.state) != (seen.owner, seen.lease_until, seen.state):
            return False
        self._attempts[seen.attempt] = replace(held, owner=owner, lease_until=lease_until)
        await asyncio.sleep(0)
        return True

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """As `Ledger.renew`."""
        self._check_available()
        for name in attempts:
            tracked = self._attempts.get(name)
            if tracked is not None and tracked.owner == owner and tracked.lease_until > 0:
                self._attempts[name] = replace(tracked, lease_until=lease_until)
        await asyncio.sleep(0)

    async def now(self) -> float:
        """As `Ledger.now`."""
        return time.time()

    async def touch(self, *, store: bool) -> None:  # noqa: ARG002 - there is no disk
        """As `Ledger.touch`."""
        self._check_available()

    async def once(self, name: str, until: float) -> bool:
        """As `Ledger.once`."""
        self._check_available()
        for _ in range(FORGET):
            if self._unsaid and self._unsaid[0][0] <= time.time() - KEPT_S:
                del self._said[heappop(self._unsaid)[1]]
        if name in self._said or not storable((name,)):
            return False
        self._said[name] = until
        heappush(self._unsaid, (until, name))
        await asyncio.sleep(0)
        return True

    async def said(self, name: str) -> bool:
        """As `Ledger.said`."""
        self._check_available()
        return name in self._said

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """As `Ledger.log`."""
        self._check_available()
        return [
            Logged(place, run, seq, kind, link, body)
            for place, (kind, body, link, run, seq, _) in enumerate(self._log[after : after + limit], after + 1)
        ]

    async def strange(self) -> Sequence[str]:
        """As `Ledger.strange`."""
        self._check_available()
        return []

    async def lax(self) -> Sequence[str]:
        """As `Ledger.lax`."""
        self._check_available()
        return ["it is in memory: all of it ends with its process"]

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `Ledger.links`."""
        return [(one.place, one.link) for one in await self.log(after, limit=limit)]

    async def closed(self) -> int:
        """As `Ledger.closed`."""
        self._check_available()
        return len(self._log)

    async def checkpoint(self, made: Checkpoint) -> bool:
        """As `Ledger.checkpoint`."""
        self._check_available()
        if self._checkpoints and made.size <= self._checkpoints[-1].size:
            return False
        self._checkpoints.append(made)
        return True

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """As `Ledger.checkpoints`."""
        self._check_available()
        return list(islice(reversed(self._checkpoints), limit))

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """As `Ledger.payloads`."""
        self._check_available()
        return list(islice(sorted(item for item in self._payloads.items() if item[0] > after), limit))

    async def erase(self, digests: Collection[Digest], at: float, seen: int) -> int:
        """As `Ledger.erase`."""
        self._check_available()
        free = uncited(digests, (body for _, body, *_ in self._log[seen:]))
        gone = [digest for digest in free if self._payloads.pop(digest, None) is not None]
        self._erased |= dict.fromkeys(gone, at)
        return len(gone)

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """As `Ledger.erased`."""
        self._check_available()
        return {digest: self._erased[digest] for digest in digests if digest in self._erased}

    async def close(self) -> None:
        """As `Ledger.close`; what was written is gone with the object, not before."""
        self.trouble = "the ledger is closed"

    def _check_available(self) -> None:
        if self.trouble is not None:
            raise LedgerUnavailable(self.trouble)

    def _place(self, run: str, seq: int) -> int:
        """Of that record in the log; before all, if there is none."""
        lines = self._runs.get(run, ())
        return lines[seq - 1][-1] if 0 < seq <= len(lines) else 0

    def _head(self, run: str) -> tuple[int, str]:
        lines = self._runs.get(run)
        return (len(lines), lines[-1][2]) if lines else UNOPENED

    def _holder(self, hold: Digest) -> Tracked | None:
        holder = self._holders.get(hold)
        return None if holder is None else self._attempts[holder]

    def _post(self, step: Append, changes: Sequence[Change]) -> None:
        for account, before, after in changes:
            self._accounts[account] = after
            if before is None:
                self._units.setdefault(account[0], set()).add(account[1])
            if after.until is not None and (before is None or before.until != after.until):
                heappush(self._ends, (after.until, *account))
        self._forget(past(step), forgettable(changes))

    def _forget(self, end: float, count: int) -> None:
        while count and self._ends and self._ends[0][0] <= end:
            until, *(account, unit) = heappop(self._ends)
            standing = self._accounts.get((account, unit))
            if standing is not None and standing.until == until:
                count -= 1
                del self._accounts[account, unit]
                self._units[account].discard(unit)
                if not self._units[account]:
                    del self._units[account]

    def _release(self, tracked: Tracked | None) -> None:
        if tracked is not None and tracked.hold is not None:
            self._holders.pop(tracked.hold, None)
