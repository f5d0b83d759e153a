"""A provider's endpoints and keys, found where its issuer says; and a code exchanged for an ID token.

Its answers are bounded, never followed elsewhere, and kept for a while. A key that is not known has the keys asked for
anew once, and not again within a minute: who sends forged tokens does not have us ask for each.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

import jwt

from gateway.model.canonical import NotStrictJson, parse
from gateway.outbound.oidc.people import NotLetIn, OidcSettings, is_safe
from gateway.outbound.system_trust import system_trust

TIMEOUT_S = 10.0
MAX_BODY = 512 * 1024
KEPT_S = 3600.0
"""How long endpoints and keys are taken to be the same."""
DOWN_S = 5.0
"""For how long one that could not be asked is not asked again: whoever opens our page of signing in has us ask."""
ANEW_S = 60.0
"""Between two times that keys are asked for because one is not known."""

_DISCOVERY = "/.well-known/openid-configuration"


class Unreachable(Exception):
    """The provider cannot be asked, or answers what is no answer. The message says which."""


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
        self._keys: tuple[float, Mapping[str | None, jwt.PyJWK]] | None = None
        self._lock = asyncio.Lock()

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
        async with self._lock:
            now = self._monotonic()
            if self._keys is None or now - self._keys[0] >= KEPT_S:
                self._keys = now, await self._asked_keys()
            found = _named(self._keys[1], kid)
            if found is None and now - self._keys[0] >= ANEW_S:
                self._keys = now, await self._asked_keys()
                found = _named(self._keys[1], kid)
        if found is None:
            raise NotLetIn("the ID token was not signed by the provider")
        return found

    async def exchange(self, code: str, verifier: str, redirect: str) -> str:
        """The ID token for that code.

        Raises: Unreachable, NotLetIn where the provider does not take the code.
        """
        endpoints = await self.endpoints()
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect, "code_verifier": verifier}
        auth: tuple[str, str] | None = None
        secret = self.told.client_secret
        if secret is not None and not endpoints.by_post:
            # As a form has them [RFC 6749, 2.3.1].
            auth = quote_plus(self.told.client_id), quote_plus(secret.get_secret_value())
        else:
            form["client_id"] = self.told.client_id
            form |= {} if secret is None else {"client_secret": secret.get_secret_value()}
        status, said = await _ask("POST", endpoints.token, form, auth)
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
                self._endpoints = now, await _discovered(self.told.issuer)
            except Unreachable:
                self._down_until = self._monotonic() + DOWN_S
                raise
        return self._endpoints[1]

    async def _asked_keys(self) -> Mapping[str | None, jwt.PyJWK]:
        status, said = await _ask("GET", (await self._found()).keys)
        listed = said.get("keys")
        if status != 200 or not isinstance(listed, list):  # noqa: PLR2004 - OK
            raise Unreachable("the provider does not say its keys")
        found: dict[str | None, jwt.PyJWK] = {}
        for one in listed:
            key = _public(one)
            if key is not None:
                found[key.key_id] = key
        return found


async def _discovered(issuer: str) -> Endpoints:
    status, said = await _ask("GET", f"{issuer.rstrip('/')}{_DISCOVERY}")
    if status != 200:  # noqa: PLR2004 - OK
        raise Unreachable("the provider does not say where its endpoints are")
    return _endpoints(said, issuer)


def _public(told: Any) -> jwt.PyJWK | None:
    """A key that signatures are checked with; others, and such as we do not know, are none of ours."""
    if not isinstance(told, Mapping) or told.get("use", "sig") != "sig" or told.get("kty") == "oct":
        return None
    try:
        return jwt.PyJWK.from_dict(dict(told))
    except (jwt.PyJWTError, ValueError, TypeError, KeyError):
        return None


def _named(keys: Mapping[str | None, jwt.PyJWK], kid: str | None) -> jwt.PyJWK | None:
    if kid is None:
        return next(iter(keys.values())) if len(keys) == 1 else None
    return keys.get(kid)


def _endpoints(said: Mapping[str, Any], issuer: str) -> Endpoints:
    if said.get("issuer") != issuer:
        raise Unreachable("the provider calls itself otherwise than `console.oidc.issuer`")
    urls = [said.get(f"{name}_endpoint") for name in ("authorization", "token")]
    urls.append(said.get("jwks_uri"))
    for one in urls:
        if not isinstance(one, str) or not is_safe(one):
            raise Unreachable("an endpoint of the provider is missing, or not reached over TLS")
    methods = said.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
    return Endpoints(
        authorization=str(urls[0]),
        token=str(urls[1]),
        keys=str(urls[2]),
        by_post="client_secret_basic" not in methods,
        names_itself=said.get("authorization_response_iss_parameter_supported") is True,
    )


async def _ask(
    method: str, url: str, form: Mapping[str, str] | None = None, auth: tuple[str, str] | None = None
) -> tuple[int, Mapping[str, Any]]:
    import httpx2  # noqa: PLC0415 - most gateways ask nobody, and it costs a tenth of a second

    try:
        async with (
            asyncio.timeout(TIMEOUT_S),
            httpx2.AsyncClient(verify=system_trust(), trust_env=False, follow_redirects=False, timeout=None) as client,
            client.stream(
                method, url, data=form, auth=auth, headers={"accept": "application/json", "accept-encoding": "identity"}
            ) as answer,
        ):
            received = bytearray()
            async for piece in answer.aiter_raw():
                received += piece
                if len(received) > MAX_BODY:
                    raise Unreachable("the provider's answer is too long")
            said = parse(bytes(received))
            return answer.status_code, said if isinstance(said, Mapping) else {}
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError):
        raise Unreachable("the provider cannot be reached") from None
    except (NotStrictJson, ValueError):
        raise Unreachable("the provider's answer is no JSON") from None
