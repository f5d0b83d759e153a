"""Connecting an account at another provider: away, and back. What the browser carries meanwhile is sealed, is of the
session that went, and good for once.
"""

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from gateway.inbound.console.access import Access
from gateway.inbound.console.cookies import Cookie, cookie
from gateway.inbound.console.credentials import BadCredential
from gateway.inbound.console.pace import Pace
from gateway.inbound.console.refusals import Refusal
from gateway.inbound.console.revoking import check
from gateway.inbound.console.sessions import BrokenCookie, Sealed, Session
from gateway.outbound.credentials.consent_flow import NotConsented
from gateway.outbound.credentials.consented import Consented
from gateway.outbound.credentials.credential import NoToken

AWAY_S = 10 * 60.0
"""How long somebody may take to agree there."""
AT_ONCE, PER_S = 5, 0.2
"""How many codes of one person the providers are asked about: they connect a few accounts in a year."""
MAX_PACES = 1000
"""People whose pace is known; of more, the one who came back first is let through anew."""
TABS = 5
"""So many can be under way in one browser; of more, the oldest is none any more."""

_AGAIN = "go back to your connections and press Connect again"
_NOT_HERE = "this was not begun in this browser"
_LATER = {"retry-after": "5"}


class Gone(NamedTuple):
    """Somebody who went to agree."""

    state: str
    verifier: str
    until: float
    session: str
    """The session in which they went: nobody else's account is connected when somebody else has signed in meanwhile."""
    upstream: str


@dataclass(frozen=True, slots=True)
class Connecting:
    """What people connect accounts to, and how they go and come back."""

    access: Access
    consented: Mapping[str, Consented]
    """By upstream."""
    paces: OrderedDict[tuple[str, str], Pace] = field(default_factory=OrderedDict)
    """One for each person, so that nobody uses up what others need."""

    @classmethod
    def of(cls, access: Access, consented: Sequence[Consented]) -> "Connecting | None":
        """None where no upstream is called by what people agree to."""
        return cls(access, {one.upstream: one for one in consented}) if consented else None

    def gone(self, to: Consented, session: Session, cookies: list[str]) -> tuple[str, str]:
        """Where the browser goes, and the header that has it remember what it went for."""
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        there = to.flow.address(state, verifier)
        mine = Gone(state, verifier, self.access.now() + AWAY_S, session.id, to.upstream)
        return there, self._remembered([*self._pending(cookies), mine][-TABS:])

    async def back(self, to: Consented, session: Session, said: Sequence[tuple[str, str]], cookies: list[str]) -> None:
        """What the provider gives for the code is of whoever's session this is, who went in it from this browser.

        The state is used up first: nobody is asked about a code twice.

        Raises: Refusal, LedgerUnavailable.
        """
        went = self._went(to, session, said, cookies)
        by = session.reviewer
        if not self._pace(by.tenant, by.id).lets():
            raise Refusal(429, "you connect too many accounts at once", "try again in a moment", headers=_LATER)
        if not await self.access.once(f"console:connect:{went.state}", went.until):
            raise Refusal(403, "this was used already", _AGAIN)
        try:
            await to.connect(by.tenant, by.id, to.flow.code(said), went.verifier)
        except (NotConsented, NoToken) as error:
            raise Refusal(502 if isinstance(error, NoToken) else 400, str(error), _AGAIN) from None
        await self._check_still_let_in(to, session)

    async def _check_still_let_in(self, to: Consented, session: Session) -> None:
        """Whoever revoked them meanwhile did not find what has just been connected, so it is disconnected here.

        Raises: Refusal, LedgerUnavailable.
        """
        by = session.reviewer
        try:
            await check(self.access.said, by, session.link)
        except BadCredential as error:
            with suppress(NoToken):
                await to.disconnect(by.tenant, by.id)
            raise Refusal(401, str(error), "nothing was connected") from None

    def forgotten(self, said: Sequence[tuple[str, str]], cookies: list[str]) -> str:
        """The header that has the browser forget what it went for, and nothing else."""
        states = {value for name, value in said if name == "state"}
        return self._remembered([one for one in self._pending(cookies) if one.state not in states])

    def _pace(self, tenant: str, who: str) -> Pace:
        found = self.paces.get((tenant, who))
        if found is None:
            while len(self.paces) >= MAX_PACES:
                self.paces.popitem(last=False)
            found = self.paces[tenant, who] = Pace(self.access.now, at_once=AT_ONCE, per_s=PER_S)
        return found

    def _went(self, to: Consented, session: Session, said: Sequence[tuple[str, str]], cookies: list[str]) -> Gone:
        states = [value for name, value in said if name == "state"]
        if len(states) != 1:
            raise Refusal(403, _NOT_HERE, _AGAIN)
        shown = states[0].encode()
        went = next((one for one in self._pending(cookies) if secrets.compare_digest(one.state.encode(), shown)), None)
        if went is None or went.upstream != to.upstream:
            raise Refusal(403, _NOT_HERE, _AGAIN)
        if went.session != session.id:
            raise Refusal(403, "you have signed in anew since this was begun", _AGAIN)
        return went

    def _pending(self, cookies: list[str]) -> list[Gone]:
        """Those whose time is not up."""
        text = self._cookie.read(cookies)
        try:
            kept = self._sealed.open("connect", text or "")
        except BrokenCookie:
            return []
        return [one for one in (Gone(*each) for each in kept) if self.access.now() < one.until]

    def _remembered(self, pending: list[Gone]) -> str:
        if not pending:
            return self._cookie.cleared()
        return self._cookie.written(self._sealed.seal("connect", [[*one] for one in pending]), AWAY_S)

    @property
    def _sealed(self) -> Sealed:
        return Sealed(self.access.keys.sessions)

    @property
    def _cookie(self) -> Cookie:
        return cookie(self.access, "connect")
