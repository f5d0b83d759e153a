"""What the door asks of the house: a gate that judges calls, and what there is to relay. Neither knows MCP's wire."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from gateway.model.answer import Shown
from gateway.model.artifact import Artifact, Piece
from gateway.model.canonical import Digest
from gateway.model.finish import Finish
from gateway.model.offer import Kind, Listed, Route
from gateway.model.party import Party
from gateway.model.plan import Note, Plan
from gateway.model.principal import Parent, Principal
from gateway.model.proposal import Key, Proposal
from gateway.model.question import Question
from gateway.model.tool import Answer
from gateway.ports import Caller, Listener


class Saying(Protocol):
    """Where an agent says what it means to do, and is told how its run stands. `tool` is the tool that it called.

    All raise: NoSuchRun, LedgerUnavailable.
    """

    async def plan(self, run_id: str, principal: Principal, plan: Plan, tool: str) -> Shown:
        """The plan is the run's; or one clear refusal."""
        ...

    async def note(self, run_id: str, principal: Principal, note: Note, tool: str) -> Shown:
        """The note counts until it expires; or one clear refusal."""
        ...

    async def status(
        self,
        run_id: str | None,
        principal: Principal,
        *,
        workflow: str | None,
        parent: Parent | None,
        offered: Sequence[str],
        party: Party,
        since: str | None,
        tool: str,
    ) -> Shown:
        """Where the run stands, and what happened since that cursor. Nothing is opened and nothing is recorded.

        `workflow` and `parent` are those of a run that would be opened; `offered` names the tools that the client sees.
        """
        ...

    async def over(self, run_id: str) -> bool:
        """Whether that run has ended; False as well where nobody can say."""
        ...


class Ending(Protocol):
    """Where an agent says that it is done."""

    async def finish(self, run_id: str, principal: Principal, claim: Finish, party: Party, tool: str) -> Shown:
        """Whether the run is over with that, and what it lacks if not; waited for as long as the client is patient.

        Raises: NoSuchRun, LedgerUnavailable.
        """
        ...


class Questioning(Protocol):
    """Where those who wait for a person are told how it stands, and may say their part. All raise LedgerUnavailable."""

    @property
    def reading_s(self) -> float:
        """What is answered sooner after it was asked, no person has read."""
        ...

    async def of(self, approval: str, principal: Principal, run_id: str | None) -> Question:
        """The question as it stands now, whichever gateway was told; `run_id` None: in whichever run it was asked.

        Raises: NoSuchRun if there is none, or it is another principal's.
        """
        ...

    async def arguments(self, cited: Digest) -> Mapping[str, Any] | None:
        """The arguments that are stored under that digest; None if they were erased."""
        ...

    def listen(self, question: Question, ring: Callable[[], None]) -> Callable[[], None]:
        """`ring` is called whenever something was said about it, here or elsewhere. The result ends that."""
        ...

    def hold_s(self, question: Question, client: str, *, tells: bool) -> float:
        """How long its call may be kept waiting with a client of that name; `tells`: it is told of progress."""
        ...

    def patience_s(self, client: str) -> float:
        """How long a client of that name is kept waiting at most."""
        ...

    async def answer(self, question: Question, principal: Principal, *, approve: bool, reason: str) -> bool:
        """Whether the answer of the asking client's own user is recorded: only where policy takes it."""
        ...

    def heard_by_others(self, question: Question) -> bool:
        """Whether somebody in this process waits for its answer."""
        ...

    async def withdraw(self, question: Question, principal: Principal, reason: str) -> bool:
        """Whether it is taken back by this, or a yes to it that was not used: not what is over already."""
        ...

    async def made(self, question: Question, key: Key) -> str | None:
        """The attempt that was made by that key in the run of the question, if one was."""
        ...

    async def ended(self, question: Question) -> Shown:
        """What is told of a call whose question came to nothing."""
        ...


class Reading(Protocol):
    """Where recorded answers are read in ranges."""

    @property
    def offered(self) -> bool:
        """Whether agents may get less of an answer than all of it, so that there may be something to read."""
        ...

    async def read(self, asked: Artifact, principal: Principal, run_id: str | None) -> Piece:
        """The range, or as much of it as is told at once; `run_id` is the run of whoever asks, if it has one.

        Raises: NoSuchRun if there is no such thing, or it is another's; Unreadable, LedgerUnavailable.
        """
        ...


class Gate(Protocol):
    """Where proposals are judged, sent and recorded."""

    @property
    def claims(self) -> Saying:
        """What agents say of their own work, and how their runs stand."""
        ...

    @property
    def finishing(self) -> Ending:
        """Where agents say that they are done."""
        ...

    @property
    def questions(self) -> Questioning:
        """What waits for people, for those who asked."""
        ...

    @property
    def artifacts(self) -> Reading:
        """Recorded answers, for those who got them in part."""
        ...

    @property
    def salt(self) -> bytes:
        """Under which arguments are cited."""
        ...

    async def call(self, proposal: Proposal, caller: Caller) -> Shown:
        """What came of the proposal. Its work goes on, and is recorded, even if the caller is cancelled.

        At our patience limit it is a typed `in_flight`; time in which the client is asked something does not count.
        """
        ...

    async def outcome(self, attempt: str, principal: Principal, caller: Caller) -> Shown:
        """What came of an attempt of this principal's: the recorded outcome, or where it stands.

        Raises: NoSuchRun if there is no such attempt, or it is another's.
        """
        ...

    async def check_told(self, attempt: str, principal: Principal, run_id: str | None) -> None:
        """What came of the attempt may be told in that run, of whoever asks.

        Raises: NoSuchRun if not, or as `outcome`; LedgerUnavailable.
        """
        ...

    async def ended(self, attempt: str, principal: Principal, answer: Answer) -> Shown:
        """The end of an upstream's task is the answer of its attempt: recorded, verified, and what is shown of it.

        Raises: NoSuchRun.
        """
        ...

    async def barred(self, principal: Principal, upstreams: Sequence[str], tool: str | None = None) -> str | None:
        """Why nothing of this principal's goes to any of these upstreams, as a person has it now; None if it may.

        With `tool`, why nothing more goes to them for a call of that one.

        Raises: LedgerUnavailable.
        """
        ...

    def withdraw(self, attempt: str, principal: Principal) -> None:
        """The client wants the attempt stopped, if it is under way here."""
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
        parent: Parent | None = None,
    ) -> object:
        """The run exists and belongs to this principal; asking again changes nothing.

        Raises: LedgerUnavailable, NoSuchRun.
        """
        ...


class Offers(Protocol):
    """The upstreams together, as the relay needs them. Everything is about one party: a server of the older era has a
    connection for each, made when it is first needed; servers of the newer era share one.
    """

    async def reach(self, party: Party) -> None:
        """The party's connections are up, have failed, or were waited for long enough (a few seconds)."""
        ...

    def join(self, party: Party) -> None:
        """The party's connections are kept, however idle, until it leaves."""
        ...

    def leave(self, party: str) -> None:
        """The party of that key has ended: its connections are closed."""
        ...

    def capabilities(self, party: Party) -> Mapping[str, Any]:
        """Server capabilities of all upstreams together, as they are now; only what we relay for this party."""
        ...

    def instructions(self, party: Party) -> str:
        """What the upstreams want a model to know, and which of them cannot be used now; may be empty."""
        ...

    async def listed(self, kind: Kind, party: Party) -> Listed:
        """All of one kind, from the cached lists."""
        ...

    def mirrored(self, tool: str, party: Party) -> Mapping[str, Any] | None:
        """The tool's input schema, if it names arguments that HTTP says in headers too [SEP-2243]."""
        ...

    def owner_of(self, tool: str, party: Party) -> str | None:
        """The upstream that offers the tool, or would."""
        ...

    def route(self, method: str, params: Mapping[str, Any], party: Party) -> Route | None:
        """Where a request that is no `tools/call` and no list belongs; None if nobody owns it."""
        ...

    async def request(
        self, route: Route, method: str, meta: Mapping[str, Any], caller: Caller, *, upstream: str | None = None
    ) -> tuple[str, Answer]:
        """Who answered, and what. `meta` is the client's `_meta`. With `upstream` only that one of the route is asked.

        As `Upstreams.call`: for a legacy client the rounds of a modern upstream are driven here.
        """
        ...

    def notify(self, party: Party, method: str, params: Mapping[str, Any]) -> None:
        """A notification of the client's own is passed on to its connections to servers of the older era."""
        ...

    def set_level(self, party: Party, level: str) -> None:
        """The client's log level, for its connections to servers of the older era."""
        ...

    def attach(self, listener: Listener) -> None:
        """The listener hears of everything about its party from now on."""
        ...

    def detach(self, listener: Listener) -> None:
        """And no more; its subscriptions have ended."""
        ...

    async def subscribe(self, listener: Listener, uri: str) -> Answer:
        """The listener hears of `notifications/resources/updated` about it; `ToolResult({})` if that is so."""
        ...

    async def unsubscribe(self, listener: Listener, uri: str) -> Answer:
        """And no more."""
        ...
