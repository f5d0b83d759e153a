"""What a reviewer shows at the door: a link for one use, a token for programs, or one for an assistant. All are signed
by this gateway.

One algorithm, one audience, one type and one key for each; nothing in a token chooses how it is checked [RFC 8725].
"""

import secrets
from dataclasses import dataclass
from math import floor
from typing import Any, Literal, TypeAlias

import jwt

from gateway.model.review import Reviewer

Use: TypeAlias = Literal["console", "reviewer", "assistant"]
"""`console`: a link, which is exchanged for a session once. `reviewer`: a token, which a program shows with each
request. `assistant`: one for the operators' MCP server alone, where the person is asked; no other door takes it."""

ALGORITHM = "HS256"
MAX_CHARS = 4096
_REQUIRED = ["aud", "exp", "iat", "jti", "roles", "sub", "tenant"]


class BadCredential(ValueError):
    """It lets nobody in; the message says why, in words that can be shown to whoever showed it."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a valid one says."""

    id: str
    """Its own: links are used once by it, tokens are revoked by it."""
    reviewer: Reviewer
    expires_at: float
    """Seconds since the epoch."""
    unattended: bool = False
    """Whether whoever shows it decides without a person's word for each decision; of a token alone."""


def mint(
    key: bytes, use: Use, reviewer: Reviewer, *, now: float, lives_s: float, unattended: bool = False
) -> tuple[str, Credential]:
    """The text with which its bearer is that reviewer, and what it says."""
    made = Credential(secrets.token_urlsafe(16), reviewer, float(floor(now + lives_s)), unattended)
    claims = {
        "aud": _name(use),
        "exp": int(made.expires_at),
        "iat": floor(now),
        "jti": made.id,
        "roles": sorted(reviewer.roles),
        "sub": reviewer.id,
        "tenant": reviewer.tenant,
        **({"local": True} if reviewer.via == "local" else {}),
        **({"everywhere": True} if reviewer.everywhere else {}),
        **({"unattended": True} if unattended else {}),
        **({} if reviewer.approval is None else {"approval": reviewer.approval}),
    }
    return jwt.encode(claims, key, algorithm=ALGORITHM, headers={"typ": _name(use)}), made


def verify(key: bytes, use: Use, text: str, *, now: float) -> Credential:
    """What the text says, if it was signed for this use and has not expired.

    Raises: BadCredential.
    """
    claims = _claims(key, use, text)
    reviewer = _reviewer(claims, use)
    expires_at = claims["exp"]
    if reviewer is None or type(expires_at) is not int:
        raise BadCredential(f"the {_word(use)} lacks a claim or has one of the wrong type")
    if now >= expires_at:
        raise BadCredential(f"the {_word(use)} has expired")
    return Credential(claims["jti"], reviewer, float(expires_at), claims.get("unattended") is True)


def _reviewer(claims: dict[str, Any], use: Use) -> Reviewer | None:
    names = [claims[name] for name in ("tenant", "sub", "jti")]
    roles, approval = claims["roles"], claims.get("approval")
    flags = [claims.get(name, False) for name in ("everywhere", "local")]
    texts = isinstance(roles, list) and all(isinstance(one, str) and one for one in [*names, *roles])
    if not texts or not all(isinstance(one, bool) for one in flags) or not isinstance(approval, str | None):
        return None
    by_link: Literal["local", "link"] = "local" if flags[1] else "link"
    return Reviewer(
        tenant=names[0],
        id=names[1],
        roles=frozenset(roles),
        via=by_link if use == "console" else "token",
        everywhere=flags[0],
        approval=approval,
    )


def _claims(key: bytes, use: Use, text: str) -> dict[str, Any]:
    word = _word(use)
    if len(text) > MAX_CHARS:
        raise BadCredential(f"the {word} is too long")
    try:
        # Our clock is told, never read: the times are judged by `verify`.
        whole = jwt.decode_complete(
            text,
            key,
            algorithms=[ALGORITHM],
            audience=_name(use),
            options={
                "require": _REQUIRED,
                "strict_aud": True,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.InvalidSignatureError:
        raise BadCredential(f"the {word} was not signed by this gateway") from None
    except jwt.PyJWTError:
        raise BadCredential(f"that is no {word} of this gateway") from None
    if whole["header"].get("typ") != _name(use):
        raise BadCredential(f"that is no {word} of this gateway")
    claims: dict[str, Any] = whole["payload"]
    return claims


def _name(use: Use) -> str:
    return f"counterfoil-{use}"


def _word(use: Use) -> str:
    return "link" if use == "console" else "token"
