"""`agents` of a configuration: its shape, what does not fit together in it, and the settings that it is."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr

from gateway.model.flaws import Place as Where
from gateway.model.principal import Principal
from gateway.outbound.addresses import is_safe
from gateway.outbound.agent_keys import key_problems
from gateway.outbound.console_entries import unfit_url
from gateway.outbound.file_models import FilePart
from gateway.outbound.oidc.resource import Claims, Introspected, ResourceSettings
from gateway.outbound.proxies import ProxySettings
from gateway.outbound.yaml_files import Document, Problem

EXPANDED: tuple[Where, ...] = (
    ("agents", "url"),
    ("agents", "keys"),
    *(("agents", "oauth", key) for key in ("issuer", "audience", "jwks")),
    *(("agents", "oauth", "introspection", key) for key in ("url", "client_id", "client_secret")),
)
"""Where references are replaced."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_TAKEN = frozenset({"authorization", "cookie", "host", "origin", "counterfoil-run", "mcp-session-id"})
_SCOPE = r"^[!#-\[\]-~]+$"
PATTERNS: Mapping[str, str] = {_SCOPE: "a scope without spaces, quotes and backslashes"}
"""[RFC 6749, 3.3]."""

_Word = Annotated[str, Field(min_length=1, max_length=256)]
_Scope = Annotated[str, Field(max_length=256, pattern=_SCOPE)]


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """How agents come in over HTTP. A run token always lets its bearer in."""

    url: str | None = None
    """By which agents reach us, scheme and authority; None: the address at which we listen."""
    anonymous: bool = True
    """Whether who is on this machine comes in without a credential."""
    keys: Path | None = None
    oauth: ResourceSettings | None = None
    mtls: ProxySettings | None = None


class ClaimsEntry(FilePart):
    """Which claims say what; steps are joined by dots."""

    principal: _Word = "sub"
    tenant: _Word | None = None
    roles: _Word | None = None
    scopes: _Word = "scope"


class IntrospectionEntry(FilePart):
    """Where the authorization server is asked about tokens that are not signed."""

    url: str
    client_id: _Word
    client_secret: str


class OauthEntry(FilePart):
    """The authorization server whose access tokens agents show."""

    issuer: str
    audience: _Word | None = None
    jwks: _Word = "auto"
    introspection: IntrospectionEntry | None = None
    claims: ClaimsEntry = ClaimsEntry()
    roles_map: dict[str, tuple[_Word, ...]] = Field(default={})
    tenants: tuple[_Word, ...] = ()
    clients: tuple[_Word, ...] = ()
    required_scopes: tuple[_Scope, ...] = ()
    step_up: dict[_Word, tuple[_Scope, ...]] = Field(default={})

    def settings(self, text: Callable[..., str]) -> ResourceSettings:
        """The settings. `text` gives what stands at the keys, with references replaced."""
        asked = self.introspection
        return ResourceSettings(
            issuer=text("issuer"),
            audience=None if self.audience is None else text("audience"),
            keys=text("jwks") if self.jwks not in {"auto", "none"} else self.jwks,
            introspection=None if asked is None else _introspected(lambda key: text("introspection", key)),
            claims=Claims(**self.claims.model_dump()),
            roles_map=self.roles_map,
            tenants=self.tenants,
            clients=self.clients,
            required_scopes=self.required_scopes,
            step_up=self.step_up,
        )


class SubjectEntry(FilePart):
    """Who a certificate's subject is here."""

    principal: _Word
    tenant: _Word = "local"
    roles: tuple[_Word, ...] = ()
    scopes: tuple[_Scope, ...] = ()


class MtlsEntry(FilePart):
    """Proxies that check client certificates, and the header in which they say whose it was."""

    header: _Word
    trusted_proxies: tuple[_Word, ...] = Field(min_length=1)
    subjects: dict[_Word, SubjectEntry] = Field(min_length=1)

    def settings(self) -> ProxySettings:
        """The settings."""
        subjects = {
            subject: Principal(one.principal, one.tenant, frozenset(one.roles), frozenset(one.scopes))
            for subject, one in self.subjects.items()
        }
        return ProxySettings(self.header.lower(), tuple(map(ipaddress.ip_network, self.trusted_proxies)), subjects)


class AgentsEntry(FilePart):
    """How agents come in over HTTP."""

    url: str | None = None
    anonymous: Literal["loopback", "never"] | None = None
    keys: str | None = None
    oauth: OauthEntry | None = None
    mtls: MtlsEntry | None = None

    def settings(self, text: Callable[..., str], folder: Path, *, local: bool) -> AgentSettings:
        """The settings, as of `OauthEntry`; `local`: only this machine reaches the address at which we listen."""
        somebody = (self.keys, self.oauth, self.mtls) != (None, None, None)
        by_default = "never" if somebody else "loopback"
        return AgentSettings(
            url=None if self.url is None else text("url").rstrip("/"),
            anonymous=local and (self.anonymous or by_default) == "loopback",
            keys=None if self.keys is None else folder / text("keys"),
            oauth=None if self.oauth is None else self.oauth.settings(lambda *keys: text("oauth", *keys)),
            mtls=None if self.mtls is None else self.mtls.settings(),
        )


def _introspected(text: Callable[[str], str]) -> Introspected:
    return Introspected(text("url"), text("client_id"), SecretStr(text("client_secret")))


# --- what is wrong ----------------------------------------------------------------------------------------------------


def agent_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the section."""
    said = _part(document.value, "agents")
    yield from _oauth_problems(document, _part(said, "oauth"))
    yield from _mtls_problems(document, _part(said, "mtls"))


def _part(value: Any, key: str) -> Mapping[str, Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _oauth_problems(document: Document, oauth: Mapping[str, Any]) -> Iterator[Problem]:
    where: Where = ("agents", "oauth")
    asked = _part(oauth, "introspection")
    secret = asked.get("client_secret")
    if isinstance(secret, str) and "${" not in secret:
        place = (*where, "introspection", "client_secret")
        yield document.problem(place, "a secret is not written here but referred to: `${NAME}`")
    if oauth.get("jwks") == "none" and not asked:
        yield document.problem(
            (*where, "jwks"), "with `none` every token is asked about: say where, in `introspection`"
        )
    claims = _part(oauth, "claims")
    for key, claim in (("roles_map", "roles"), ("tenants", "tenant")):
        if oauth.get(key) and claim not in claims:
            yield document.problem((*where, key), f"`{key}` is for what `claims.{claim}` names", at_key=True)


def _mtls_problems(document: Document, mtls: Mapping[str, Any]) -> Iterator[Problem]:
    where: Where = ("agents", "mtls")
    header, proxies = mtls.get("header"), mtls.get("trusted_proxies")
    if isinstance(header, str) and (not _HEADER.fullmatch(header) or header.lower() in _TAKEN):
        yield document.problem((*where, "header"), "the name of a header that only the proxy sets is wanted")
    for subject, entry in _part(mtls, "subjects").items():
        if isinstance(entry, Mapping) and entry.get("principal") == "anonymous":
            named = (*where, "subjects", subject, "principal")
            yield document.problem(named, "whoever shows a certificate is not `anonymous`")
    for place, text in enumerate(proxies if isinstance(proxies, list) else ()):
        if isinstance(text, str) and not _is_network(text):
            message = "an address or a network is wanted, such as `10.0.0.7` or `10.0.0.0/24`, and not all there are"
            yield document.problem((*where, "trusted_proxies", place), message)


def _is_network(text: str) -> bool:
    try:
        return ipaddress.ip_network(text).prefixlen > 0
    except ValueError:
        return False


def unfit_agents(where: Where, text: str, folder: Path) -> str | None:
    """Why the value cannot be used, or None. Says nothing of a value that may be a secret."""
    match where:
        case ("agents", "url"):
            return unfit_url(text)
        case ("agents", "keys"):
            problems = key_problems(folder / text)
            return f"the keys in that file cannot be used: {problems[0]}" if problems else None
        case ("agents", "oauth", "jwks") if text in {"auto", "none"}:
            return None
        case ("agents", "oauth", "issuer") | ("agents", "oauth", "jwks") | ("agents", "oauth", "introspection", "url"):
            fits = is_safe(text)
            return None if fits else "an address that begins with `https://` is wanted; `http://` only on this machine"
        case ("agents", "oauth", "audience") | ("agents", "oauth", "introspection", _):
            return None if text.strip() else "it is empty"
        case _:
            return None
