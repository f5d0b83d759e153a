"""Servers as `gateway.yaml` describes them, with their references put in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import SecretStr

from gateway.outbound.credentials.entries import Auth


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an upstream may take for what is no tool call; None: as is usual."""

    start_s: float | None = None
    """From nothing to a list of tools."""
    connect_s: float | None = None
    """For DNS, TCP and TLS together."""


@dataclass(frozen=True, slots=True)
class StdioUpstream:
    """A server that we start. `args` and `env` may hold secrets."""

    name: str
    shown: str
    """The command line as the file writes it, references and all; for messages."""
    command: str = field(repr=False)
    args: tuple[str, ...] = field(repr=False)
    env: Mapping[str, SecretStr]
    cwd: Path | None = None
    timeouts: Timeouts = Timeouts()
    ask_secrets: bool = False
    """Whether its forms may ask a user for passwords, keys and codes."""


@dataclass(frozen=True, slots=True)
class HttpUpstream:
    """A server at an address, over streamable HTTP. `url` and `headers` may hold secrets."""

    name: str
    shown: str
    """The address as the file writes it, references and all; for messages."""
    url: str = field(repr=False)
    headers: Mapping[str, SecretStr]
    timeouts: Timeouts = Timeouts()
    transport: Literal["http", "sse", "auto"] = "auto"
    """Streamable HTTP, the transport of 2024, or whichever the server takes."""
    ask_secrets: bool = False
    """As in `StdioUpstream`."""
    auth: Auth | None = None
    """How tokens for it are asked for; None where it gets none."""


Upstream: TypeAlias = StdioUpstream | HttpUpstream
