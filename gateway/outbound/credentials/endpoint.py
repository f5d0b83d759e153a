"""(client, grant) -> access token. One question to a token endpoint [RFC 6749, 3.2; RFC 8693, 2; RFC 8707]."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from gateway.outbound.credentials.credential import NoToken
from gateway.outbound.oidc.asking import Unreachable, ask, introduced

MAX_CHARS = 16 * 1024
"""Of a token. What is longer fits into no header."""

MAX_LIFE_S = 10 * 365 * 86_400
"""Of a token, however long its provider says."""

ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"  # noqa: S105 - the name of a kind of token
_JWT = "urn:ietf:params:oauth:token-type:jwt"
_ISSUED = frozenset({ACCESS_TOKEN, _JWT})

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""[RFC 6750, 2.1]."""

_REFRESH = re.compile(r"[\x20-\x7e]+")
"""[RFC 6749, A.17]."""
SCOPE = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")
"""[RFC 6749, 3.3]."""

ERRORS = frozenset({
    "access_denied",
    "invalid_client",
    "invalid_grant",
    "invalid_request",
    "invalid_scope",
    "invalid_target",
    "server_error",
    "temporarily_unavailable",
    "unauthorized_client",
    "unsupported_grant_type",
    "unsupported_response_type",
})  # fmt: skip
"""What is told of a refusal. All else that a provider says might hold what we sent it."""

_THEIRS = {"bad_refresh_token": "invalid_grant", "bad_verification_code": "invalid_grant"}
"""What GitHub says in place of the standard's word."""

_REFUSED = frozenset({400, 401, 403})
_OK = 200
_BROKEN = 500
"""From here on it is the provider's own trouble [RFC 9110, 15.6]."""


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """Who we are at an authorization server, and which tokens we ask it for."""

    token_url: str
    client_id: str
    client_secret: SecretStr | None
    """None for a client that the provider knows as public."""
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None
    client_auth: Literal["basic", "post"] = "basic"
    """Whether the secret goes in a header, or in the form: where the provider takes it in no header."""


@dataclass(frozen=True, slots=True)
class Granted:
    """A token."""

    token: str = field(repr=False)
    lasts_s: float | None
    """None where the provider does not say."""
    refresh: SecretStr | None = None
    """What another one can be had for, where the provider gives that."""
    scope: str | None = None
    """What it is good for, in the provider's words; None where that is what was asked for."""
    renew_s: float | None = None
    """When another one is to be asked for; None: as is usual for one that lasts so long."""


async def granted(client: OAuthClient, grant: Mapping[str, str]) -> Granted:
    """What the provider gives for that grant: the form without who we are and what for.

    Raises: NoToken.
    """
    what_for = {"scope": client.scope, "audience": client.audience, "resource": client.resource}
    form, auth = _introduced(client, {**grant, **{name: one for name, one in what_for.items() if one is not None}})
    try:
        status, said = await ask("POST", client.token_url, form, auth)
    except Unreachable as error:
        raise NoToken(f"there is no access token for it: {error}") from None
    if status != _OK or ("error" in said and "access_token" not in said):  # some refuse with status 200
        raise _refusal(status, said)
    return _token_of(said, exchanged="subject_token" in grant)


async def revoked(client: OAuthClient, url: str, token: str, kind: Literal["refresh_token", "access_token"]) -> bool:
    """Whether the provider says that the token is good for nothing any more [RFC 7009].

    Never raises for what it does.
    """
    form, auth = _introduced(client, {"token": token, "token_type_hint": kind})
    try:
        status, _ = await ask("POST", url, form, auth)
    except Unreachable:
        return False
    return status == _OK


def _introduced(client: OAuthClient, form: dict[str, str]) -> tuple[dict[str, str], tuple[str, str] | None]:
    return introduced(form, client.client_id, client.client_secret, basic=client.client_auth == "basic")


def _refusal(status: int, said: Mapping[str, Any]) -> NoToken:
    code = said.get("error")
    code = _THEIRS.get(code, code) if isinstance(code, str) else None
    known = code if code in ERRORS else None
    why = f"status {status}" if known is None else f"`{known}`"
    words = f"there is no access token for it: the provider refuses one ({why})"
    # One that is in trouble itself has judged nothing: what it says then ends no grant.
    return NoToken(words, refused=status in _REFUSED or status == _OK, code=known if status < _BROKEN else None)


def _token_of(said: Mapping[str, Any], *, exchanged: bool) -> Granted:
    token, kind = said.get("access_token"), said.get("token_type")
    if not isinstance(token, str) or len(token) > MAX_CHARS or not _TOKEN.fullmatch(token):
        raise NoToken("there is no access token for it: the provider's answer holds none", refused=True)
    if kind is not None and (not isinstance(kind, str) or kind.lower() != "bearer"):
        raise NoToken("there is no access token for it: what the provider gives is no bearer token", refused=True)
    if exchanged and said.get("issued_token_type", ACCESS_TOKEN) not in _ISSUED:
        raise NoToken("there is no access token for it: the provider gives a token of another kind", refused=True)
    more, scope = said.get("refresh_token"), said.get("scope")
    return Granted(
        token,
        _seconds(said.get("expires_in")),
        SecretStr(more) if isinstance(more, str) and _REFRESH.fullmatch(more) and len(more) <= MAX_CHARS else None,
        scope if isinstance(scope, str) and SCOPE.fullmatch(scope) and len(scope) <= MAX_CHARS else None,
    )


def _seconds(said: Any) -> float | None:
    """What no token can last for counts as not said: 0 is what some say of one that does not end."""
    if isinstance(said, str) and said.isdecimal():
        said = int(said[:12])
    told = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return float(min(said, MAX_LIFE_S)) if told else None
