"""What an ID token says, if it is for us, about this very sign-in, and signed by the provider's own key.

[OpenID Connect Core 1.0, 3.1.3.7]. Nothing in the token chooses how it is checked: only algorithms with a public key
are known here, so that a provider's public key can never be taken for a secret [RFC 8725, 2.1].
"""

import secrets
from typing import Any

import jwt

from gateway.outbound.oidc.people import NotLetIn, OidcSettings

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 60.0
"""By how much the provider's clock may differ from ours."""
MAX_CHARS = 64 * 1024
_REQUIRED = ["iss", "sub", "aud", "exp", "iat", "nonce"]


def key_id(token: str) -> str | None:
    """Which of the provider's keys it claims to be signed with.

    Raises: NotLetIn for what no provider may sign with.
    """
    if len(token) > MAX_CHARS:
        raise NotLetIn("the provider's ID token is too long")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise NotLetIn("the provider's ID token is malformed") from None
    if header.get("alg") not in ALGORITHMS:
        raise NotLetIn("the ID token is not signed with a key that only the provider has")
    kid = header.get("kid")
    return kid if isinstance(kid, str) else None


def verify(token: str, key: jwt.PyJWK, told: OidcSettings, *, nonce: str, now: float) -> dict[str, Any]:
    """The claims.

    Raises: NotLetIn.
    """
    if key.algorithm_name not in ALGORITHMS or key.key_type == "oct":
        raise NotLetIn("the ID token is not signed with a key that only the provider has")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=told.client_id,
            issuer=told.issuer,
            # Our clock is told, never read: the times are judged below.
            options={"require": _REQUIRED, "verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
    except jwt.InvalidAudienceError:
        raise NotLetIn("the ID token is meant for somebody else") from None
    except jwt.InvalidIssuerError:
        raise NotLetIn("the ID token is from another provider") from None
    except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
        raise NotLetIn("the ID token was not signed by the provider") from None
    except jwt.PyJWTError:
        raise NotLetIn("the ID token lacks what is needed, or is malformed") from None
    _check(claims, told, nonce, now)
    return claims


def _check(claims: dict[str, Any], told: OidcSettings, nonce: str, now: float) -> None:
    times = [claims["exp"], claims["iat"], claims.get("nbf", claims["iat"])]
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in times):
        raise NotLetIn("the ID token lacks what is needed, or is malformed")
    if now >= times[0] + LEEWAY_S:
        raise NotLetIn("the ID token has expired")
    if max(times[1:]) > now + LEEWAY_S:
        raise NotLetIn("the ID token is from the future: compare the clocks of the gateway and the provider")
    # A token for several is taken only where it was given to us; and what was given to another, never.
    many = isinstance(claims["aud"], list) and len(claims["aud"]) > 1
    if claims.get("azp", None if many else told.client_id) != told.client_id:
        raise NotLetIn("the ID token was given to somebody else")
    said = claims["nonce"]
    if not isinstance(said, str) or not secrets.compare_digest(said.encode(), nonce.encode()):
        raise NotLetIn("the ID token is for another sign-in")
