"""What the door asks of the house: a gate that judges calls, and the tools to show. Neither knows MCP's wire."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from gateway.model.answer import Shown
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal


class Gate(Protocol):
    """Where proposals are judged, sent and recorded."""

    @property
    def salt(self) -> bytes:
        """Under which arguments are cited."""
        ...

    async def call(self, proposal: Proposal) -> Shown:
        """What came of the proposal. Its work goes on, and is recorded, even if the caller is cancelled."""
        ...

    def delivered(self, shown: Shown) -> None:
        """The answer was written to a client that was there to read it. Never raises."""
        ...

    async def open_run(
        self,
        *,
        run: str,
        principal: Principal,
        origin: str,
        attribution: Mapping[str, str],
        workflow: str | None = None,
        expires_at: float | None = None,
    ) -> object:
        """The run exists and belongs to this principal; asking again changes nothing.

        Raises: LedgerUnavailable, NoSuchRun.
        """
        ...


class Tools(Protocol):
    """The tools on offer, as their upstreams define them."""

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        """Definitions ready to send, in an order that does not change while they do not."""
        ...

    def instructions(self) -> str:
        """What the upstreams want a model to know; may be empty."""
        ...

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        """The tool's input schema, if it is known now."""
        ...
