"""Who waits for a call, and who listens to what servers say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.model.offer import Kind
from gateway.model.party import Party
from gateway.model.tool import Answer


@dataclass(slots=True, eq=False)
class Withdrawal:
    """Whether somebody still waits for the answer to a request."""

    said: bool = False
    """The client cancelled in so many words; `gone` alone is a lost connection, and proves no such wish."""
    gone: bool = False
    """Whatever is still answered counts as unread."""
    then: Callable[[], None] | None = None
    """Called once, on the event loop, when either comes true; set by whoever can stop what is under way."""

    def say(self, *, cancelled: bool) -> None:
        """Nobody waits any longer."""
        first = not self.gone
        self.said, self.gone = self.said or cancelled, True
        if first and self.then is not None:
            self.then()


class Caller(Protocol):
    """The client's side of one request, as long as the request is under way."""

    @property
    def party(self) -> Party:
        """Who asks, with what it declared on this request."""
        ...

    @property
    def modern(self) -> bool:
        """Whether the client speaks MCP 2026-07-28, in which nothing can be asked of it on its own connection."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least severe log level that it wants to hear of; None: it wants no logs."""
        ...

    @property
    def withdrawal(self) -> Withdrawal:
        """Whether it still waits."""
        ...

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification about this request, in order, before its answer. A progress token is put right here.

        Never raises and never waits; what cannot be sent is dropped.
        """
        ...

    async def ask(
        self, method: str, params: Mapping[str, Any], told: Callable[[str, Mapping[str, Any]], None] | None = None
    ) -> Answer:
        """What the client answers to a request of the upstream's (elicitation, sampling, roots): `ToolResult` with
        any complete result, `ProtocolError`, or `Silence` if no answer can come any more.

        `told` takes notifications of the client about it (progress). To cancel this coroutine is to withdraw the
        question.
        """
        ...

    def since(self) -> float | None:
        """Since when, in the event loop's time, it waits for us alone; None while we wait for its answer."""
        ...

    def pause(self, retry_ms: int | None) -> None:
        """The upstream ended its stream before the answer, to be asked for it again [MCP 2025-11-25, polling]: so
        may ours end, where the client can come back for the rest.
        """
        ...


class Listener(Protocol):
    """Who wants to hear what upstreams say outside any request: a legacy client, or an open `subscriptions/listen`."""

    @property
    def party(self) -> Party:
        """Whose connections it listens to."""
        ...

    def changed(self, kind: Kind) -> None:
        """A list is another one now, and our own copy of it is fresh already. Never raises, never waits."""
        ...

    def told(self, upstream: str, method: str, params: Mapping[str, Any]) -> None:
        """Any other notification (`notifications/resources/updated`, `notifications/message`, unknown ones)."""
        ...

    async def ask(
        self, method: str, params: Mapping[str, Any], told: Callable[[str, Mapping[str, Any]], None] | None = None
    ) -> Answer:
        """As `Caller.ask`, for what a legacy upstream asks while no request of the party is under way."""
        ...
