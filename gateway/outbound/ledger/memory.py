"""A ledger in memory: every promise of the port but durability. For tests, ours and yours, and for trying out."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace

from gateway.model.canonical import Digest
from gateway.model.record import Record
from gateway.outbound.ledger.chain import UNOPENED, Entry, check_expected, decoded, entries
from gateway.ports import Append, LedgerUnavailable, Occupied, Tracked


class MemoryLedger:
    """A `Ledger` that ends with its process.

    A step is applied at once, in the order of the calls, and then the event loop has its turn, as it
    has while a real ledger waits for the disk.
    """

    def __init__(self, salt: bytes | None = None) -> None:
        self.trouble: str | None = None
        """While set, every call raises `LedgerUnavailable` with these words, and writes nothing."""
        self._salt = secrets.token_bytes(32) if salt is None else salt
        self._log: list[Entry] = []
        self._runs: dict[str, list[Entry]] = {}
        self._payloads: dict[Digest, bytes] = {}
        self._attempts: dict[str, Tracked] = {}

    @property
    def salt(self) -> bytes:
        """As `Ledger.salt`."""
        return self._salt

    async def append(self, step: Append) -> None:
        """As `Ledger.append`."""
        made = entries(step)
        self._check_available()
        run = self._runs.get(step.run, [])
        check_expected(step, (len(run), run[-1].link) if run else UNOPENED)
        self._attempts = _tracking(self._attempts, step)
        # Nothing below can fail: the step is applied whole, or was refused above.
        self._runs.setdefault(step.run, run).extend(made)
        self._log.extend(made)
        for digest, body in step.payloads.items():
            self._payloads.setdefault(digest, bytes(body))
        await asyncio.sleep(0)

    async def read(self, run: str, after: int = 0) -> Sequence[tuple[Record, bytes]]:
        """As `Ledger.read`."""
        self._check_available()
        return [(decoded(entry.body, entry.link), entry.body) for entry in self._runs.get(run, [])[after:]]

    async def find(self, kinds: Sequence[str], *, limit: int = 1000) -> Sequence[Record]:
        """As `Ledger.find`."""
        self._check_available()
        found = (entry for entry in reversed(self._log) if entry.record.event.kind in kinds)
        return [decoded(entry.body, entry.link) for entry, _ in zip(found, range(limit), strict=False)]

    async def payload(self, digest: Digest) -> bytes | None:
        """As `Ledger.payload`."""
        self._check_available()
        return self._payloads.get(digest)

    async def tracked(self, *, expired_at: float | None = None) -> Sequence[Tracked]:
        """As `Ledger.tracked`."""
        self._check_available()
        return [
            tracked for tracked in self._attempts.values() if expired_at is None or tracked.lease_until <= expired_at
        ]

    async def claim(self, attempt: str, owner: str, now: float, lease_until: float) -> bool:
        """As `Ledger.claim`."""
        self._check_available()
        held = self._attempts.get(attempt)
        if held is None or (held.owner != owner and held.lease_until > now):
            return False
        self._attempts[attempt] = replace(held, owner=owner, lease_until=lease_until)
        await asyncio.sleep(0)
        return True

    async def renew(self, owner: str, lease_until: float) -> None:
        """As `Ledger.renew`."""
        self._check_available()
        for name, tracked in self._attempts.items():
            if tracked.owner == owner and tracked.state != "unknown":
                self._attempts[name] = replace(tracked, lease_until=lease_until)
        await asyncio.sleep(0)

    async def close(self) -> None:
        """As `Ledger.close`; what was written is gone with the object, not before."""
        self.trouble = "the ledger is closed"

    def _check_available(self) -> None:
        if self.trouble is not None:
            raise LedgerUnavailable(self.trouble)


def _tracking(attempts: dict[str, Tracked], step: Append) -> dict[str, Tracked]:
    """What is tracked after the step; an attempt that is already tracked keeps its age.

    Raises: Occupied.
    """
    if not step.track and not step.untrack:
        return attempts
    after = {name: tracked for name, tracked in attempts.items() if name not in step.untrack}
    for tracked in step.track:
        for other in after.values():
            if tracked.hold is not None and other.hold == tracked.hold and other.attempt != tracked.attempt:
                raise Occupied(other)
        after[tracked.attempt] = tracked
    return after
