"""The ways to a token for an upstream: as ourselves, or on behalf of whoever calls."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable

from gateway.model.party import Behalf
from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.credentials.endpoint import ACCESS_TOKEN, Granted, OAuthClient, granted
from gateway.outbound.credentials.kept import Kept

MAX_KEPT = 1000
"""Tokens that are kept for principals; of more, the least recently used is asked for anew."""

NOBODY = "it is called on behalf of whoever comes in with an access token (`agents: {oauth: …}`), and here nobody did"


class ClientCredentials:
    """One token, as ourselves [RFC 6749, 4.4]."""

    personal = by_token = False
    nobody = ""

    def __init__(self, client: OAuthClient, monotonic: Callable[[], float], chance: Callable[[], float]) -> None:
        """As `Kept`."""
        self._client = client
        self._kept = Kept(self._fetched, monotonic, chance)

    async def _fetched(self) -> Granted:
        return await granted(self._client, {"grant_type": "client_credentials"})

    async def token(self, _behalf: Behalf | None) -> str:
        """As `Credential.token`.

        Raises: NoToken.
        """
        return await self._kept.token()

    def refused(self, _behalf: Behalf | None, token: str) -> bool:
        """As `Credential.refused`."""
        return self._kept.refused(token)

    def account(self, _behalf: Behalf | None) -> str:
        """As `Credential.account`."""
        return ""

    async def close(self) -> None:
        """As `Credential.close`."""
        await self._kept.close()


class TokenExchange:
    """A token for each access token that a principal shows us, for which it is exchanged [RFC 8693]."""

    personal = by_token = True
    nobody = "it is connected to on behalf of each principal who comes in with an access token"

    def __init__(self, client: OAuthClient, monotonic: Callable[[], float], chance: Callable[[], float]) -> None:
        """As `Kept`."""
        self._client = client
        self._monotonic = monotonic
        self._chance = chance
        self._kept: OrderedDict[tuple[str, str, bytes], Kept] = OrderedDict()

    async def token(self, behalf: Behalf | None) -> str:
        """As `Credential.token`.

        Raises: NoToken.
        """
        return await self._of(behalf).token()

    def refused(self, behalf: Behalf | None, token: str) -> bool:
        """As `Credential.refused`."""
        return self._of(behalf).refused(token)

    def account(self, _behalf: Behalf | None) -> str:
        """As `Credential.account`."""
        return ""

    async def close(self) -> None:
        """As `Credential.close`."""
        kept = [*self._kept.values()]
        self._kept.clear()
        await asyncio.gather(*(one.close() for one in kept))

    def _of(self, behalf: Behalf | None) -> Kept:
        if behalf is None or behalf.token is None:
            raise NoToken(NOBODY)
        shown = behalf.token.get_secret_value()
        key = behalf.tenant, behalf.principal, hashlib.sha256(shown.encode()).digest()
        kept = self._kept.get(key)
        if kept is None:
            self._drop_ended()
            kept = self._kept[key] = Kept(lambda: self._exchanged(shown), self._monotonic, self._chance)
        self._kept.move_to_end(key)
        return kept

    async def _exchanged(self, shown: str) -> Granted:
        grant = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": shown,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
        }
        given = await granted(self._client, grant)
        if given.token == shown:  # else the inbound token would be passed on after all
            raise NoToken("there is no access token for it: the provider gives back the one it was shown", refused=True)
        return given

    def _drop_ended(self) -> None:
        ended = [key for key, kept in self._kept.items() if kept.is_over]
        for key in ended:
            del self._kept[key]
        while len(self._kept) >= MAX_KEPT:
            self._kept.popitem(last=False)
