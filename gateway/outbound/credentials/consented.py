"""Tokens of whoever consented, for one server: each principal's own, from what they gave us at its provider."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from gateway.model.consent import Holder
from gateway.model.party import Behalf
from gateway.outbound.credentials.consent_flow import ConsentFlow, unscoped
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import revoked
from gateway.outbound.credentials.own import Own, Wants
from gateway.outbound.credentials.sealed_grants import Grant
from gateway.outbound.credentials.vault import Held, Vault
from gateway.ports import Clock

_LOG = logging.getLogger("counterfoil.credentials")

MAX_KEPT = 1000
"""Principals whose tokens are in memory; of more, the least recently used is read anew from the ledger."""
LOOK_S = 2.0
"""Between two looks whether somebody has taken back, or given, a consent through another gateway."""
CLOSE_S = 1.0
"""How long what is being renewed may take when we end."""

NOWHERE = "what principals agreed to is kept in a ledger, and here is none"


@dataclass(frozen=True, slots=True)
class Connected:
    """How somebody's consent stands, for themselves."""

    state: Literal["none", "connected", "over", "unknown"]
    """`unknown`: it cannot be read now."""
    since: float | None = None
    scope: str = ""
    why: str = ""
    """Why it is unknown."""
    renews: bool = True
    """Whether it lasts beyond its first access token."""


class Consented:
    """As `Credential`, of those who consented."""

    personal, by_token = True, False

    def __init__(
        self,
        upstream: str,
        flow: ConsentFlow,
        page: str,
        revocation_url: str | None,
        monotonic: Callable[[], float],
        chance: Callable[[], float],
    ) -> None:
        """`page` is where people connect. Nothing is kept, and nobody served, before `open`."""
        self.upstream = upstream
        self.flow = flow
        self.nobody = f"it is connected to on behalf of each principal who has connected an account there, at {page}"
        self._wants = Wants(page)
        self._revocation_url = revocation_url
        self._monotonic = monotonic
        self._chance = chance
        self._vault: Vault | None = None
        self._ended: Callable[[str, str], None] = lambda _tenant, _principal: None
        self._own: OrderedDict[Holder, Own] = OrderedDict()
        self._renewing: set[asyncio.Task[Held | None]] = set()

    def open(self, vault: Vault, ended: Callable[[str, str], None]) -> None:
        """Consents are kept there; `ended` is called with tenant and principal where one has ended, or is another one,
        so that nothing goes on over what was made with it.
        """
        self._vault, self._ended = vault, ended

    # --- for calls ----------------------------------------------------------------------------------------------------

    async def token(self, behalf: Behalf | None) -> str:
        """As `Credential.token`.

        Raises: NoToken.
        """
        return await self._of(behalf).kept.token()

    def refused(self, behalf: Behalf | None, token: str) -> bool:
        """As `Credential.refused`."""
        return self._of(behalf).refused(token)

    def account(self, behalf: Behalf | None) -> str | None:
        """As `Credential.account`."""
        own = None if behalf is None else self._own.get(Holder(behalf.tenant, behalf.principal, self.upstream))
        return None if own is None or own.stand is None else own.stand.name

    async def close(self) -> None:
        """As `Credential.close`; what is being renewed may be for a moment, for it may be renewed only once."""
        mine = [*self._own.values()]
        self._own.clear()
        await asyncio.gather(*(one.kept.close() for one in mine))
        if self._renewing:
            _, late = await asyncio.wait({*self._renewing}, timeout=CLOSE_S)
            for task in late:
                task.cancel()

    def _of(self, behalf: Behalf | None) -> Own:
        vault = self._vault
        if behalf is None or vault is None:
            raise NoToken(self.nobody if vault is not None else NOWHERE)
        holder = Holder(behalf.tenant, behalf.principal, self.upstream)
        own = self._own.get(holder)
        if own is None:
            self._make_room()
            client = unscoped(self.flow.client)
            timing = self._monotonic, self._chance
            own = Own(holder, client, vault, self._wants, *timing, self._renewing, self._another, self._revocation_url)
            self._own[holder] = own
        self._own.move_to_end(holder)
        return own

    def _make_room(self) -> None:
        while len(self._own) >= MAX_KEPT:
            self._end(next(iter(self._own)))  # what is not known any more is not compared either

    # --- what others do -----------------------------------------------------------------------------------------------

    async def keep(self, clock: Clock) -> None:
        """Runs for ever: what was taken back, given or renewed at another gateway is so here some seconds later."""
        while True:
            await clock.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """As `keep`, once."""
        known = {holder: own for holder, own in self._own.items() if own.seen}
        if not known or self._vault is None:
            return
        try:
            found = await self._vault.stands(known)
        except NoToken:
            return  # without the ledger no call is sent
        for holder, own in known.items():
            there, here = found.get(holder), own.stand
            if (there and there.name) != (here and here.name):
                self._another(own)
            elif there and here and there.version > here.version:  # not where it was renewed here while we looked
                own.kept.renew()

    def _another(self, own: Own) -> None:
        if self._own.get(own.holder) is own:  # else it was ended before
            self._end(own.holder)

    def _end(self, holder: Holder) -> None:
        self._own.pop(holder, None)  # not closed: whoever waits for it is told how the next look ends
        self._ended(holder.tenant, holder.principal)

    # --- for people ---------------------------------------------------------------------------------------------------

    async def connected(self, tenant: str, principal: str) -> Connected:
        """How that principal's consent stands. Never raises for what is kept."""
        vault = self._opened()
        try:
            held = await vault.read(Holder(tenant, principal, self.upstream))
        except NoToken as error:
            return Connected("unknown", why=str(error))
        if held is None:
            return Connected("none")
        grant = held.grant
        other = grant.provider != (self.flow.client.token_url, self.flow.client.client_id)
        ended = grant.refresh is None and grant.until is not None and vault.clock.now() >= grant.until
        over = grant.access is None or other or ended
        return Connected("over" if over else "connected", grant.since, grant.scope, renews=grant.refresh is not None)

    async def connect(self, tenant: str, principal: str, code: str, verifier: str) -> None:
        """What the provider gives for the code is that principal's, and nobody else's.

        Raises: NotConsented; NoToken where it cannot be kept.
        """
        vault, holder = self._opened(), Holder(tenant, principal, self.upstream)
        _ = await vault.begin(holder, await self.flow.grant(code, verifier, vault.clock.now()))
        self._end(holder)
        _LOG.info("%s: `%s` of `%s` has connected an account", self.upstream, principal, tenant)

    async def disconnect(self, tenant: str, principal: str) -> Literal["nothing", "revoked", "kept", "unknown"]:
        """No gateway has anything of that principal's any more; and whether the provider says that it is void there.

        `kept`: it has no way to be told so. First it is gone here, with what another gateway renewed at the last
        moment; then the provider is told, whatever comes of that.

        Raises: NoToken where the ledger cannot be asked: then nothing has changed.
        """
        vault, holder = self._opened(), Holder(tenant, principal, self.upstream)
        before = await vault.stands([holder])
        grant = await vault.drop(holder)
        self._end(holder)
        if not before:
            return "nothing"
        _LOG.info("%s: `%s` of `%s` has disconnected their account", self.upstream, principal, tenant)
        return await self._told(grant)

    async def _told(self, grant: Grant | None) -> Literal["revoked", "kept", "unknown"]:
        token = None if grant is None else grant.refresh or grant.access
        if self._revocation_url is None:
            return "kept"
        if grant is None or token is None or grant.provider[0] != self.flow.client.token_url:
            return "unknown"
        kind: Literal["refresh_token", "access_token"] = "access_token" if grant.refresh is None else "refresh_token"
        said = await revoked(self.flow.client, self._revocation_url, token.get_secret_value(), kind)
        return "revoked" if said else "unknown"

    def _opened(self) -> Vault:
        if self._vault is None:
            raise NoToken(NOWHERE)
        return self._vault
