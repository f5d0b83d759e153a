"""`console` of a configuration: its shape, what does not fit together in it, and the settings that it is."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, SecretStr

from gateway.model.flaws import Place as Where
from gateway.outbound.addresses import is_safe
from gateway.outbound.file_models import FilePart
from gateway.outbound.oidc.people import OidcSettings
from gateway.outbound.yaml_files import Document, Problem

EXPANDED: tuple[Where, ...] = (
    ("console", "url"),
    *(("console", "oidc", key) for key in ("issuer", "client_id", "client_secret")),
)
"""Where references are replaced."""

_Word = Annotated[str, Field(min_length=1, max_length=256)]


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """How reviewers come in, at `/console`."""

    enabled: bool = True
    url: str | None = None
    """By which browsers reach us, scheme and authority; None: the address at which we listen."""
    local_roles: tuple[str, ...] = ()
    """Of the reviewer whose account the gateway runs under, beside `owner`."""
    idle_s: float | None = None
    """After which a session that nobody used is over; None: as is usual."""
    longest_s: float | None = None
    """After which every session is over; None: as is usual."""
    oidc: OidcSettings | None = None


class OidcEntry(FilePart):
    """A provider at which reviewers sign in."""

    issuer: str
    client_id: _Word
    client_secret: str | None = None
    scopes: tuple[_Word, ...] = ("openid", "profile")
    id_claim: _Word = "sub"
    tenant_claim: _Word | None = None
    roles_claim: _Word | None = None
    roles_map: dict[str, tuple[_Word, ...]] = Field(default={})
    allowed_tenants: tuple[_Word, ...] = ()
    anybody_connects: bool = False

    def settings(self, text: Callable[[str], str]) -> OidcSettings:
        """The settings. `text` gives what stands at a key, with references replaced."""
        return OidcSettings(
            issuer=text("issuer"),
            client_id=text("client_id"),
            client_secret=None if self.client_secret is None else SecretStr(text("client_secret")),
            scopes=self.scopes,
            id_claim=self.id_claim,
            tenant_claim=self.tenant_claim,
            roles_claim=self.roles_claim,
            roles_map=self.roles_map,
            allowed_tenants=self.allowed_tenants,
            anybody_connects=self.anybody_connects,
        )


class SessionsEntry(FilePart):
    """How long reviewers stay signed in."""

    idle_s: float | None = Field(default=None, ge=60, le=30 * 86_400)
    longest_s: float | None = Field(default=None, ge=60, le=30 * 86_400)


class ConsoleEntry(FilePart):
    """How reviewers come in."""

    enabled: bool = True
    url: str | None = None
    local_roles: tuple[_Word, ...] = ()
    sessions: SessionsEntry = SessionsEntry()
    oidc: OidcEntry | None = None

    def settings(self, text: Callable[..., str]) -> ConsoleSettings:
        """The settings, as `OidcEntry.settings`."""
        return ConsoleSettings(
            enabled=self.enabled,
            url=None if self.url is None else text("url").rstrip("/"),
            local_roles=self.local_roles,
            idle_s=self.sessions.idle_s,
            longest_s=self.sessions.longest_s,
            oidc=None if self.oidc is None else self.oidc.settings(lambda key: text("oidc", key)),
        )


def console_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the section."""
    said = document.value.get("console")
    oidc = said.get("oidc") if isinstance(said, Mapping) else None
    if not isinstance(oidc, Mapping):
        return
    where: Where = ("console", "oidc")
    secret = oidc.get("client_secret")
    if isinstance(secret, str) and "${" not in secret:
        yield document.problem((*where, "client_secret"), "a secret is not written here but referred to: `${NAME}`")
    if oidc.get("roles_map") and "roles_claim" not in oidc:
        yield document.problem((*where, "roles_map"), "`roles_map` is for what `roles_claim` names", at_key=True)
    if oidc.get("allowed_tenants") and "tenant_claim" not in oidc:
        yield document.problem(
            (*where, "allowed_tenants"), "`allowed_tenants` is for what `tenant_claim` names", at_key=True
        )
    if not oidc.get("allowed_tenants") and "roles_claim" not in oidc:
        yield document.problem(
            where,
            "say who may review: `tenant_claim` with `allowed_tenants`, or `roles_claim`; not all that it knows",
            at_key=True,
        )


def unfit_url(text: str) -> str | None:
    """Why browsers cannot be sent there, or None."""
    fits = is_safe(text) and not any(urlsplit(text.rstrip("/"))[2:])
    return None if fits else "`https://` and a host is wanted, and no path; `http://` only on this machine"


def unfit_console(where: Where, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    match where:
        case ("console", "url"):
            return unfit_url(text)
        case ("console", "oidc", "issuer"):
            fits = is_safe(text) and not any(urlsplit(text)[3:])
            return None if fits else "an address that begins with `https://` is wanted; `http://` only on this machine"
        case ("console", "oidc", "client_secret" | "client_id"):
            return None if text.strip() else "it is empty"
        case _:
            return None
