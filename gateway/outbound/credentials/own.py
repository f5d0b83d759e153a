"""One principal's access token at one server: from the grant that is kept for all gateways, renewed by one of them."""

import asyncio
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from pydantic import SecretStr

from gateway.model.consent import Holder
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import Granted, OAuthClient, granted, revoked
from gateway.outbound.credentials.kept import Kept, ahead_s, last_s
from gateway.outbound.credentials.sealed_grants import Grant
from gateway.outbound.credentials.vault import Held, Vault
from gateway.ports import Stand

_LOG = logging.getLogger("counterfoil.credentials")

WAIT_S = 15.0
"""For another gateway that renews it: longer than that one waits for the provider. Calls wait only where the old token
has ended."""
LOOK_S = 0.25
"""Between two looks at what became of it."""


@dataclass(frozen=True, slots=True)
class Wants:
    """What is said to somebody for whom there is no token."""

    page: str
    """Where people connect."""

    def none(self, holder: Holder) -> NoToken:
        """They never consented, or have taken it back."""
        words = f"`{holder.principal}` has not connected an account there: connect it at {self.page}"
        return NoToken(words, over=True, needs_account=True)

    def over(self, holder: Holder) -> NoToken:
        """They did, and that is over."""
        words = (
            f"what `{holder.principal}` agreed to there has ended or was taken back: connect it again at {self.page}"
        )
        return NoToken(words, refused=True, over=True, needs_account=True)

    def moved(self, holder: Holder) -> NoToken:
        """They did, at another provider."""
        words = f"its provider is another one than `{holder.principal}` agreed at: connect it again at {self.page}"
        return NoToken(words, refused=True, over=True, needs_account=True)


class Own:
    """The token of one holder, in this process."""

    def __init__(
        self,
        holder: Holder,
        client: OAuthClient,
        vault: Vault,
        wants: Wants,
        monotonic: Callable[[], float],
        chance: Callable[[], float],
        under_way: set["asyncio.Task[Held | None]"],
        another: Callable[["Own"], None],
        revocation_url: str | None = None,
    ) -> None:
        """`client` as what is renewed is asked for: no scope. `monotonic` and `chance` as in `Kept`. `another` is
        called where another consent stands there by now.

        What is being renewed is `under_way`, and never broken off halfway: the provider may have forgotten what it had.
        """
        self.holder = holder
        self.kept = Kept(self._fetched, monotonic, chance)
        self.seen = False
        """Whether it is known how its consent stands."""
        self.stand: Stand | None = None
        """How it stood when it was looked at last."""
        self._client = client
        self._vault = vault
        self._wants = wants
        self._monotonic = monotonic
        self._chance = chance
        self._under_way = under_way
        self._another = another
        self._revocation_url = revocation_url
        self._given: Stand | None = None
        self._refused = b""

    def refused(self, token: str) -> bool:
        """As `Credential.refused`."""
        again = self.kept.refused(token)
        if again:
            self._refused = _digest(token)
        return again

    async def _fetched(self) -> Granted:
        """The token that is kept, or where it is its time, or the server refuses it, the next one.

        Raises: NoToken.
        """
        until = self._monotonic() + WAIT_S
        while True:
            held = await self._read()
            good = self._is_good(held.grant)
            if good and (held.stand != self._given or held.grant.refresh is None):
                return self._give(held)
            if held.grant.refresh is None:
                raise self._wants.over(self.holder)
            mine = await self._vault.claim(held)
            made = None if mine is None else await self._renewed(mine)
            if made is not None:
                return self._give(made)
            if self._monotonic() >= until:
                raise NoToken("another gateway renews what its principal agreed to, and is not done")
            await asyncio.sleep(LOOK_S)

    async def _read(self) -> Held:
        """Raises: NoToken."""
        held = await self._vault.read(self.holder)
        if held is not None and self.stand is not None and held.stand.name != self.stand.name:
            # INVARIANT: connections that were made with one account are shown no token of another.
            self._another(self)
            raise NoToken("what its principal agreed to is another one by now: ask again")
        self.seen, self.stand = True, None if held is None else held.stand
        if held is None:
            raise self._wants.none(self.holder)
        if held.grant.access is None:
            raise self._wants.over(self.holder)
        if held.grant.provider != (self._client.token_url, self._client.client_id):
            raise self._wants.moved(self.holder)
        return held

    def _is_good(self, grant: Grant) -> bool:
        token = grant.access
        lasts = True
        if grant.until is not None:
            lasts = self._vault.clock.now() < grant.until - last_s(grant.until - grant.got_at)
        return token is not None and lasts and _digest(token.get_secret_value()) != self._refused

    def _give(self, held: Held) -> Granted:
        self.stand = self._given = held.stand
        grant, now = held.grant, self._vault.clock.now()
        assert grant.access is not None  # noqa: S101 - INVARIANT: one that is over was refused before
        token = grant.access.get_secret_value()
        if grant.until is None:
            return Granted(token, None)
        ahead = ahead_s(grant.until - grant.got_at, self._chance())
        return Granted(token, max(0.0, grant.until - now), renew_s=max(0.0, grant.until - ahead - now))

    async def _renewed(self, mine: Held) -> Held | None:
        """Whoever leaves, or closes us, does not break it off."""
        task = asyncio.get_running_loop().create_task(self._renew(mine))
        self._under_way.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    def _over(self, task: "asyncio.Task[Held | None]") -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            _ = task.exception()  # whoever waited has it; if nobody does any more, nobody need hear of it

    async def _renew(self, mine: Held) -> Held | None:
        """What the provider gives is kept before anybody has it; None where another consent stands there by now.

        That one is left alone: with one token providers take back all that its person agreed to [RFC 7009, 2.1].

        Raises: NoToken.
        """
        grant = mine.grant
        assert grant.refresh is not None  # noqa: S101 - INVARIANT: without it nothing is claimed
        form = {"grant_type": "refresh_token", "refresh_token": grant.refresh.get_secret_value()}
        try:
            given = await granted(self._client, form)
        except NoToken as error:
            if error.code == "invalid_grant":
                raise await self._ended(mine) from None
            await self._vault.release(mine)
            raise
        now = self._vault.clock.now()
        kept = await self._vault.renewed(mine, renewed(grant, given, now))
        if kept is None:  # they have taken it back, or agreed anew, while we asked
            if await self._vault.stands([self.holder]):
                return None
            await self._revoke(given)
            raise self._wants.none(self.holder)
        return kept

    async def _ended(self, mine: Held) -> NoToken:
        """The grant is over for every gateway, and its tokens are not kept; but not where another has renewed it."""
        gone = replace(mine.grant, access=None, refresh=None)
        if await self._vault.renewed(mine, gone) is None:
            return NoToken("what its principal agreed to was renewed by another gateway at this moment")
        words = "%s: what `%s` of `%s` agreed to is over: its provider says `invalid_grant`"
        _LOG.warning(words, self.holder.upstream, self.holder.principal, self.holder.tenant)
        return self._wants.over(self.holder)

    async def _revoke(self, given: Granted) -> None:
        if self._revocation_url is not None and given.refresh is not None:
            token = given.refresh.get_secret_value()
            await revoked(self._client, self._revocation_url, token, "refresh_token")


def renewed(grant: Grant, given: Granted, now: float) -> Grant:
    """The grant with what its provider gave for it. A provider that gives no other refresh token lets the old one be
    used again [RFC 6749, 6].
    """
    return replace(
        grant,
        access=SecretStr(given.token),
        refresh=given.refresh or grant.refresh,
        scope=given.scope or grant.scope,
        got_at=now,
        until=None if given.lasts_s is None else now + given.lasts_s,
    )


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
