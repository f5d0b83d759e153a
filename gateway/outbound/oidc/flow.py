"""One sign-in: away to the provider, and back with a code that is worth nothing to anybody else.

`state` ties the way back to the browser that went, `nonce` the ID token to this sign-in, and PKCE the code to us
[RFC 9700, 2.1].
"""

import base64
import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.id_token import expected, verify
from gateway.outbound.oidc.provider import Provider
from gateway.outbound.oidc.signed import key_id

MAX_CODE_CHARS = 4096


@dataclass(frozen=True, slots=True)
class Away:
    """What whoever went to the provider must come back with, kept by their browser."""

    state: str
    nonce: str
    verifier: str

    @classmethod
    def new(cls) -> "Away":
        """For one sign-in alone."""
        return cls(*(secrets.token_urlsafe(32) for _ in range(3)))


@dataclass(frozen=True, slots=True)
class Flow:
    """The authorization code flow with one provider, from one address of ours."""

    provider: Provider
    redirect: str
    """Where the provider sends people back to."""

    async def start(self, away: Away) -> str:
        """The address at which the person signs in.

        Raises: Unreachable.
        """
        told, endpoints = self.provider.told, await self.provider.endpoints()
        asked = {
            "response_type": "code",
            "client_id": told.client_id,
            "redirect_uri": self.redirect,
            "scope": " ".join(dict.fromkeys(("openid", *told.scopes))),
            "state": away.state,
            "nonce": away.nonce,
            "code_challenge": challenge(away.verifier),
            "code_challenge_method": "S256",
        }
        join = "&" if "?" in endpoints.authorization else "?"
        return f"{endpoints.authorization}{join}{urlencode(asked)}"

    def check(self, away: Away, said: Mapping[str, str]) -> None:
        """Whoever comes back went from this very browser.

        Raises: NotLetIn.
        """
        if not secrets.compare_digest(said.get("state", "").encode(), away.state.encode()):
            raise NotLetIn("this sign-in was not begun in this browser")

    async def claims(self, away: Away, said: Mapping[str, str], now: float) -> dict[str, Any]:
        """What the provider says of who came back, `said` being the query of their address.

        Raises: NotLetIn, Unreachable.
        """
        self.check(away, said)
        code = await self._code(said)
        token = await self.provider.exchange(code, away.verifier, self.redirect)
        key = await self.provider.key(key_id(token, expected(self.provider.told)))
        return verify(token, key, self.provider.told, nonce=away.nonce, now=now)

    async def _code(self, said: Mapping[str, str]) -> str:
        issuer = said.get("iss")
        named = (await self.provider.endpoints()).names_itself
        if issuer != self.provider.told.issuer and (named or issuer is not None):
            raise NotLetIn("the answer is from another provider")
        if "error" in said:
            raise NotLetIn("the provider did not sign you in")
        code = said.get("code", "")
        if not code or len(code) > MAX_CODE_CHARS:
            raise NotLetIn("the provider gave no code")
        return code


def challenge(verifier: str) -> str:
    """What the provider is told of the verifier before it gives a code, by `S256` [RFC 7636, 4.2]."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
