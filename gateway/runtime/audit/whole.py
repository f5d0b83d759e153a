"""(ledger, what it is compared with) -> report. The log is read once, up to where it stood at the start.

Then the payloads; then the tables beside the log, which on a ledger that is being written are newer than that: so what
was appended meanwhile is read as well, and a table is right if it is what the log made it at any moment in between.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeVar

from gateway.kernel.audit import Account, Breach, Expected, Together
from gateway.model.at_rest import redacted_copy, sealed_by
from gateway.model.canonical import Digest, digest_bytes
from gateway.model.note import origin_of
from gateway.ports import Ledger, Stands, Tracked
from gateway.runtime.audit.report import Cited, Report, Wanted
from gateway.runtime.audit.seals import Seals
from gateway.runtime.audit.walk import Walk

T = TypeVar("T")

RECORDS = 500
"""That are read at once."""
PAYLOADS = 64
"""As `RECORDS`; they may be large."""
ASKED = 500
"""Accounts or digests that are asked for at once."""


async def verify(ledger: Ledger, wanted: Wanted) -> Report:
    """All that is wrong with the ledger, as far as it can be told from it and from what it is compared with.

    Raises: Unreadable, LedgerUnavailable.
    """
    report, cited = Report(origin_of(ledger.salt)), wanted.cited()
    try:
        return await _Verifying(ledger, wanted, report, cited).all()
    finally:
        cited.close()


class _Verifying:
    def __init__(self, ledger: Ledger, wanted: Wanted, report: Report, cited: Cited) -> None:
        self._ledger = ledger
        self._wanted = wanted
        self._report = report
        self._cited = cited
        self._together = Together()
        self._seals = Seals(ledger, wanted, report)
        self._walk = Walk(ledger, wanted, report, self._together, cited)

    async def all(self) -> Report:
        """The report."""
        self._tell(await self._seals.read())
        end = await self._log(await self._ledger.closed())
        self._tell(self._seals.end())
        await self._payloads()
        await self._tables(end)
        await self._missing()
        found = self._together.unsettled.items()
        unknown = [(name, one.since) for name, one in found if one.state in {"open", "unknown"}]
        self._report.unknown = sorted(unknown, key=lambda one: one[1])
        return self._report

    def _tell(self, found: Iterable[Breach]) -> None:
        for breach in found:
            self._report.broken(breach)

    async def _log(self, end: int) -> int:
        """The place of the last record that was read."""
        after = 0
        while after < end:
            batch = [one for one in await self._ledger.log(after, limit=RECORDS) if one.place <= end]
            if not batch:
                break
            for one in batch:
                self._tell(self._seals.add(one.place, one.link))
                await self._walk.take(one)
            after = batch[-1].place
            self._wanted.progress(after, end)
        return after

    async def _meanwhile(self, after: int) -> None:
        """What was appended since, all of it that can be seen: the tables may say it already."""
        self._walk.meanwhile()
        full = True
        while full:
            batch = await self._ledger.log(after, limit=RECORDS)
            for one in batch:
                await self._walk.take(one)
                after = one.place
            full = len(batch) == RECORDS

    # --- payloads ---------------------------------------------------------------------------------------------------

    async def _payloads(self) -> None:
        """Each stored payload is what its digest says."""
        after = ""
        while batch := await self._ledger.payloads(after, limit=PAYLOADS):
            for digest, body in batch:
                self._stored(digest, body)
            self._cited.stored(digest for digest, _ in batch)
            self._report.payloads += len(batch)
            after = batch[-1][0]

    def _stored(self, digest: Digest, body: bytes) -> None:
        key_id = sealed_by(body)
        if key_id is not None:
            self._report.locked += 1
            self._report.lacking.add(key_id.hex())
        elif redacted_copy(body) is not None:
            self._report.redacted += 1
        elif digest_bytes(body, self._ledger.salt) != digest:
            self._report.broken(Breach("I10", digest, "the stored payload is not the one of that digest"))

    async def _missing(self) -> None:
        """What is cited is stored, or recorded as erased. Asked again of each that was not seen, for it may be new."""
        self._report.uncited = self._cited.uncited()
        for batch in _batched(self._cited.missing()):
            erased = await self._ledger.erased([Digest(digest) for digest, _ in batch])
            self._report.erased += len(erased)
            for digest, place in batch:
                if digest not in erased and not await self._is_stored(Digest(digest)):
                    self._report.broken(Breach("I10", place, f"the payload {digest} that it cites is gone"))

    async def _is_stored(self, digest: Digest) -> bool:
        # As it is stored, whatever it is: that it is what was written is told where payloads are looked at. At most as
        # many as there are hex digits share all but the last letter.
        found = await self._ledger.payloads(digest[:-1], limit=16)
        return any(one == digest for one, _ in found)

    # --- what stands beside the log ---------------------------------------------------------------------------------

    async def _tables(self, end: int) -> None:
        self._tell(Breach("I18", "the store", one) for one in await self._ledger.strange())
        together = self._together
        before, levels, ends = dict(together.unsettled), dict(together.levels), dict(together.ends)
        listed = {one.attempt: one for one in await self._ledger.tracked()}
        found = {(one.account, one.unit): one async for one in self._accounts()}
        await self._meanwhile(end)
        lost = {name for name, one in (before | listed).items() if one.run in self._walk.lost}
        for name in sorted((before.keys() | listed.keys()) - self._walk.moved - lost):
            self._listed(name, before.get(name), listed.get(name))
        if not self._walk.lost:  # else what their runs have posted is not known
            self._levels(levels, found)
            self._ends(ends, found)

    async def _accounts(self) -> AsyncIterator[Stands]:
        after = "", ""
        while batch := await self._ledger.accounts(after, limit=ASKED):
            for one in batch:
                yield one
            after = batch[-1].account, batch[-1].unit

    def _levels(self, levels: Mapping[Account, int], found: Mapping[Account, Stands]) -> None:
        stood = self._together.stood or {}
        for account, level in levels.items():
            stands = found[account].level if account in found else 0
            if account in self._together.levels and stands not in {level, *stood.get(account, ())}:
                says = f"it stands at {stands} {account[1]}, and the log makes it {level}"
                self._report.broken(Breach("I11", f"account {account[0]}", says))

    def _ends(self, ends: Mapping[Account, float | None], found: Mapping[Account, Stands]) -> None:
        """An account that nobody posted to is none, and one must not be forgotten before its time."""
        for account, one in found.items():
            where = f"account {one.account}"
            if account not in self._together.ends:
                if account not in ends and not self._together.forgets(one.until):
                    says = f"it stands at {one.level} {one.unit}, and the log has nothing of it"
                    self._report.broken(Breach("I18", where, says))
            elif account in ends and one.until not in {ends[account], self._together.ends[account]}:
                says = f"it may be forgotten at another time than the log says of its {one.unit}"
                self._report.broken(Breach("I18", where, says))

    def _listed(self, name: str, expected: Expected | None, listed: Tracked | None) -> None:
        where = f"attempt {name}" if "." in name else name
        if expected is not None and listed is None:
            says = f"the log has it as {expected.state}, and it is not listed, so nobody would settle it"
            self._report.broken(Breach("I8", where, says))
        elif expected is None and listed is not None:
            self._report.broken(Breach("I18", where, f"it is listed as {listed.state}, and by the log it is settled"))
        elif expected is not None and listed is not None and not _as_expected(listed, expected):
            what = "with another hold or run" if listed.state == expected.state else f"as {listed.state}"
            self._report.broken(Breach("I18", where, f"it is listed {what}, and by the log it is {expected.state}"))


_MADE = frozenset({"unverified", "owed", "undelivered"})
"""States of what has happened: recorded whoever held an equal effect by then, and listed without a hold if one did."""


def _as_expected(listed: Tracked, expected: Expected) -> bool:
    given_up = listed.hold is None and expected.state in _MADE
    held = given_up or listed.hold == expected.hold
    return held and (listed.run, listed.state) == (expected.run, expected.state)


def _batched(items: Iterable[T]) -> Iterator[list[T]]:
    left = iter(items)
    while batch := list(islice(left, ASKED)):
        yield batch
