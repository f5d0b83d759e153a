"""Verified claims -> a person here, or why not. Which claims say what is settings' to say."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

MAX_CHARS = 256
MAX_ROLES = 200


class NotLetIn(Exception):
    """The provider does not vouch for somebody who may come in. The message says why, and shows no token."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """One provider, and what its claims mean here."""

    issuer: str
    client_id: str
    client_secret: SecretStr | None = None
    """None for a client that the provider knows as public; PKCE is used either way."""
    scopes: tuple[str, ...] = ("openid", "profile")
    id_claim: str = "sub"
    """What a reviewer is called here. Rules such as `never the requester` compare it with the ids of principals."""
    tenant_claim: str | None = None
    """None: all are of the tenant `local`."""
    roles_claim: str | None = None
    roles_map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Their role -> ours. Empty: they are called the same; else others are none of ours."""
    allowed_tenants: tuple[str, ...] = ()
    """Empty: all that the provider names."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom the provider vouches for."""

    id: str
    tenant: str
    roles: frozenset[str]


def person_of(claims: Mapping[str, Any], told: OidcSettings) -> Person:
    """The person of whom the claims speak.

    Raises: NotLetIn.
    """
    name = _text(claims, told.id_claim)
    if told.id_claim == "email" and claims.get("email_verified") is not True:
        raise NotLetIn("the provider has not verified your e-mail address")
    if name.startswith("local:"):
        raise NotLetIn("a name that begins with `local:` is for users of the gateway's own machine")
    tenant = "local" if told.tenant_claim is None else _text(claims, told.tenant_claim)
    if told.allowed_tenants and tenant not in told.allowed_tenants:
        raise NotLetIn("people of your organisation do not review here")
    roles = _roles(claims, told)
    if not roles and not told.allowed_tenants:
        raise NotLetIn("you have no role here: ask whoever runs this gateway for one")
    return Person(name, tenant, roles)


def _text(claims: Mapping[str, Any], name: str) -> str:
    found = _claim(claims, name)
    if not isinstance(found, str) or not found.strip() or len(found) > MAX_CHARS or not found.isprintable():
        raise NotLetIn(f"the provider does not say your `{name}`")
    return found


def _roles(claims: Mapping[str, Any], told: OidcSettings) -> frozenset[str]:
    found = None if told.roles_claim is None else _claim(claims, told.roles_claim)
    listed = found.split() if isinstance(found, str) else found if isinstance(found, list) else []
    theirs = [one for one in listed[:MAX_ROLES] if isinstance(one, str) and one and len(one) <= MAX_CHARS]
    if not told.roles_map:
        return frozenset(theirs)
    return frozenset(ours for one in theirs for ours in told.roles_map.get(one, ()))


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """A claim by its name, which may be an address with dots, else by the steps to it: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for step in name.split("."):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def is_safe(url: str) -> bool:
    """Whether nobody on the way can read or change what is said there: TLS, or this very machine."""
    try:
        parsed = urlsplit(url)
        host, _ = parsed.hostname or "", parsed.port
        local = host == "localhost" or (bool(host) and _is_loopback(host))
    except ValueError:
        return False
    return bool(host) and parsed.username is None and (parsed.scheme == "https" or (parsed.scheme == "http" and local))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
