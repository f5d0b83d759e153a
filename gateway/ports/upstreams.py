"""Servers, and places at which verifiers look."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.model.party import Party
from gateway.model.policy import Way
from gateway.model.tool import Answer, Tool
from gateway.ports.callers import Caller


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One call on its way out."""

    tool: Tool
    arguments: Mapping[str, Any]
    timeout_s: float
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The client's `_meta`, our keys taken out and the idempotency key put in."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra headers for HTTP upstreams."""
    late: Callable[[Answer], None] | None = None
    """Called at most once, on the event loop, if an answer comes after `Silence` was returned for a timeout."""
    caller: Caller | None = None
    """Whose call it is; None for the gateway's own (verifiers, recovery)."""
    heed_loss: bool = False
    """Whether a caller who is gone without having cancelled (`Withdrawal.gone` without `said`) ends the call too:
    so for reads. A write that was begun is finished and recorded."""
    left_s: Callable[[], float] | None = None
    """How long it may still take, in seconds, whatever has held us up since it was decided; from 0 on not a byte of it
    may be sent: others may have settled by then that it never was."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further params of a next round: `inputResponses`, `requestState` [MCP 2026-07-28]."""


@dataclass(frozen=True, slots=True)
class Sending:
    """One request on its way to an upstream, for whoever observes it."""

    method: str
    target: str | None
    """The tool or prompt that it names, as the upstream knows it."""
    upstream: str
    request_id: int
    version: str
    """The protocol version that it is sent under."""
    address: tuple[str, int] | None
    """Host and port; None over stdio."""


class Observed(Protocol):
    """One request, while it is under way."""

    carrier: Mapping[str, str]
    """Trace context, for `_meta` and for HTTP headers."""

    def answered(self, answer: Answer) -> None:
        """What came of it."""
        ...


Observing = Callable[[Sending], AbstractContextManager[Observed]]
"""Entered around each request that goes to an upstream for somebody: a client, a verifier, recovery."""


class Upstreams(Protocol):
    """The real MCP servers behind us."""

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:
        """The tool of that exact name, from the cached lists; None if no upstream offers it.

        `party` is whose lists: a server of the older era may show each client others. None: the gateway's own.
        """
        ...

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:
        """All tools that are offered or withheld, from the cached lists, those of servers that are down included; and
        whether that is all, every upstream being there. `party` as in `tool`.
        """
        ...

    async def call(self, dispatch: Dispatch) -> Answer:
        """What came of one call, within `timeout_s`, not counting the time in which the client was asked something.

        Never raises for what the upstream does, never re-sends. `InputRequired` only for a caller who is modern, or
        if there is none: for a legacy client the rounds are driven here.
        """
        ...


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a place, as a verifier asks for it."""

    way: Way
    told: Mapping[str, Any]
    """What its formulas tell, by what it is for: `path`, `query`, `json`, `parameters`."""
    timeout_s: float


class Looks(Protocol):
    """The places at which verifiers look, beside the tools of upstreams."""

    def trouble(self, way: Way) -> str | None:
        """Why this gateway cannot look in this way, in half a sentence; None if it can."""
        ...

    async def look(self, asked: Look) -> Answer:
        """What is there, as `ToolResult` with a value of the shape that belongs to the way; `NotSent` or `Silence`,
        with the reason, where that cannot be found out within `timeout_s`.

        Never raises for what is there, never changes it, and never says anything secret.
        """
        ...
