"""Whom an access token speaks of, if it is for this gateway: checked by its signature, or asked about.

[RFC 9068, 4; RFC 8707; MCP, authorization: a server takes only tokens that were issued for it]. A token is never kept,
logged or passed on.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from gateway.model.principal import Principal
from gateway.outbound.oidc import signed
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.discovery import discovered, endpoint
from gateway.outbound.oidc.introspection import Introspection
from gateway.outbound.oidc.key_set import KeySet
from gateway.outbound.oidc.resource import ResourceSettings, check_client, principal_of

MAX_CHARS = 16 * 1024
TYPES = frozenset({"at+jwt", "jwt"})
"""Of signed tokens that are access tokens; most servers say only `JWT`."""

_SIGNED = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*){2}")
_OPAQUE = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""[RFC 6750, 2.1]."""
_ID_TOKENS = ("nonce", "at_hash", "c_hash", "s_hash")
"""Claims of tokens that tell a client who its user is. They are no permission to call anybody."""
_USES = {"typ": frozenset({"id", "refresh", "offline", "logout"}), "token_use": frozenset({"id", "refresh"})}
"""What servers say in a claim of other tokens than these: Keycloak in `typ`, Cognito in `token_use`."""


class AccessTokens:
    """Those of one authorization server. One for each process; `now` is seconds since the epoch."""

    def __init__(
        self, told: ResourceSettings, audience: str, *, now: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._told = told
        self._now = now
        self._keys = None if told.keys == "none" else KeySet(self._where, monotonic)
        self._asked = None if told.introspection is None else Introspection(told.introspection, monotonic)
        required = ("iss", "sub", "aud", "exp")
        self._wanted = signed.Expected("access token", told.issuer, audience, required, MAX_CHARS, TYPES)

    async def holder(self, token: str) -> Principal:
        """Whom it speaks of.

        Raises: NotLetIn; Unreachable where that cannot be said now.
        """
        if len(token) > MAX_CHARS:
            raise NotLetIn("the access token is too long")
        if self._keys is not None and _SIGNED.fullmatch(token):
            claims = await self._signed(token, self._keys)
        elif self._asked is not None and _OPAQUE.fullmatch(token):
            claims = await self._asked_about(token, self._asked)
        else:
            raise NotLetIn("that is no access token of the provider")
        _check_use(claims)
        check_client(claims, self._told)
        return principal_of(claims, self._told)

    async def _signed(self, token: str, keys: KeySet) -> Mapping[str, Any]:
        kid = signed.key_id(token, self._wanted)
        key = await keys.named(kid)
        if key is None:
            raise NotLetIn("the access token was not signed by the provider")
        claims = signed.verify(token, key, self._wanted, now=self._now())
        if any(name in claims for name in _ID_TOKENS):
            raise NotLetIn("that is an ID token, which is for a client and lets nobody in here")
        return claims

    async def _asked_about(self, token: str, asked: Introspection) -> Mapping[str, Any]:
        claims, wanted = await asked.claims(token), self._wanted
        audience = claims.get("aud")
        if wanted.audience not in (audience if isinstance(audience, list) else [audience]):
            raise NotLetIn("the access token is meant for somebody else")
        if claims.get("iss", wanted.issuer) != wanted.issuer:
            raise NotLetIn("the access token is from another provider")
        signed.check_times(dict(claims), wanted.noun, self._now())
        return claims

    async def _where(self) -> str:
        if self._told.keys != "auto":
            return self._told.keys
        return endpoint(await discovered(self._told.issuer), "jwks_uri")


def _check_use(claims: Mapping[str, Any]) -> None:
    """It is for whoever is called, as far as servers say so; whoever asks about one is told of refresh tokens too.

    Raises: NotLetIn.
    """
    for name, others in _USES.items():
        use = claims.get(name)
        if isinstance(use, str) and use.lower() in others:
            raise NotLetIn("that is another kind of token, and no access token")
