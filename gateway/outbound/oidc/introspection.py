"""What an authorization server says of a token that says nothing by itself [RFC 7662].

Kept for moments only, under a digest of the token, and never beyond its end: so that a token that was revoked is
refused soon. Who cannot be asked has said neither yes nor no.

Whoever is at work does not wait for those whom nobody knows: tokens that were active when they were last asked about
have turns of their own, and cannot be crowded out of what is kept.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

from gateway.outbound.oidc.asking import Unreachable, ask
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.resource import Introspected

KEPT_S = 10.0
MAX_KEPT = 10_000
"""Of those that were active, and of the others."""
AT_ONCE = 16
"""Questions under way about each of both; whoever sends many tokens waits for their turn, and the server is not
flooded through us.
"""
MAX_WAITING = 1_000
"""Tokens of which nothing is known, that wait for their turn; of one more nothing can be said now."""

_Kept: TypeAlias = "OrderedDict[bytes, tuple[float, Mapping[str, Any]]]"


class Introspection:
    """One for each process."""

    def __init__(self, told: Introspected, monotonic: Callable[[], float]) -> None:
        self._told = told
        self._monotonic = monotonic
        self._active: _Kept = OrderedDict()
        """Beyond their time too: they tell who was known."""
        self._others: _Kept = OrderedDict()
        self._known_turns, self._strange_turns = asyncio.Semaphore(AT_ONCE), asyncio.Semaphore(AT_ONCE)
        self._waiting = 0

    async def claims(self, token: str) -> Mapping[str, Any]:
        """What is said of a token that is active.

        Raises: NotLetIn for one that is not, Unreachable.
        """
        name = hashlib.sha256(token.encode()).digest()
        said = self._known(name)
        if said is None:
            async with self._turn(name):
                said = self._known(name)  # somebody may have asked meanwhile
                if said is None:
                    said = await self._asked(token)
                    self._keep(name, said)
        if said.get("active") is not True:
            raise NotLetIn("the access token is not active: it has expired, was revoked, or never was")
        return said

    @asynccontextmanager
    async def _turn(self, name: bytes) -> AsyncIterator[None]:
        """It may be asked about that one now.

        Raises: Unreachable.
        """
        if name in self._active:
            async with self._known_turns:
                yield
            return
        if self._waiting >= MAX_WAITING:
            raise Unreachable("too many tokens that are not known are being asked about")
        self._waiting += 1
        try:
            async with self._strange_turns:
                yield
        finally:
            self._waiting -= 1

    def _known(self, name: bytes) -> Mapping[str, Any] | None:
        until, said = self._active.get(name) or self._others.get(name) or (0.0, None)
        return said if self._monotonic() < until else None

    def _keep(self, name: bytes, said: Mapping[str, Any]) -> None:
        is_active = said.get("active") is True
        kept, left = (self._active, self._others) if is_active else (self._others, self._active)
        left.pop(name, None)
        kept[name] = self._monotonic() + KEPT_S, said
        kept.move_to_end(name)
        while len(kept) > MAX_KEPT:
            kept.popitem(last=False)

    async def _asked(self, token: str) -> Mapping[str, Any]:
        told = self._told
        auth = told.client_id, told.client_secret.get_secret_value()
        status, said = await ask("POST", told.url, {"token": token, "token_type_hint": "access_token"}, auth)
        if status != 200 or not isinstance(said.get("active"), bool):  # noqa: PLR2004 - OK
            raise Unreachable("the provider does not say whether the token is active")
        return said
