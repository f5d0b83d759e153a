"""A provider's endpoints and keys, found where its issuer says; and a code exchanged for an ID token."""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jwt

from gateway.outbound.oidc.asking import Unreachable, ask, introduced
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.discovery import discovered, endpoint
from gateway.outbound.oidc.key_set import DOWN_S, KEPT_S, KeySet
from gateway.outbound.oidc.people import OidcSettings


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a provider does what [OpenID Connect Discovery 1.0, 3]."""

    authorization: str
    token: str
    keys: str
    by_post: bool
    """Whether our secret goes into the form: where the provider takes it in no header."""
    names_itself: bool
    """Whether it says in its answer who it is [RFC 9207]."""


class Provider:
    """One provider. One for each process."""

    def __init__(self, told: OidcSettings, monotonic: Callable[[], float]) -> None:
        self.told = told
        self._monotonic = monotonic
        self._down_until = -math.inf
        self._endpoints: tuple[float, Endpoints] | None = None
        self._lock = asyncio.Lock()
        self._keys = KeySet(self._where, monotonic)

    async def endpoints(self) -> Endpoints:
        """Where it is asked.

        Raises: Unreachable.
        """
        async with self._lock:
            return await self._found()

    async def key(self, kid: str | None) -> jwt.PyJWK:
        """The key of that name; of no name, its only one.

        Raises: Unreachable, NotLetIn.
        """
        found = await self._keys.named(kid)
        if found is None:
            raise NotLetIn("the ID token was not signed by the provider")
        return found

    async def _where(self) -> str:
        return (await self.endpoints()).keys

    async def exchange(self, code: str, verifier: str, redirect: str) -> str:
        """The ID token for that code.

        Raises: Unreachable, NotLetIn where the provider does not take the code.
        """
        endpoints = await self.endpoints()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        form, auth = introduced(form, self.told.client_id, self.told.client_secret, basic=not endpoints.by_post)
        status, said = await ask("POST", endpoints.token, form, auth)
        token = said.get("id_token")
        if status in {400, 401, 403}:
            raise NotLetIn("the provider does not take the code that it gave: sign in again")
        if status != 200 or not isinstance(token, str):  # noqa: PLR2004 - OK
            raise Unreachable("the provider gave no ID token")
        return token

    async def _found(self) -> Endpoints:
        now = self._monotonic()
        if self._endpoints is None or now - self._endpoints[0] >= KEPT_S:
            if now < self._down_until:
                raise Unreachable("the provider could not be reached a moment ago")
            try:
                self._endpoints = now, _endpoints(await discovered(self.told.issuer))
            except Unreachable:
                self._down_until = self._monotonic() + DOWN_S
                raise
        return self._endpoints[1]


def _endpoints(said: Mapping[str, Any]) -> Endpoints:
    methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        authorization=endpoint(said, "authorization_endpoint"),
        token=endpoint(said, "token_endpoint"),
        keys=endpoint(said, "jwks_uri"),
        by_post="client_secret_basic" not in methods,
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
    )
