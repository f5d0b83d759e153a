"""Verified claims -> a person here, or why not. Which claims say what is settings' to say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import SecretStr

from gateway.outbound.oidc.claims import NotLetIn, name_of, roles_of, tenant_of


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
    anybody_connects: bool = False
    """Whether who has no role comes in all the same, to connect accounts of their own and for nothing else."""


@dataclass(frozen=True, slots=True)
class Person:
    """Whom the provider vouches for."""

    id: str
    tenant: str
    roles: frozenset[str]
    reviews: bool = True
    """Whether they see more than what is their own."""


def person_of(claims: Mapping[str, Any], told: OidcSettings) -> Person:
    """The person of whom the claims speak.

    Raises: NotLetIn.
    """
    name = name_of(claims, told.id_claim)
    tenant = tenant_of(claims, told.tenant_claim, told.allowed_tenants)
    if told.allowed_tenants and tenant not in told.allowed_tenants:
        raise NotLetIn("people of your organisation do not review here")
    roles = roles_of(claims, told.roles_claim, told.roles_map)
    reviews = bool(roles or told.allowed_tenants)
    if not reviews and not told.anybody_connects:
        raise NotLetIn("you have no role here: ask whoever runs this gateway for one")
    return Person(name, tenant, roles, reviews)
