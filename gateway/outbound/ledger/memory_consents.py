"""Consents of a ledger in memory, which end with its process."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from gateway.outbound.ledger.chain import storable
from gateway.ports import Consent, Holder, Stand


class MemoryConsents:
    """As `Consents`. A change is made at once, and then the event loop has its turn."""

    def __init__(self, check_available: Callable[[], None]) -> None:
        """`check_available` raises LedgerUnavailable where the ledger is."""
        self._check_available = check_available
        self._kept: dict[Holder, Consent] = {}

    async def read(self, holder: Holder) -> Consent | None:
        """As `Consents.read`."""
        self._check_available()
        return self._kept.get(holder)

    async def stands(self, holders: Collection[Holder]) -> Mapping[Holder, Stand]:
        """As `Consents.stands`."""
        self._check_available()
        found = (self._kept[one] for one in holders if one in self._kept)
        return {one.holder: Stand(one.name, one.version) for one in found}

    async def put(self, made: Consent, seen: Consent | None) -> bool:
        """As `Consents.put`."""
        self._check_available()
        there = self._kept.get(made.holder)
        if not storable(made.holder) or (there and (there.name, there.version)) != (seen and (seen.name, seen.version)):
            return False
        self._kept[made.holder] = made
        await asyncio.sleep(0)
        return True

    async def claim(self, seen: Consent, owner: str, lease_until: float) -> bool:
        """As `Consents.claim`."""
        self._check_available()
        if self._kept.get(seen.holder) != seen:
            return False
        self._kept[seen.holder] = replace(seen, owner=owner, lease_until=lease_until)
        await asyncio.sleep(0)
        return True

    async def drop(self, holder: Holder) -> Consent | None:
        """As `Consents.drop`."""
        self._check_available()
        gone = self._kept.pop(holder, None)
        await asyncio.sleep(0)
        return gone

    async def held(self, principal: str, tenant: str | None = None) -> Sequence[Holder]:
        """As `Consents.held`."""
        self._check_available()
        return sorted(one for one in self._kept if one.principal == principal and tenant in {None, one.tenant})
