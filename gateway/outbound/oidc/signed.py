"""What a token says that a provider signed, if it is for us and in time.

Nothing in the token chooses how it is checked: only algorithms with a public key are known here, so that a provider's
public key can never be taken for a secret, and no address in its header is ever gone to [RFC 8725, 2.1, 3.1, 3.10].
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jwt

from gateway.outbound.oidc.claims import NotLetIn

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LEEWAY_S = 60.0
"""By how much the provider's clock may differ from ours."""


@dataclass(frozen=True, slots=True)
class Expected:
    """Which tokens are wanted."""

    noun: str
    """What they are called in messages: `ID token`."""
    issuer: str
    audience: str
    required: Sequence[str]
    """Claims that must be there."""
    max_chars: int
    types: Collection[str] | None = None
    """What `typ` may say, in lower case and without `application/`, where it stands; None for anything."""


def key_id(token: str, wanted: Expected) -> str | None:
    """Which of the provider's keys it claims to be signed with.

    Raises: NotLetIn for what no provider may sign with, and for what asks for rules that are not known here.
    """
    if len(token) > wanted.max_chars:
        raise NotLetIn(f"the {wanted.noun} is too long")
    try:
        header = jwt.get_unverified_header(token)
    except jwt.PyJWTError:
        raise NotLetIn(f"the {wanted.noun} is malformed") from None
    if header.get("alg") not in ALGORITHMS:
        raise NotLetIn(f"the {wanted.noun} is not signed with a key that only the provider has")
    if "crit" in header or "b64" in header:  # [RFC 7515, 4.1.11]: what is critical is not known here
        raise NotLetIn(f"the {wanted.noun} asks for extensions that this gateway does not know")
    kind = header.get("typ")
    if wanted.types is not None and kind is not None and _kind(kind) not in wanted.types:
        raise NotLetIn(f"that is another kind of token, and no {wanted.noun}")
    kid = header.get("kid")
    if kid is not None and not isinstance(kid, str):
        raise NotLetIn(f"the {wanted.noun} is malformed")
    return kid


def _kind(typ: Any) -> str:
    return typ.lower().removeprefix("application/") if isinstance(typ, str) else ""


def verify(token: str, key: jwt.PyJWK, wanted: Expected, *, now: float) -> dict[str, Any]:
    """The claims.

    Raises: NotLetIn.
    """
    noun = wanted.noun
    if key.algorithm_name not in ALGORITHMS or key.key_type == "oct":
        raise NotLetIn(f"the {noun} is not signed with a key that only the provider has")
    try:
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=wanted.audience,
            issuer=wanted.issuer,
            # Our clock is told, never read: the times are judged below.
            options={"require": list(wanted.required), "verify_exp": False, "verify_iat": False, "verify_nbf": False},
        )
    except jwt.InvalidAudienceError:
        raise NotLetIn(f"the {noun} is meant for somebody else") from None
    except jwt.InvalidIssuerError:
        raise NotLetIn(f"the {noun} is from another provider") from None
    except (jwt.InvalidSignatureError, jwt.InvalidAlgorithmError):
        raise NotLetIn(f"the {noun} was not signed by the provider") from None
    except jwt.PyJWTError:
        raise NotLetIn(f"the {noun} lacks what is needed, or is malformed") from None
    check_times(claims, noun, now)
    return claims


def check_times(claims: dict[str, Any], noun: str, now: float) -> None:
    """It has begun and is not over, by those of its times that it says.

    Raises: NotLetIn.
    """
    said = {name: claims[name] for name in ("exp", "iat", "nbf") if claims.get(name) is not None}
    if not all(isinstance(one, int | float) and not isinstance(one, bool) for one in said.values()):
        raise NotLetIn(f"the {noun} lacks what is needed, or is malformed")
    if "exp" in said and not now < said["exp"] + LEEWAY_S:
        raise NotLetIn(f"the {noun} has expired")
    if not all(said[name] <= now + LEEWAY_S for name in ("iat", "nbf") if name in said):
        raise NotLetIn(f"the {noun} is from the future: compare the clocks of the gateway and the provider")
