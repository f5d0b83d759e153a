"""`auth` of an upstream in a configuration: its shape, and what does not fit together in it."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import Field, SecretStr

from gateway.model.flaws import Place, parts
from gateway.outbound.addresses import is_safe
from gateway.outbound.credentials.endpoint import OAuthClient
from gateway.outbound.file_models import FilePart
from gateway.outbound.yaml_files import Document, Problem

EXPANDED = ("token_url", "client_id", "client_secret", "scope", "audience", "resource")
"""Where references are replaced."""

_SECTIONS = ("upstreams", "mcpServers")
_SCOPE = re.compile(r"[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")
"""[RFC 6749, 3.3]."""

_NOBODY = (
    "tokens are exchanged on behalf of whoever comes in with an access token, and nobody does here: say `agents: "
    "{oauth: …}`"
)


@dataclass(frozen=True, slots=True)
class Auth:
    """How tokens for an upstream are asked for."""

    kind: Literal["client_credentials", "token_exchange"]
    client: OAuthClient


class AuthEntry(FilePart):
    """The section."""

    type: Literal["client_credentials", "token_exchange"]
    token_url: str
    client_id: str = Field(min_length=1)
    client_secret: str = Field(min_length=1)
    scope: str | None = None
    audience: str | None = None
    resource: str | None = None
    client_auth: Literal["basic", "post"] = "basic"

    def settings(self, text: Callable[[str], str]) -> Auth:
        """The settings. `text` gives what stands at a key, with references replaced."""
        client = OAuthClient(
            token_url=text("token_url"),
            client_id=text("client_id"),
            client_secret=SecretStr(text("client_secret")),
            scope=None if self.scope is None else text("scope"),
            audience=None if self.audience is None else text("audience"),
            resource=None if self.resource is None else text("resource"),
            client_auth=self.client_auth,
        )
        return Auth(self.type, client)


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


def unfit_auth(place: Place, text: str) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    if len(place) < 2 or place[0] not in _SECTIONS or place[-2] != "auth":  # noqa: PLR2004 - a key of `auth`
        return None
    match place[-1]:
        case "token_url" if not is_safe(text):
            return "secrets are sent there: it must be https://, or http:// on this machine, without a password in it"
        case "scope" if not _SCOPE.fullmatch(text):
            return "scopes are words with one space between them"
        case _:
            return None
