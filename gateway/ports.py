"""What the runtime asks of the world: Ledger, Upstreams, Clock. Adapters map the world's failures to these words.

`Conflict` and `Occupied` are ordinary: decide again. `LedgerUnavailable` stops dispatch.
`NotSent` is known to have done nothing; `Silence` is not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from gateway.model.canonical import Digest
from gateway.model.record import Record
from gateway.model.run import Tracked as Tracked
from gateway.model.tool import Answer as Answer
from gateway.model.tool import InputRequired as InputRequired
from gateway.model.tool import NotSent as NotSent
from gateway.model.tool import ProtocolError as ProtocolError
from gateway.model.tool import Silence as Silence
from gateway.model.tool import TaskStarted as TaskStarted
from gateway.model.tool import Tool as Tool
from gateway.model.tool import ToolResult as ToolResult


class Conflict(Exception):
    """The run has moved on since the caller read it. Nothing was written: read, decide again."""


class Occupied(Exception):
    """An equal effect is open or unknown in some run. Nothing was written."""

    def __init__(self, held: Tracked) -> None:
        super().__init__(f"attempt `{held.attempt}` of run `{held.run}` holds the same effect")
        self.held = held


class LedgerUnavailable(Exception):
    """The ledger cannot be written or read now (locked, full, read-only, gone). The write may have happened."""


class NoSuchRun(Exception):
    """The run cannot be opened for whoever asks: it belongs to somebody else, or its policy is not loaded."""


class NotOurLedger(Exception):
    """What is at the address is no ledger of ours, or one of a newer version. Never guessed at."""


@dataclass(frozen=True, slots=True)
class Append:
    """One atomic step of one run: its records, the payloads that they cite, and what is tracked from now on."""

    run: str
    expected: tuple[int, str]
    """Version and head of the run as the caller knows it."""
    records: Sequence[Record]
    payloads: Mapping[Digest, bytes] = field(default_factory=dict)
    track: Sequence[Tracked] = ()
    """Put in place of what stood under the same attempt."""
    untrack: Sequence[str] = ()
    """Attempts that are settled."""


class Ledger(Protocol):
    """The append-only log of events, and the only memory that survives us."""

    @property
    def salt(self) -> bytes:
        """Under which this ledger's payloads are cited; 32 random bytes, made with the ledger."""
        ...

    async def append(self, step: Append) -> None:
        """The step is durable. All of it, or nothing.

        Raises: Conflict, Occupied, LedgerUnavailable.
        """
        ...

    async def read(self, run: str, after: int = 0) -> Sequence[tuple[Record, bytes]]:
        """The run's records beyond `after`, in order, each with its stored bytes. Empty for an unknown run."""
        ...

    async def find(self, kinds: Sequence[str], *, limit: int = 1000) -> Sequence[Record]:
        """The newest records of these kinds, over all runs, newest first."""
        ...

    async def payload(self, digest: Digest) -> bytes | None:
        """The stored bytes, or None if they were erased or never stored here."""
        ...

    async def tracked(self, *, expired_at: float | None = None) -> Sequence[Tracked]:
        """All that is unsettled, oldest first; with `expired_at`, only what nobody holds a lease on at that time."""
        ...

    async def claim(self, attempt: str, owner: str, now: float, lease_until: float) -> bool:
        """Whether `owner` now holds the lease, which nobody else held at `now`."""
        ...

    async def renew(self, owner: str, lease_until: float) -> None:
        """Every attempt of `owner` that is open or unverified is leased until then."""
        ...

    async def close(self) -> None:
        """What was queued is durable or refused; nothing is held open."""
        ...


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One call on its way out."""

    tool: Tool
    arguments: Mapping[str, Any]
    timeout_s: float
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The client's `_meta`, our keys taken out, trace context and idempotency key put in."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Extra headers for HTTP upstreams."""
    late: Callable[[Answer], None] | None = None
    """Called at most once, on the event loop, if an answer comes after `Silence` was returned for a timeout."""


class Upstreams(Protocol):
    """The real MCP servers behind us."""

    async def tool(self, name: str) -> Tool | None:
        """The tool of that exact name, from the cached lists; None if no upstream offers it."""
        ...

    async def call(self, dispatch: Dispatch) -> Answer:
        """What came of one call, within `timeout_s`. Never raises for what the upstream does, never re-sends."""
        ...


class Clock(Protocol):
    """Time, told."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return after that long."""
        ...
