"""What an ID token says, if it is for us, about this very sign-in, and signed by the provider's own key.

[OpenID Connect Core 1.0, 3.1.3.7].
"""

import secrets
from typing import Any

import jwt

from gateway.outbound.oidc import signed
from gateway.outbound.oidc.claims import NotLetIn
from gateway.outbound.oidc.people import OidcSettings

MAX_CHARS = 64 * 1024
_REQUIRED = ("iss", "sub", "aud", "exp", "iat", "nonce")


def expected(told: OidcSettings) -> signed.Expected:
    """The ID tokens of that provider, for us."""
    return signed.Expected("ID token", told.issuer, told.client_id, _REQUIRED, MAX_CHARS)


def verify(token: str, key: jwt.PyJWK, told: OidcSettings, *, nonce: str, now: float) -> dict[str, Any]:
    """The claims.

    Raises: NotLetIn.
    """
    claims = signed.verify(token, key, expected(told), now=now)
    # A token for several is taken only where it was given to us; and what was given to another, never.
    many = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if many else told.client_id) != told.client_id:
        raise NotLetIn("the ID token was given to somebody else")
    said = claims["nonce"]
    if not isinstance(said, str) or not secrets.compare_digest(said.encode(), nonce.encode()):
        raise NotLetIn("the ID token is for another sign-in")
    return claims
