"""What an authorization server says of a token that says nothing by itself [RFC 7662].

Kept for moments only, under a digest of the token, and never beyond its end: so that a token that was revoked is
refused soon. Who cannot be asked has said neither yes nor no.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from gateway.outbound.oidc.asking import Unreachable, ask
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.resource import Introspected

KEPT_S = 10.0
MAX_KEPT = 10_000
AT_ONCE = 16
"""Questions under way; whoever sends many tokens waits for their turn, and the server is not flooded through us."""


class Introspection:
    """One for each process."""

    def __init__(self, told: Introspected, monotonic: Callable[[], float]) -> None:
        self._told = told
        self._monotonic = monotonic
        self._kept: OrderedDict[bytes, tuple[float, Mapping[str, Any]]] = OrderedDict()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def claims(self, token: str) -> Mapping[str, Any]:
        """What is said of a token that is active.

        Raises: NotLetIn for one that is not, Unreachable.
        """
        name = hashlib.sha256(token.encode()).digest()
        said = self._known(name)
        if said is None:
            async with self._turns:
                said = self._known(name)  # somebody may have asked meanwhile
                if said is None:
                    said = await self._asked(token)
                    self._keep(name, said)
        if said.get("active") is not True:
            raise NotLetIn("the access token is not active: it has expired, was revoked, or never was")
        return said

    def _known(self, name: bytes) -> Mapping[str, Any] | None:
        until, said = self._kept.get(name, (0.0, None))
        return said if self._monotonic() < until else None

    def _keep(self, name: bytes, said: Mapping[str, Any]) -> None:
        self._kept[name] = self._monotonic() + KEPT_S, said
        self._kept.move_to_end(name)
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)

    async def _asked(self, token: str) -> Mapping[str, Any]:
        told = self._told
        auth = told.client_id, told.client_secret.get_secret_value()
        status, said = await ask("POST", told.url, {"token": token, "token_type_hint": "access_token"}, auth)
        if status != 200 or not isinstance(said.get("active"), bool):  # noqa: PLR2004 - OK
            raise Unreachable("the provider does not say whether the token is active")
        return said
