"""An authorization server that signs whatever a test has it sign, and what a gateway makes of that."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jwt
from pydantic import SecretStr

from gateway.outbound.oidc.access_tokens import AccessTokens
from gateway.outbound.oidc.resource import Claims, Introspected, ResourceSettings
from tests.console.provider import CLIENT, RSA, SECRET, OpenId
from tests.inbound.fake_gate import T0, ToldClock

RESOURCE = "http://127.0.0.1:8321/mcp"


@dataclass
class Issuer:
    """The server, and the clock of the gateway."""

    openid: OpenId
    clock: ToldClock

    def claims(self, **more: Any) -> dict[str, Any]:
        """Of a token that is good for five minutes; None takes a claim out."""
        now = int(self.clock.now())
        said = {
            "iss": self.openid.url,
            "aud": RESOURCE,
            "sub": "ci",
            "iat": now,
            "exp": now + 300,
            "scope": "mcp",
            **more,
        }
        return {name: value for name, value in said.items() if value is not None}

    def token(self, key: Any = RSA[0], algorithm: str = "RS256", header: Any = None, **more: Any) -> str:
        """A token that is signed so; `header` stands in place of the usual one's parts."""
        head = {"kid": "one", "typ": "at+jwt", **(header or {})}
        return jwt.encode(
            self.claims(**more), key, algorithm, {name: said for name, said in head.items() if said is not None}
        )

    def told(self, **more: Any) -> ResourceSettings:
        """The settings that name it."""
        return replace(ResourceSettings(self.openid.url), **more)

    def introspected(self) -> Introspected:
        """Where it is asked about tokens."""
        return Introspected(f"{self.openid.url}/introspect", CLIENT, SecretStr(SECRET))

    def tokens(self, **more: Any) -> AccessTokens:
        """As a gateway with these settings takes them."""
        return AccessTokens(self.told(**more), RESOURCE, now=self.clock.now, monotonic=self.clock.monotonic)


def issuer(stage: Callable[[float], OpenId]) -> Issuer:
    return Issuer(stage(T0), ToldClock())


ALL_CLAIMS = Claims(principal="email", tenant="org", roles="realm_access.roles", scopes="scp")
