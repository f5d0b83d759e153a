"""Grants as they are kept for all gateways of one ledger: read, renewed by one of them at a time, and dropped."""

import asyncio
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from gateway.model.consent import Consent, Holder
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.sealed_grants import CannotOpen, Grant, opened, sealed
from gateway.outbound.payload_keys import Keyring
from gateway.ports import Clock, Consents, LedgerUnavailable, Stand

LEASE_S = 30.0
"""How long one gateway may take to renew a grant before another tries: three times what it waits for the provider."""
AGAIN_S = 0.5
"""Before what the ledger could not take is offered to it again."""
TURNS = 5
"""How often a new grant is put in the place of an older one that others change at that moment."""

_GONE = "the ledger cannot be asked for what its principal lets us do there"


class Held(NamedTuple):
    """A grant, and the consent in which it is sealed."""

    consent: Consent
    grant: Grant

    @property
    def stand(self) -> Stand:
        """Which one it is."""
        return Stand(self.consent.name, self.consent.version)


@dataclass(frozen=True, slots=True)
class Vault:
    """The grants of one ledger. All raise NoToken where it cannot be asked, `read` also for what it cannot open."""

    consents: Consents
    keys: Keyring
    clock: Clock
    """The ledger's."""
    owner: str
    """This process."""

    async def read(self, holder: Holder) -> Held | None:
        """The holder's."""
        try:
            found = await self.consents.read(holder)
        except LedgerUnavailable:
            raise NoToken(_GONE) from None
        if found is None:
            return None
        try:
            return Held(found, opened(self.keys, holder, found.sealed))
        except CannotOpen:
            raise NoToken(
                "what is kept of its principal's consent cannot be opened: the key is not here, or it was changed "
                "(`data: {encryption: …}`)"
            ) from None

    async def stands(self, holders: Collection[Holder]) -> Mapping[Holder, Stand]:
        """As `Consents.stands`."""
        try:
            return await self.consents.stands(holders)
        except LedgerUnavailable:
            raise NoToken(_GONE) from None

    async def begin(self, holder: Holder, grant: Grant) -> Held:
        """It is the holder's, in the place of any other."""
        made = Consent(holder, secrets.token_hex(16), 1, sealed(self.keys, holder, grant))
        try:
            for _ in range(TURNS):
                if await self.consents.put(made, await self.consents.read(holder)):
                    return Held(made, grant)
        except LedgerUnavailable:
            raise NoToken(_GONE) from None
        raise NoToken("others change what is kept of its principal's consent at this moment")

    async def claim(self, kept: Held) -> Held | None:
        """The same, which this process alone may renew now; None where another does, or it has changed."""
        seen, now = kept.consent, self.clock.now()
        if seen.owner and seen.lease_until > now:
            return None
        mine = replace(seen, owner=self.owner, lease_until=now + LEASE_S)
        try:
            claimed = await self.consents.claim(seen, mine.owner, mine.lease_until)
        except LedgerUnavailable:
            raise NoToken(_GONE) from None
        return Held(mine, kept.grant) if claimed else None

    async def release(self, kept: Held) -> None:
        """Another may renew it: nothing came of it here. Without the ledger that waits for the end of the lease."""
        try:
            await self.consents.claim(kept.consent, "", 0.0)
        except LedgerUnavailable:
            return

    async def renewed(self, kept: Held, grant: Grant) -> Held | None:
        """The grant as it is now stands in place of what was claimed; None if that is gone, or another one.

        What a provider gave in exchange for what it then forgot is not given up while the lease lasts.
        """
        holder = kept.consent.holder
        made = Consent(holder, kept.consent.name, kept.consent.version + 1, sealed(self.keys, holder, grant))
        while True:
            try:
                if await self.consents.put(made, kept.consent):
                    return Held(made, grant)
                there = await self.consents.read(holder)  # a put of which no word came may have been made
                return Held(made, grant) if there is not None and there.sealed == made.sealed else None
            except LedgerUnavailable:
                if self.clock.now() + AGAIN_S >= kept.consent.lease_until:
                    raise NoToken(_GONE) from None
                await asyncio.sleep(AGAIN_S)

    async def drop(self, holder: Holder) -> Grant | None:
        """There is none any more; the one that there was, if it can be opened."""
        try:
            gone = await self.consents.drop(holder)
        except LedgerUnavailable:
            raise NoToken(_GONE) from None
        try:
            return None if gone is None else opened(self.keys, holder, gone.sealed)
        except CannotOpen:
            return None
