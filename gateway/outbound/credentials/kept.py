"""A token that is renewed before it ends: calls wait for the first one alone, and one question is asked at a time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from pydantic import SecretStr

from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import Granted

_LOG = logging.getLogger("counterfoil.credentials")

UNSAID_S = 300.0
"""How long a token is taken for good whose provider does not say; an upstream that refuses it sooner is asked again."""

LAST_S = 10.0
"""Before its end a token is not used any more: a call takes time, and clocks differ."""

AHEAD = 0.2
"""Of a token's life, what is left when the next one is asked for; up to half of that earlier, by chance, so that many
gateways do not ask at once.
"""

REFUSED_S = 30.0
"""After the provider said no, nobody asks it again for so long."""

DOWN_S = 1.0
"""The same where it could not be asked."""

REPLACED_S = 30.0
"""A token that an upstream refuses is replaced at once, and at most so often: the next one may be refused too."""


def ahead_s(life_s: float, chance: float) -> float:
    """How long before the end of such a life the next token is asked for."""
    return life_s * AHEAD * (1 + chance / 2)


def last_s(life_s: float) -> float:
    """How long before its end it is not used any more."""
    return min(LAST_S, life_s / 10)


class Kept:
    """One token, as it is now."""

    def __init__(
        self, fetch: Callable[[], Awaitable[Granted]], monotonic: Callable[[], float], chance: Callable[[], float]
    ) -> None:
        """`chance` gives numbers from 0 to 1. `fetch` raises NoToken."""
        self._fetch = fetch
        self._monotonic = monotonic
        self._chance = chance
        self._token: SecretStr | None = None
        self._renew_at = self._good_until = float("-inf")
        self._trouble: NoToken | None = None
        self._not_before = self._replaceable_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    async def token(self) -> str:
        """As `Credential.token`.

        Raises: NoToken.
        """
        held, now = self._held(), self._monotonic()
        if held is not None:
            if now >= max(self._renew_at, self._not_before):
                _ = self._ask()
            return held
        if self._trouble is None or now >= self._not_before or self._asking is not None:
            await asyncio.shield(self._ask())
        held = self._held()
        if held is not None:
            return held
        raise self._trouble or NoToken("there is no access token for it: the one that the provider gave has ended")

    def renew(self) -> None:
        """Another one is there to be had: the next call asks for it, and goes on with this one meanwhile."""
        self._renew_at = self._not_before = float("-inf")

    @property
    def is_over(self) -> bool:
        """Whether nothing is kept here that anybody could miss."""
        return self._held() is None and self._asking is None and self._monotonic() >= self._not_before

    def refused(self, token: str) -> bool:
        """As `Credential.refused`."""
        if token != self._held():
            return True
        now = self._monotonic()
        if now < self._replaceable_at:
            return False
        self._replaceable_at, self._not_before = now + REPLACED_S, now
        self._token = None
        return True

    async def close(self) -> None:
        """Nothing is asked for any more, and nothing is kept."""
        self._token = None
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.wait({self._asking})

    def _held(self) -> str | None:
        good = self._token is not None and self._monotonic() < self._good_until
        return self._token.get_secret_value() if good and self._token is not None else None

    def _ask(self) -> "asyncio.Task[None]":
        if self._asking is None:
            self._asking = asyncio.get_running_loop().create_task(self._renewed())
            self._asking.add_done_callback(self._asked)
        return self._asking

    def _asked(self, _: "asyncio.Task[None]") -> None:
        self._asking = None

    async def _renewed(self) -> None:
        try:
            given = await self._fetch()
        except NoToken as error:
            self._trouble = error
            self._not_before = self._monotonic() + (REFUSED_S if error.refused else DOWN_S)
            if error.over:
                self._token = None
            if self._held() is not None:
                _LOG.warning("a token could not be renewed, and is used until its end: %s", error)
            return
        now, life_s = self._monotonic(), UNSAID_S if given.lasts_s is None else given.lasts_s
        self._token, self._trouble = SecretStr(given.token), None
        self._good_until = now + life_s - last_s(life_s)
        usual_s = life_s - ahead_s(life_s, self._chance())
        self._renew_at = now + (usual_s if given.renew_s is None else given.renew_s)
        self._not_before = now
