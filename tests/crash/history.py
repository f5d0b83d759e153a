"""What happened, as far as it can be seen from outside a gateway: its ledger, its servers, and what clients were told.

Frozen; nothing here knows how it came about.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.model.canonical import Digest
from gateway.model.events import Event
from gateway.model.policy import Policy
from gateway.model.record import Record
from gateway.model.run import Run, Tracked


@dataclass(frozen=True, slots=True)
class Received:
    """One call as it reached a server."""

    number: int
    """Of this call among all that reached it, from 1."""
    tool: str
    arguments: Mapping[str, Any]
    """Without our key, where the tool takes it as an argument."""
    attempt: str | None
    """Whose it is; None if nobody had intended it."""
    intended: bool
    """Whether the ledger held its intent, or the record that it is sent again, when it arrived."""
    key: str | None = None
    """Our idempotency key, where the tool takes one."""
    at: float = 0.0
    """Seconds since the epoch, by the true clock."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What a server did."""

    received: int
    """The call that brought it about."""
    attempt: str | None
    tool: str
    twin: bool = False
    """The server did it a second time by itself, for one call: no gateway can know."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a server answered, valid or not."""

    attempt: str | None
    payload: Digest
    """Of the answer, as the ledger would cite it."""
    valid: bool = True
    """Whether it keeps the tool's output schema."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a client was told about one call."""

    run: str
    tool: str
    arguments: Digest
    kind: Literal["result", "error", "asked", "refused"]
    """`asked`: the upstream wants input, or made a task of it."""
    place: int
    """How many records the ledger's log had when it was told."""
    asked: int = 0
    """And when the call was made."""
    attempt: str | None = None
    payload: Digest | None = None
    """Of the result or error."""
    outcome: str | None = None
    executed: Literal[True, False, "unknown"] | None = None
    key: str | None = None
    """The client's own id of the call, if it sent one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A gateway took over an attempt that another one had a lease on."""

    attempt: str
    by: str
    left_s: float
    """How long the lease would still have lasted, by its owner's own clock."""


@dataclass(frozen=True, slots=True)
class History:
    """All of it, up to one moment."""

    records: Sequence[tuple[Record, bytes]]
    """In the order of the ledger's log, each with its stored bytes."""
    tracked: Sequence[Tracked] = ()
    levels: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Of accounts that are never forgotten, by account and unit."""
    payloads: Mapping[Digest, bytes] = field(default_factory=dict)
    policies: Mapping[Digest, Policy] = field(default_factory=dict)
    received: Sequence[Received] = ()
    effects: Sequence[Effect] = ()
    answered: Sequence[Answered] = ()
    replies: Sequence[Reply] = ()
    claims: Sequence[Claim] = ()
    heard: Sequence[str] = ()
    """Attempts whose answer came late, to a gateway that lives."""
    acknowledged: Sequence[tuple[str, int, str]] = ()
    """Run, version and link of each append that a gateway was told is durable."""
    times: Sequence[float] = ()
    """When each record was decided, by the true clock."""
    views: Sequence[Run] = ()
    """What living gateways take the state of runs to be."""
    salt: bytes = b""
    canaries: Sequence[bytes] = ()
    """What must stand nowhere in the ledger."""
    unanswered: Sequence[str] = ()
    """Calls that clients still wait for."""
    at_rest: bool = False
    """Nothing is wrong with the world any more, and everybody had the time to finish."""

    def runs(self) -> Mapping[str, list[tuple[int, Record]]]:
        """The records of each run in order, each with its place in the log, from 1."""
        found: dict[str, list[tuple[int, Record]]] = defaultdict(list)
        for place, (record, _) in enumerate(self.records, 1):
            found[record.run].append((place, record))
        return found

    def events(self) -> Iterator[tuple[int, Record, Event]]:
        """Every event with its record and its place in the log."""
        for place, (record, _) in enumerate(self.records, 1):
            yield place, record, record.event
