"""Whom we go to, as the configuration names them, and how long we wait for them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from gateway.model.limits import DEFAULT
from gateway.outbound.addresses import is_safe
from gateway.outbound.credentials.credential import Credential
from gateway.outbound.unsaid import NOTHING, Unsaid
from gateway.outbound.upstream.naming import OURS


@dataclass(frozen=True, slots=True)
class Patience:
    """How long we wait, in seconds, and how much we take."""

    start_s: float = 30.0
    """From nothing to a list of tools. `npx` may have to fetch its package first."""
    probe_s: float = 3.0
    """For `server/discover` on stdio: a server of the older era may not answer at all."""
    connect_s: float = 10.0
    """For DNS, TCP and TLS together."""
    first_pause_s: float = 0.2
    """Before the next attempt after one that failed or did not last; doubled for each one after it."""
    last_pause_s: float = 30.0
    """The longest pause between restarts."""
    debounce_s: float = 0.2
    """A burst of `notifications/tools/list_changed` is one refresh."""
    ttl_s: float = 60.0
    """After which a list is read again if its upstream promised nothing about it."""
    least_ttl_s: float = 10.0
    """Servers that send `ttlMs: 0` (the SDK's default) are not asked before every call."""
    answer_bytes: int = DEFAULT.answer_bytes
    """Of one message; not time, but of the same kind: what we let a server take of us."""
    listed: int = DEFAULT.listed
    """Entries of one list."""


DEFAULT_PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class StdioSpec:
    """A server that we start, and talk to through its stdin and stdout. Never run through a shell."""

    name: str
    """The prefix of its tools where upstreams are federated: `[A-Za-z0-9_-]`, 32 at most."""
    command: str
    args: Sequence[str] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to the few safe variables that a child gets from us. May hold secrets, so it is never shown."""
    cwd: str | None = None
    """None: ours."""
    shown: str | None = None
    """The command as messages may show it; None: as it is. Expanded references may be secrets."""
    patience: Patience | None = None
    """None: that of the whole catalogue."""
    ask_secrets: bool = False
    """Whether its forms may ask a user for passwords, keys and codes."""
    unsaid: Unsaid = field(default=NOTHING, repr=False, compare=False)
    """What is in no reason why it cannot be used, whoever says it."""


@dataclass(frozen=True, slots=True)
class HttpSpec:
    """A server at an address. Redirects are not followed."""

    name: str
    """As in `StdioSpec`."""
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request. May hold credentials, so they are never shown."""
    patience: Patience | None = None
    """As in `StdioSpec`."""
    transport: Literal["http", "sse", "auto"] = "auto"
    """Streamable HTTP; HTTP+SSE of 2024-11-05; or the first, and the second where that is refused."""
    ask_secrets: bool = False
    """As in `StdioSpec`."""
    credential: Credential | None = field(default=None, repr=False, compare=False)
    """Gives the token that every request carries; None where the headers say all."""
    unsaid: Unsaid = field(default=NOTHING, repr=False, compare=False)
    """As in `StdioSpec`."""

    @property
    def personal(self) -> bool:
        """Whether no two principals may share a connection to it."""
        return self.credential is not None and self.credential.personal


Spec: TypeAlias = StdioSpec | HttpSpec

_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}")
_HEADER_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e]*")


def unsendable(headers: Mapping[str, str]) -> str | None:
    """The name of a header that HTTP cannot carry; None if there is none."""
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            return name
    return None


def check(specs: Sequence[Spec]) -> None:
    """Nothing is wrong with them.

    Raises: ValueError for specs that cannot be meant.
    """
    names = [spec.name for spec in specs]
    for spec in specs:
        if not _NAME.fullmatch(spec.name):
            raise ValueError(f"the upstream name `{spec.name}` is not 1 to 32 of A-Z a-z 0-9 _ -")
        if spec.name == OURS:
            raise ValueError(f"no upstream can be named `{OURS}`: it is the prefix of the gateway's own tools")
        if names.count(spec.name) > 1:
            raise ValueError(f"two upstreams are named `{spec.name}`")
        if isinstance(spec, HttpSpec):
            _check_http(spec)


def _check_http(spec: HttpSpec) -> None:
    address = urlsplit(spec.url)
    if address.scheme not in {"http", "https"} or not address.hostname:
        raise ValueError(f"the address of the upstream `{spec.name}` is not an http or https URL")
    if (bad := unsendable(spec.headers)) is not None:
        raise ValueError(f"the header `{bad}` of the upstream `{spec.name}` cannot be sent")
    if spec.credential is not None and not is_safe(spec.url):
        raise ValueError(
            f"the upstream `{spec.name}` gets access tokens, so its address must be https://, or on this machine"
        )
