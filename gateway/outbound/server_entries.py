"""`upstreams` and `mcpServers` of a configuration: their shape, and what does not fit together in them.

`mcpServers` is taken as clients write it. Keys that would be felt if they were not obeyed are obeyed (`disabled`)
or refused; those about a client's own prompts and patience are without effect here, where policy decides.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr

from gateway.model.flaws import Place, parts
from gateway.outbound.credentials.entries import AuthEntry
from gateway.outbound.described import HttpUpstream, StdioUpstream, Timeouts, Upstream
from gateway.outbound.file_models import FilePart, did_you_mean
from gateway.outbound.yaml_files import Document, Problem

SECTIONS = ("upstreams", "mcpServers")
ADDRESSES = ("url", "httpUrl", "serverUrl")
"""How the clients call the address of a server."""

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
"""No underscore, so that `server__tool` can be taken apart in one way only."""

NOT_OBEYED: Mapping[str, str] = {
    "includeTools": "which tools may be used is for the policy to say",
    "excludeTools": "which tools may be used is for the policy to say",
    "envFile": "this file is not read; name its variables under `env`",
}
"""Keys that would be missed if they were passed over, and what is said of them."""

STDIO_TYPES = ("stdio",)
HTTP_TYPES = ("http", "streamable-http", "streamableHttp")
SSE_TYPES = ("sse",)
"""HTTP with server-sent events, the transport of 2024."""


class TimeoutsEntry(FilePart):
    """How long a server may take for what is no tool call."""

    start_s: float | None = Field(default=None, gt=0, le=3600)
    connect_s: float | None = Field(default=None, gt=0, le=3600)


class UpstreamEntry(FilePart):
    """A server that is started by `command`, or reached at `url`."""

    command: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default={})
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] = Field(default={})
    type: str | None = None
    auth: AuthEntry | None = None
    timeouts: TimeoutsEntry = TimeoutsEntry()
    ask_secrets: bool = False

    @property
    def off(self) -> bool:
        """It is there, and is not to be used."""
        return False

    @property
    def address(self) -> str | None:
        """The key under which its address stands."""
        fields = self.model_dump(by_alias=True)
        return next((key for key in ADDRESSES if fields.get(key) is not None), None)

    def upstream(self, name: str, shown: str, text: Callable[..., str], folder: Path) -> Upstream:
        """The server. `text` gives what stands at these keys, with references replaced; `shown` is its address as it
        is written.
        """
        timeouts = Timeouts(self.timeouts.start_s, self.timeouts.connect_s)
        address = self.address
        if address is not None:
            headers = {key: SecretStr(text("headers", key)) for key in self.headers}
            auth = None if self.auth is None else self.auth.settings(lambda key: text("auth", key))
            return HttpUpstream(
                name, shown, text(address), headers, timeouts, _transport(self.type), self.ask_secrets, auth
            )
        return StdioUpstream(
            name=name,
            shown=" ".join([self.command or "", *self.args]),
            command=text("command"),
            args=tuple(text("args", index) for index in range(len(self.args))),
            env={key: SecretStr(text("env", key)) for key in self.env},
            cwd=None if self.cwd is None else folder / text("cwd"),
            timeouts=timeouts,
            ask_secrets=self.ask_secrets,
        )


class McpServerEntry(UpstreamEntry):
    """The same as clients write it."""

    http_url: str | None = Field(default=None, alias="httpUrl")
    server_url: str | None = Field(default=None, alias="serverUrl")
    disabled: bool = False
    enabled: bool = True
    always_allow: Any = Field(default=None, alias="alwaysAllow")
    auto_approve: Any = Field(default=None, alias="autoApprove")
    timeout: Any = None
    trust: Any = None
    description: Any = None
    include_tools: Any = Field(default=None, alias="includeTools")
    exclude_tools: Any = Field(default=None, alias="excludeTools")
    env_file: Any = Field(default=None, alias="envFile")

    @property
    def off(self) -> bool:
        """Whoever wrote it has switched it off for every client."""
        return self.disabled or not self.enabled


def in_use(document: Document) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    """Every server of the file that is not switched off, whatever else is wrong with it."""
    for section in SECTIONS:
        for place, entry in parts(document.value, (section, "*")):
            if isinstance(entry, Mapping) and entry.get("disabled") is not True and entry.get("enabled") is not False:
                yield place, entry


def entry_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the servers of the file."""
    seen: set[str] = set()
    for place, entry in in_use(document):
        name = str(place[-1])
        if not NAME.fullmatch(name):
            yield document.problem(place, _misnamed(name), at_key=True)
        if name in seen:
            yield document.problem(place, f"another upstream is named `{name}`", at_key=True)
        seen.add(name)
        yield from _odd(document, place, entry)
        yield from (document.problem((*place, key), NOT_OBEYED[key], at_key=True) for key in NOT_OBEYED if key in entry)
    given = [found for section in SECTIONS for found in parts(document.value, (section, "*"))]
    if not given:
        yield document.problem((), "no upstream is given; name one under `upstreams` or `mcpServers`")
    elif not seen and all(isinstance(entry, Mapping) for _, entry in given):
        yield document.problem(given[0][0][:1], "every upstream is switched off", at_key=True)


def _misnamed(name: str) -> str:
    better = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:32].rstrip("-")
    hint = f" (did you mean `{better}`?)" if better else ""
    return f"`{name[:64]}` begins the names of tools, so it may only hold a-z, 0-9 and `-`, at most 32 of them{hint}"


def _odd(document: Document, place: Place, entry: Mapping[str, Any]) -> Iterator[Problem]:
    addresses = [key for key in ADDRESSES if key in entry]
    ways = ["command", *addresses] if "command" in entry else addresses
    if not ways:
        yield document.problem(place, "say `command`, to start a server, or `url`, to reach one", at_key=True)
        return
    for other in ways[1:]:
        yield document.problem((*place, other), f"`{other}` and `{ways[0]}` exclude each other", at_key=True)
    useless = (
        {"headers": "url", "auth": "url"} if ways[0] == "command" else dict.fromkeys(("args", "env", "cwd"), "command")
    )
    for key, wanted in useless.items():
        if key in entry:
            yield document.problem((*place, key), f"`{key}` is only for a server with a `{wanted}`", at_key=True)
    if isinstance(entry.get("type"), str):
        yield from _type(document, (*place, "type"), entry["type"], started=ways[0] == "command")


def _type(document: Document, place: Place, kind: str, *, started: bool) -> Iterator[Problem]:
    known = STDIO_TYPES + HTTP_TYPES + SSE_TYPES
    if kind not in known:
        listed = ", ".join(f"`{name}`" for name in known)
        yield document.problem(place, f"one of {listed} is wanted, not `{kind[:64]}`{did_you_mean(kind, known)}")
    elif (kind in STDIO_TYPES) != started:
        wanted = "command" if kind in STDIO_TYPES else "url"
        yield document.problem(place, f"a server of the type `{kind}` has a `{wanted}`")


def _transport(told: str | None) -> Literal["http", "sse", "auto"]:
    if told is None:
        return "auto"
    return "sse" if told in SSE_TYPES else "http"
