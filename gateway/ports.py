"""What the runtime asks of the world: Ledger, Upstreams, Clock. Adapters map the world's failures to these words.

`Conflict`, `Occupied` and `Exhausted` are ordinary: decide again. `LedgerUnavailable` stops dispatch.
`NotSent` is known to have done nothing; `Silence` is not.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from gateway.model.account import Posting as Posting
from gateway.model.canonical import Digest
from gateway.model.checkpoint import Checkpoint as Checkpoint
from gateway.model.offer import Kind
from gateway.model.party import Party as Party
from gateway.model.policy import Way as Way
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


class Exhausted(Exception):
    """A posting would take an account above its limit. Nothing was written."""

    def __init__(self, account: str, unit: str, level: int, limit: int) -> None:
        super().__init__(f"account `{account}` stands at {level} {unit} of {limit}")
        self.account = account
        self.unit = unit
        self.level = level
        """Where it stood, the step's own earlier postings included."""
        self.limit = limit


class LedgerUnavailable(Exception):
    """The ledger cannot be written or read now (locked, full, read-only, gone). The write may have happened."""


class UnreadableRecord(LedgerUnavailable):
    """One record or payload cannot be used as it is stored. What does not need it can be read, and all be written."""


class DamagedRecord(UnreadableRecord):
    """It is not what was written."""


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
    postings: Sequence[Posting] = ()
    """What the step takes from accounts and gives back to them, in this order. It needs a record that says why."""
    unhurried: bool = False
    """Nobody waits for it: it is written with what comes after it, or by itself a moment later."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One record as it is stored, whatever became of it there: nothing of it was checked or understood."""

    place: int
    """Where it stands in the log of all runs; places only grow, and may have gaps."""
    run: str
    seq: int
    kind: str
    """That it is looked for by."""
    link: str
    body: bytes


class Stands(NamedTuple):
    """One account in one unit, as it is stored."""

    account: str
    unit: str
    level: int
    until: float | None
    """As in `Posting`."""


class Ledger(Protocol):
    """The append-only log of events, and the only memory that survives us."""

    @property
    def salt(self) -> bytes:
        """Under which this ledger's payloads are cited; 32 random bytes, made with the ledger."""
        ...

    async def append(self, step: Append) -> None:
        """The step is durable. All of it, or nothing.

        Raises: Conflict, Occupied, Exhausted, of which the first that applies; LedgerUnavailable.
        """
        ...

    async def read(self, run: str, after: int = 0, *, limit: int | None = None) -> Sequence[tuple[Record, bytes]]:
        """The run's records beyond `after`, in order, at most so many, each with its stored bytes.

        Empty for an unknown run.
        """
        ...

    async def find(self, kinds: Sequence[str], *, limit: int = 1000) -> Sequence[Record]:
        """The newest records of these kinds, over all runs, newest first."""
        ...

    async def payload(self, digest: Digest) -> bytes | None:
        """The bytes that were stored under that digest, or None if they were erased or never stored here.

        Raises: DamagedRecord, LedgerUnavailable.
        """
        ...

    async def levels(self, accounts: Sequence[str]) -> Mapping[tuple[str, str], int]:
        """The level of each of these accounts in each of its units, by both; those that never were are absent.

        It is the exact sum of what was posted, by whomever: below 0, if more was given back than taken.
        """
        ...

    async def accounts(self, after: tuple[str, str] = ("", ""), *, limit: int = 1000) -> Sequence[Stands]:
        """All that stands on accounts, in the order of account and unit, from beyond those."""
        ...

    async def tracked(self, *, states: Collection[str] | None = None) -> Sequence[Tracked]:
        """All that is unsettled, oldest first; with `states`, only what is in one of them."""
        ...

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        """Whether `owner` now holds the lease: only if its owner, its end and its state are still those of `seen`.

        No clock is asked: whether a lease has run out is for the caller to say, who has watched it.
        """
        ...

    async def renew(self, owner: str, attempts: Collection[str], lease_until: float) -> None:
        """Those of these attempts on which `owner` has a lease (`lease_until` above 0) are leased until then.

        With 0 they are nobody's again.
        """
        ...

    async def now(self) -> float:
        """Seconds since the epoch, by the clock that all who use this ledger share."""
        ...

    async def touch(self, *, store: bool) -> None:
        """An append would be taken: the right to write could be had. With `store`, some room was written to as well,
        durably, as much as an append takes. Nothing that can be read has changed.

        Raises: LedgerUnavailable.
        """
        ...

    # --- the log of all runs, in which records stand in the order in which they became durable ---------------------

    async def log(self, after: int = 0, *, limit: int = 1000) -> Sequence[Logged]:
        """The records beyond the place `after`, in order, as they are stored. For `verify` and for an export."""
        ...

    async def strange(self) -> Sequence[str]:
        """What the store lacks of what this version makes, and what was added to it that acts by itself; a line each.

        Whoever can write it can have it lose what is written, or lists not find what is there.
        """
        ...

    async def links(self, after: int = 0, *, limit: int = 10_000) -> Sequence[tuple[int, str]]:
        """As `log`, but only place and link: what a checkpoint is made of."""
        ...

    async def closed(self) -> int:
        """A place such that nothing at or before it can still come, whatever is being written now."""
        ...

    async def checkpoint(self, made: Checkpoint) -> bool:
        """Whether it was added: only if the log had more records then than at every checkpoint before."""
        ...

    async def checkpoints(self, *, limit: int = 1) -> Sequence[Checkpoint]:
        """The newest, newest first."""
        ...

    # --- retention --------------------------------------------------------------------------------------------------

    async def payloads(self, after: str = "", *, limit: int = 1000) -> Sequence[tuple[Digest, bytes]]:
        """Stored payloads whose digest comes after that one, in the order of their digests."""
        ...

    async def erase(self, digests: Collection[Digest], at: float) -> int:
        """How many payloads were erased: their digests are remembered with the time, their bytes are gone.

        One that is stored anew afterwards is no longer an erased one.
        """
        ...

    async def erased(self, digests: Collection[Digest]) -> Mapping[Digest, float]:
        """Which of these were erased, and when, in seconds since the epoch."""
        ...

    async def close(self) -> None:
        """What was queued is durable or refused; nothing is held open."""
        ...


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
