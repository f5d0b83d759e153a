"""Run tokens: who may speak for which run, until when, signed by this gateway.

One algorithm, one audience, one type; nothing in a token chooses how it is checked [RFC 8725].
"""

from dataclasses import dataclass
from math import floor
from typing import Any

import jwt

from gateway.model.principal import Parent, Principal

AUDIENCE = "counterfoil"
TYPE = "counterfoil-run"
ALGORITHM = "HS256"
REVIEWERS = frozenset({"counterfoil-console", "counterfoil-reviewer", "counterfoil-assistant"})
"""Types of what reviewers show, at another door."""
MIN_KEY_BYTES = 32
"""As long as the digest [RFC 7518, 3.2]."""
MAX_TOKEN_CHARS = 4096
CLAIMS = ("aud", "exp", "iat", "roles", "run", "sub", "tenant", "workflow")


class BadToken(ValueError):
    """The token does not speak for a run; the message says why, in words that can be shown to a client."""


@dataclass(frozen=True, slots=True)
class RunToken:
    """What a valid token says."""

    run: str
    principal: Principal
    workflow: str
    expires_at: float
    """Seconds since the epoch."""
    parent: Parent | None = None
    """The run that it is opened from, and what that passes on."""


def mint(
    key: bytes,
    *,
    run: str,
    principal: Principal,
    workflow: str,
    expires_at: float,
    now: float,
    parent: Parent | None = None,
) -> str:
    """A token with which its bearer acts as `principal` in `run`, and nowhere else, until `expires_at`.

    Raises: ValueError for a key that is too short to sign with.
    """
    claims = {
        "aud": AUDIENCE,
        "exp": floor(expires_at),
        "iat": floor(now),
        "roles": sorted(principal.roles),
        "run": run,
        "sub": principal.id,
        "tenant": principal.tenant,
        "workflow": workflow,
        **({} if not principal.scopes else {"scope": " ".join(sorted(principal.scopes))}),
        **({} if parent is None else {"parent": parent.run}),
        **({} if parent is None or parent.authority is None else {"authority": sorted(parent.authority)}),
    }
    return jwt.encode(claims, _long_enough(key), algorithm=ALGORITHM, headers={"typ": TYPE})


def verify(key: bytes, token: str, now: float) -> RunToken:
    """What the token says, if this gateway signed it as a run token and it has not expired at `now`.

    Raises: BadToken; ValueError for a key that is too short.
    """
    claims = _claims(_long_enough(key), token)
    texts = [claims[name] for name in ("run", "sub", "tenant", "workflow")]
    roles, expires_at = claims["roles"], claims["exp"]
    if not all(isinstance(text, str) and text for text in texts) or not isinstance(roles, list):
        raise BadToken("the run token lacks a claim or has one of the wrong type")
    if not all(isinstance(role, str) for role in roles) or type(expires_at) is not int:
        raise BadToken("the run token lacks a claim or has one of the wrong type")
    if now >= expires_at:
        raise BadToken("the run token has expired")
    run, subject, tenant, workflow = texts
    principal = Principal(subject, tenant, frozenset(roles), _scopes(claims))
    return RunToken(run, principal, workflow, float(expires_at), _parent(claims))


def type_of(token: str) -> str | None:
    """What the token says that it is; nothing is verified."""
    try:
        kind = jwt.get_unverified_header(token).get("typ") if len(token) <= MAX_TOKEN_CHARS else None
    except jwt.PyJWTError:
        return None
    return kind if isinstance(kind, str) else None


def _scopes(claims: dict[str, Any]) -> frozenset[str]:
    """Words with spaces between [RFC 6749, 3.3]."""
    scope = claims.get("scope", "")
    if not isinstance(scope, str):
        raise BadToken("the run token lacks a claim or has one of the wrong type")
    return frozenset(scope.split())


def _parent(claims: dict[str, Any]) -> Parent | None:
    run, authority = claims.get("parent"), claims.get("authority")
    if run is None and authority is None:
        return None
    if not isinstance(run, str) or not isinstance(authority, list | None):
        raise BadToken("the run token lacks a claim or has one of the wrong type")
    if authority is None:
        return Parent(run)
    if not all(isinstance(one, str) for one in authority):
        raise BadToken("the run token lacks a claim or has one of the wrong type")
    return Parent(run, frozenset(authority))


def _claims(key: bytes, token: str) -> dict[str, Any]:
    if len(token) > MAX_TOKEN_CHARS:
        raise BadToken("the run token is too long")
    try:
        # Our clock is told, never read: the times are judged by `verify`.
        complete = jwt.decode_complete(
            token,
            key,
            algorithms=[ALGORITHM],
            audience=AUDIENCE,
            options={
                "require": list(CLAIMS),
                "strict_aud": True,
                "verify_exp": False,
                "verify_iat": False,
                "verify_nbf": False,
            },
        )
    except jwt.InvalidSignatureError:
        raise BadToken("the run token was not signed by this gateway") from None
    except jwt.MissingRequiredClaimError:
        raise BadToken("the run token lacks a claim or has one of the wrong type") from None
    except jwt.InvalidAudienceError:
        raise BadToken("the token is meant for somebody else") from None
    except jwt.PyJWTError:
        raise BadToken("the run token is malformed") from None
    if complete["header"].get("typ") != TYPE:
        raise BadToken("the token is no run token")
    claims: dict[str, Any] = complete["payload"]
    return claims


def _long_enough(key: bytes) -> bytes:
    if len(key) < MIN_KEY_BYTES:
        raise ValueError(f"the key of the run tokens must have at least {MIN_KEY_BYTES} bytes")
    return key
