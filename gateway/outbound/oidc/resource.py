"""A provider whose access tokens agents show: which tokens are for us, and what their claims mean here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import SecretStr

from gateway.model.principal import Principal
from gateway.outbound.oidc.claims import NotLetIn, name_of, roles_of, tenant_of, words_of


@dataclass(frozen=True, slots=True)
class Introspected:
    """Where tokens are asked about that say nothing by themselves [RFC 7662]."""

    url: str
    client_id: str
    client_secret: SecretStr


@dataclass(frozen=True, slots=True)
class Claims:
    """Which claims say what. Names are as in `claim_of`."""

    principal: str = "sub"
    tenant: str | None = None
    """None: all are of the tenant `local`."""
    roles: str | None = None
    scopes: str = "scope"


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """One authorization server."""

    issuer: str
    audience: str | None = None
    """What tokens must be meant for; None: our own address for agents [RFC 8707]."""
    keys: Literal["auto", "none"] | str = "auto"  # noqa: PYI051 - the words are for the reader
    """Where its public keys are; `auto`: where its metadata says; `none`: all tokens are asked about."""
    introspection: Introspected | None = None
    claims: Claims = Claims()
    roles_map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Their role -> ours. Empty: they are called the same; else others are none of ours."""
    tenants: tuple[str, ...] = ()
    """That may come in; empty: all that the server names."""
    clients: tuple[str, ...] = ()
    """Of the authorization server, to which a token must have been given; empty: any."""
    required_scopes: tuple[str, ...] = ()
    step_up: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pattern of tools' names -> the scopes that a token needs for a call of those, beside the required ones."""


def check_client(claims: Mapping[str, Any], told: ResourceSettings) -> None:
    """The token was given to a client that may come, and is not bound to a key of whose possession nothing was shown.

    Raises: NotLetIn.
    """
    if claims.get("cnf") is not None:  # [RFC 7800]: whoever merely holds it need not be whom it was given to
        raise NotLetIn("the access token is bound to a key, and this gateway asks for no proof of one")
    given = [claims[name] for name in ("azp", "client_id") if claims.get(name) is not None]
    if told.clients and not (given and all(one in told.clients for one in given)):
        raise NotLetIn("the access token was given to a client that may not come in here")


def principal_of(claims: Mapping[str, Any], told: ResourceSettings) -> Principal:
    """Of whom the claims of an access token speak.

    Raises: NotLetIn.
    """
    says = told.claims
    name = name_of(claims, says.principal)
    if name == "anonymous":
        raise NotLetIn("nobody who shows a token can be called `anonymous`")
    tenant = tenant_of(claims, says.tenant, told.tenants)
    if told.tenants and tenant not in told.tenants:
        raise NotLetIn("agents of your organisation may not come in here")
    roles = roles_of(claims, says.roles, told.roles_map)
    return Principal(name, tenant, roles, frozenset(words_of(claims, says.scopes)))
