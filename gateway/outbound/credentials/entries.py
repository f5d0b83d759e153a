"""`auth` of an upstream in a configuration: its shape, and what does not fit together in it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl, urlsplit

from pydantic import Field, SecretStr

from gateway.model.flaws import Place, parts
from gateway.outbound.addresses import is_local, is_safe
from gateway.outbound.credentials.consent_flow import ASKED
from gateway.outbound.credentials.endpoint import SCOPE, OAuthClient
from gateway.outbound.file_models import FilePart
from gateway.outbound.yaml_files import Document, Problem

EXPANDED = (
    *("token_url", "client_id", "client_secret", "scope", "audience", "resource"),
    *("authorization_url", "issuer", "revocation_url"),
)
"""Where references are replaced."""

_SECTIONS = ("upstreams", "mcpServers")
_NOBODY = (
    "tokens are exchanged on behalf of whoever comes in with an access token, and nobody does here: say `agents: "
    "{oauth: …}`"
)


_CONSENT_KEYS = ("authorization_url", "issuer", "revocation_url")
_NO_CONSOLE = "people agree in the console, and it is switched off here: `console: {enabled: false}`"
_NO_URL = (
    "people come back from the provider to one exact address: say by which name browsers reach the console, `console: "
    "{url: …}`"
)
_NO_KEY = "what people agree to is kept encrypted: say with which key, `data: {encryption: {key: …}}`"

_Kind: TypeAlias = Literal["client_credentials", "token_exchange", "authorization_code"]


@dataclass(frozen=True, slots=True)
class Auth:
    """How tokens for an upstream are asked for."""

    kind: _Kind
    client: OAuthClient
    authorization_url: str = ""
    """Where people agree; of an `authorization_code`."""
    issuer: str | None = None
    """What the provider calls itself in its answers; None: it need not."""
    revocation_url: str | None = None
    """Where it is told that a token is to be void; None: nowhere."""


class AuthEntry(FilePart):
    """The section."""

    type: _Kind
    authorization_url: str | None = None
    token_url: str
    revocation_url: str | None = None
    issuer: str | None = None
    client_id: str = Field(min_length=1)
    client_secret: str | None = Field(default=None, min_length=1)
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None
    client_auth: Literal["basic", "post"] = "basic"

    def settings(self, text: Callable[[str], str]) -> Auth:
        """The settings. `text` gives what stands at a key, with references replaced."""
        client = OAuthClient(
            token_url=text("token_url"),
            client_id=text("client_id"),
            client_secret=None if self.client_secret is None else SecretStr(text("client_secret")),
            scope=None if self.scope is None else text("scope"),
            audience=None if self.audience is None else text("audience"),
            resource=None if self.resource is None else text("resource"),
            client_auth=self.client_auth,
        )
        return Auth(
            self.type,
            client,
            authorization_url="" if self.authorization_url is None else text("authorization_url"),
            issuer=None if self.issuer is None else text("issuer"),
            revocation_url=None if self.revocation_url is None else text("revocation_url"),
        )


def auth_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in these sections and around them."""
    agents = document.value.get("agents")
    oauth = isinstance(agents, Mapping) and agents.get("oauth") is not None
    for section in _SECTIONS:
        for place, entry in parts(document.value, (section, "*")):
            auth = entry.get("auth") if isinstance(entry, Mapping) else None
            if not isinstance(auth, Mapping):
                continue
            headers = entry.get("headers")
            for name in headers if isinstance(headers, Mapping) else ():
                if name.lower() == "authorization":
                    yield document.problem((*place, "headers", name), f"`{name}` is what `auth` says", at_key=True)
            if auth.get("type") == "token_exchange" and not oauth:
                yield document.problem((*place, "auth"), _NOBODY, at_key=True)
            yield from _consent_problems(document, (*place, "auth"), auth)


def _consent_problems(document: Document, place: Place, auth: Mapping[str, Any]) -> Iterator[Problem]:
    """One for each thing that an `authorization_code` lacks; and what is for it alone."""
    if auth.get("type") != "authorization_code":
        if auth.get("type") in {"client_credentials", "token_exchange"} and "client_secret" not in auth:
            yield document.problem(place, "the key `client_secret` is missing", at_key=True)
        for name in _CONSENT_KEYS:
            if name in auth:
                yield document.problem((*place, name), f"`{name}` is for `type: authorization_code`", at_key=True)
        return
    if "authorization_url" not in auth:
        yield document.problem(place, "the key `authorization_url` is missing: where people agree", at_key=True)
    if _at(document, "console", "enabled") is False:
        yield document.problem(place, _NO_CONSOLE, at_key=True)
    host = _at(document, "listen", "host")
    from_afar = isinstance(host, str) and not is_local(host) and _at(document, "agents", "url") is not None
    if _at(document, "console", "url") is None and not from_afar:
        yield document.problem(place, _NO_URL, at_key=True)
    if _at(document, "data", "encryption", "key") is None:
        yield document.problem(place, _NO_KEY, at_key=True)


def _at(document: Document, *keys: str) -> Any:
    found: Any = document.value
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def unfit_auth(place: Place, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    if len(place) < 2 or place[0] not in _SECTIONS or place[-2] != "auth":  # noqa: PLR2004 - a key of `auth`
        return None
    match place[-1]:
        case "token_url" | "revocation_url" if not is_safe(text):
            return "secrets are sent there: it must be https://, or http:// on this machine, without a password in it"
        case "authorization_url" if not is_safe(text) or "#" in text:
            return "people are sent there: it must be https://, or http:// on this machine, without a `#` in it"
        case "authorization_url" if ours := [name for name, _ in parse_qsl(urlsplit(text).query) if name in ASKED]:
            return f"its query says `{ours[0]}`, and so does the gateway: leave that out"
        case "issuer" if not is_safe(text):
            return "what a provider calls itself is an address, https:// or http:// on this machine (RFC 9207)"
        case "scope" if not SCOPE.fullmatch(text):
            return "scopes are words with one space between them"
        case _:
            return None
