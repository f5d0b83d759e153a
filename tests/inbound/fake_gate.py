"""A gate and tools in memory. The gate answers by script, an echo by default, and remembers what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from gateway.model.answer import PolicyRef, Refusal, Shown
from gateway.model.artifact import Artifact, Piece
from gateway.model.canonical import Digest, dump
from gateway.model.events import Outcome
from gateway.model.finish import Finish
from gateway.model.offer import Kind, Listed, Route
from gateway.model.party import Party
from gateway.model.plan import Note, Plan
from gateway.model.principal import Parent, Principal
from gateway.model.proposal import Key, Proposal
from gateway.model.question import Question
from gateway.model.tool import Answer, NotSent, ProtocolError, ToolResult
from gateway.ports import Caller, Listener, NoSuchRun

T0 = 1_800_000_000.0


@dataclass
class ToldClock:
    """A clock that stands still until it is told."""

    seconds: float = T0

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    def tell(self, seconds: float) -> None:
        self.seconds += seconds

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError(f"nobody here sleeps {seconds} seconds")


RECORD = {"run": "run_x", "attempt": "att_1", "phase": "open"}
REFUSAL = Refusal(
    outcome=Outcome.NEEDS_APPROVAL,
    terminal=False,
    executed=False,
    run="run_x",
    phase="open",
    tool="pay",
    policy=PolicyRef(name="p", digest=Digest("c1:0"), rule="big"),
    reason="a person must agree to “this”",
    next="Tell the user, then repeat this call unchanged.",
)

Answers = Callable[[Proposal], Awaitable[Shown]]


async def echo(proposal: Proposal) -> Shown:
    """The arguments, as text and as they are."""
    arguments = dict(proposal.arguments)
    result = {"content": [{"type": "text", "text": dump(arguments)}], "structuredContent": arguments}
    return Shown(proposal.run, attempt="att_1", result=result, record=RECORD)


@dataclass
class FakeClaims:
    """Satisfies `Saying`: remembers what was said, and answers with how it was asked."""

    said: list[tuple[str, Plan | Note]] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    """Runs that are over."""

    async def plan(self, run_id: str, principal: Principal, plan: Plan, tool: str) -> Shown:  # noqa: ARG002
        return self._heard(run_id, plan)

    async def note(self, run_id: str, principal: Principal, note: Note, tool: str) -> Shown:  # noqa: ARG002
        return self._heard(run_id, note)

    def _heard(self, run_id: str, said: Plan | Note) -> Shown:
        self.said.append((run_id, said))
        return Shown(run_id, result={"content": [], "structuredContent": {"run": run_id}})

    async def status(self, run_id: str | None, principal: Principal, **asked: Any) -> Shown:
        asked |= {"run": run_id, "principal": principal.id, "party": asked["party"].key}
        return Shown(run_id or "", result={"content": [], "structuredContent": asked})

    async def finish(self, run_id: str, principal: Principal, claim: Finish, party: Party, tool: str) -> Shown:  # noqa: ARG002
        return Shown(run_id, result={"content": [], "structuredContent": {"run": run_id, "finished": False}})

    async def over(self, run_id: str) -> bool:
        return run_id in self.ended


@dataclass
class FakeQuestions:
    """Satisfies `Questioning` where nobody was ever asked anything."""

    reading_s: float = 1.0

    async def of(self, approval: str, principal: Principal, run_id: str | None) -> Question:  # noqa: ARG002
        raise NoSuchRun(f"no approval `{approval}` is known")

    async def arguments(self, cited: Digest) -> Mapping[str, Any] | None:  # noqa: ARG002
        return None

    def listen(self, question: Question, ring: Callable[[], None]) -> Callable[[], None]:
        raise NotImplementedError(question, ring)

    def hold_s(self, question: Question, client: str, *, tells: bool) -> float:
        raise NotImplementedError(question, client, tells)

    def patience_s(self, client: str) -> float:
        raise NotImplementedError(client)

    def heard_by_others(self, question: Question) -> bool:
        raise NotImplementedError(question)

    async def answer(self, question: Question, principal: Principal, *, approve: bool, reason: str) -> bool:
        raise NotImplementedError(question, principal, approve, reason)

    async def withdraw(self, question: Question, principal: Principal, reason: str) -> bool:
        raise NotImplementedError(question, principal, reason)

    async def made(self, question: Question, key: Key) -> str | None:
        raise NotImplementedError(question, key)

    async def ended(self, question: Question) -> Shown:
        raise NotImplementedError(question)


@dataclass
class FakeArtifacts:
    """Satisfies `Reading`: pieces that it is given, by address."""

    offered: bool = False
    pieces: dict[str, Piece] = field(default_factory=dict)

    async def read(self, asked: Artifact, principal: Principal, run_id: str | None) -> Piece:  # noqa: ARG002
        if str(asked) not in self.pieces:
            raise NoSuchRun("no such artifact is known")
        return self.pieces[str(asked)]


@dataclass
class FakeGate:
    """Satisfies `Gate`. As the real one does, it finishes what it began even if the caller is cancelled."""

    callers: list[Caller] = field(default_factory=list)
    ends: list[tuple[str, Answer]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    outcomes: dict[str, Shown] = field(default_factory=dict)
    """By attempt."""
    claims: FakeClaims = field(default_factory=FakeClaims)
    finishing: FakeClaims = field(default_factory=FakeClaims)
    questions: FakeQuestions = field(default_factory=FakeQuestions)
    artifacts: FakeArtifacts = field(default_factory=FakeArtifacts)

    salt: bytes = b"salt"
    answers: dict[str, Answers] = field(default_factory=dict)
    """By tool; the echo for all others."""
    proposals: list[Proposal] = field(default_factory=list)
    finished: list[Shown] = field(default_factory=list)
    deliveries: list[Shown] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)
    stopped: str | None = None
    """Why a person lets nothing out."""
    looked: list[tuple[str, tuple[str, ...], str | None]] = field(default_factory=list)
    """Whom, where to and by which tool it was asked about."""
    open_error: Exception | None = None
    shields: bool = False
    """A cancelled caller waits for the answer all the same, and then gets it."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[asyncio.Task[Shown]] = field(default_factory=set)

    async def barred(self, principal: Principal, upstreams: Sequence[str], tool: str | None = None) -> str | None:
        self.looked.append((principal.id, tuple(upstreams), tool))
        return self.stopped

    async def outcome(self, attempt: str, principal: Principal, caller: Caller) -> Shown:  # noqa: ARG002
        if attempt not in self.outcomes:
            raise NoSuchRun(f"no attempt `{attempt}` is known")
        return self.outcomes[attempt]

    async def check_told(self, attempt: str, principal: Principal, run_id: str | None) -> None:
        """All may be told anywhere."""

    async def ended(self, attempt: str, principal: Principal, answer: Answer) -> Shown:  # noqa: ARG002
        self.ends.append((attempt, answer))
        if isinstance(answer, ToolResult):
            return Shown("run_x", attempt, answer.result)
        return Shown("run_x", attempt, error=answer.error) if isinstance(answer, ProtocolError) else Shown("run_x")

    def withdraw(self, attempt: str, principal: Principal) -> None:  # noqa: ARG002
        self.withdrawn.append(attempt)

    async def call(self, proposal: Proposal, caller: Caller) -> Shown:
        self.callers.append(caller)
        if self.shields:
            with anyio.CancelScope(shield=True):
                return await self._call(proposal)
        task = asyncio.create_task(self._call(proposal))
        self._tasks.add(task)
        return await asyncio.shield(task)

    async def _call(self, proposal: Proposal) -> Shown:
        self.proposals.append(proposal)
        await self._tell()
        shown = await self.answers.get(proposal.tool, echo)(proposal)
        self.finished.append(shown)
        await self._tell()
        return shown

    async def _tell(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, true: Callable[[], bool]) -> None:
        """Return once it is true; asked whenever a call begins or ends."""
        async with self.changed:
            await self.changed.wait_for(true)

    def delivered(self, shown: Shown) -> None:
        self.deliveries.append(shown)

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
    ) -> str:
        if self.open_error is not None:
            raise self.open_error
        self.opened.append(
            {
                "run": run,
                "principal": principal,
                "origin": origin,
                "attribution": dict(attribution),
                "workflow": workflow,
                "expires_at": expires_at,
                "parent": parent,
            }
        )
        return run


@dataclass
class Held:
    """An answer that waits until it is let go."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, proposal: Proposal) -> Shown:
        await self.gate.wait()
        return await echo(proposal)


def answering(**parts: Any) -> Answers:
    """A script of one fixed answer: `result`, `error`, `refusal`, `record`."""

    async def answer(proposal: Proposal) -> Shown:
        return Shown(proposal.run, attempt="att_1", **parts)

    return answer


TOOLS: tuple[dict[str, Any], ...] = (
    {
        "name": "echo",
        "inputSchema": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
        "annotations": {"readOnlyHint": True, "vendorHint": None},
        "x-vendor": {"kept": [1, None]},
    },
    {"name": "numbers", "inputSchema": {"type": "object"}, "outputSchema": {"type": "array"}, "title": "Zahlen"},
    {"name": "add", "inputSchema": {"type": "object"}, "outputSchema": {"type": "object"}},
)


Scripted = Answer | Callable[[Caller], Awaitable[Answer]]


@dataclass
class FakeOffers:
    """Satisfies `Offers`: lists that it is given, answers by script, and a memory of what it was asked."""

    items: dict[Kind, Sequence[Mapping[str, Any]]] = field(default_factory=lambda: {"tools": TOOLS})
    said: dict[str, Any] = field(default_factory=dict)
    """Its capabilities."""
    text: str = "The upstream says hello."
    owners: dict[str, str] = field(default_factory=dict)
    """Method to upstream."""
    answers: dict[str, Scripted] = field(default_factory=dict)
    """By method."""
    asked: list[tuple[Route, str, Mapping[str, Any], str | None]] = field(default_factory=list)
    log: list[tuple[Any, ...]] = field(default_factory=list)
    listeners: list[Listener] = field(default_factory=list)

    async def reach(self, party: Party) -> None:
        self.log.append(("reach", party.key))

    def join(self, party: Party) -> None:
        self.log.append(("join", party.key))

    def leave(self, party: str) -> None:
        self.log.append(("leave", party))

    def capabilities(self, party: Party) -> Mapping[str, Any]:  # noqa: ARG002
        return self.said

    def instructions(self, party: Party) -> str:  # noqa: ARG002
        return self.text

    async def listed(self, kind: Kind, party: Party) -> Listed:  # noqa: ARG002
        return Listed(self.items.get(kind, ()))

    def mirrored(self, tool: str, party: Party) -> Mapping[str, Any] | None:  # noqa: ARG002
        found = next((one for one in TOOLS if one["name"] == tool), None)
        return found["inputSchema"] if found is not None and "x-mcp-header" in dump(found) else None

    def owner_of(self, tool: str, party: Party) -> str | None:  # noqa: ARG002
        return self.owners.get(tool)

    def route(self, method: str, params: Mapping[str, Any], party: Party) -> Route | None:  # noqa: ARG002
        plain = {key: value for key, value in params.items() if key != "_meta"}
        return Route((self.owners[method],), plain) if method in self.owners else None

    async def request(
        self, route: Route, method: str, meta: Mapping[str, Any], caller: Caller, *, upstream: str | None = None
    ) -> tuple[str, Answer]:
        self.asked.append((route, method, meta, upstream))
        answer = self.answers.get(method, NotSent("it is down"))
        return route.upstreams[0], await answer(caller) if callable(answer) else answer

    def notify(self, party: Party, method: str, params: Mapping[str, Any]) -> None:
        self.log.append(("notify", party.key, method, params))

    def set_level(self, party: Party, level: str) -> None:
        self.log.append(("level", party.key, level))

    def attach(self, listener: Listener) -> None:
        self.listeners.append(listener)

    def detach(self, listener: Listener) -> None:
        self.listeners.remove(listener)

    async def subscribe(self, listener: Listener, uri: str) -> Answer:
        self.log.append(("subscribe", listener.party.key, uri))
        return ToolResult({}) if uri.startswith("file:") else ProtocolError({"code": -32602, "message": "no"})

    async def unsubscribe(self, listener: Listener, uri: str) -> Answer:
        self.log.append(("unsubscribe", listener.party.key, uri))
        return ToolResult({})
