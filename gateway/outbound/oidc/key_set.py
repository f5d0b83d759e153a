"""The public keys of one provider, kept for a while.

A key that is not known has them asked for anew once, and not again within a minute: who sends forged tokens does not
have us ask for each. While the provider cannot be asked, the keys that it had hold on for some hours, and no longer.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import jwt

from gateway.outbound.oidc.asking import Unreachable, ask

KEPT_S = 3600.0
"""How long keys are taken to be the same."""
ANEW_S = 60.0
"""Between two times that keys are asked for because one is not known, or because they are old and nobody answers."""
DOWN_S = 5.0
"""For how long a provider that could not be asked is not asked again, where nothing is known of it."""
STALE_S = 6 * 3600.0
"""For how long after they were last told keys hold on, while the provider cannot be asked."""
MAX_KEYS = 100

Named: TypeAlias = Mapping[str | None, jwt.PyJWK]


class KeySet:
    """One for each provider and process. `where` says the address of the keys, and may raise `Unreachable`."""

    def __init__(self, where: Callable[[], Awaitable[str]], monotonic: Callable[[], float]) -> None:
        self._where = where
        self._monotonic = monotonic
        self._keys: Named = {}
        self._told_at = -math.inf
        self._down_until = -math.inf
        self._lock = asyncio.Lock()

    async def named(self, kid: str | None) -> jwt.PyJWK | None:
        """The key of that name; of no name, the only one. None if the provider has none such.

        Raises: Unreachable where that cannot be said.
        """
        found = self._held(kid)
        if found is not None and (self._age() < KEPT_S or self._lock.locked()):
            return found  # whoever came first asks; nobody else waits for it
        async with self._lock:
            await self._renewed(known=self._held(kid) is not None)
        return self._held(kid)

    async def _renewed(self, *, known: bool) -> None:
        if self._age() < (KEPT_S if known else ANEW_S):
            return
        if self._monotonic() < self._down_until:
            if known:
                return
            raise Unreachable("the provider could not be reached a moment ago")
        try:
            self._keys = await self._asked()
            self._told_at = self._monotonic()
        except Unreachable:
            self._down_until = self._monotonic() + (ANEW_S if known else DOWN_S)
            if not known:
                raise

    async def _asked(self) -> Named:
        status, said = await ask("GET", await self._where())
        listed = said.get("keys")
        if status != 200 or not isinstance(listed, list):  # noqa: PLR2004 - OK
            raise Unreachable("the provider does not say its keys")
        found = (_public(one) for one in listed[:MAX_KEYS])
        return {key.key_id: key for key in found if key is not None}

    def _age(self) -> float:
        return self._monotonic() - self._told_at

    def _held(self, kid: str | None) -> jwt.PyJWK | None:
        if self._age() >= STALE_S:
            return None
        if kid is None:
            return next(iter(self._keys.values())) if len(self._keys) == 1 else None
        return self._keys.get(kid)


def _public(told: Any) -> jwt.PyJWK | None:
    """A key that signatures are checked with; others, and such as we do not know, are none of ours."""
    if not isinstance(told, Mapping) or told.get("use", "sig") != "sig" or told.get("kty") == "oct":
        return None
    try:
        return jwt.PyJWK.from_dict(dict(told))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None
