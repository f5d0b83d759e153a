"""The world, told: a clock that one sets, and upstreams that answer by script."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gateway.kernel.reduce import reduce
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.alike import alike_digest
from gateway.model.canonical import digest
from gateway.model.events import Event, RunOpened, Who
from gateway.model.party import Party
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.proposal import Key, Proposal
from gateway.model.record import Record, encode, link, utc
from gateway.model.run import Run
from gateway.model.tool import Answer, Silence, Tool, ToolResult
from gateway.ports import Dispatch, Observing, Sending, Withdrawal

SALT = b"salt"
USER = Principal(id="local:user")
T0 = 1_800_000_000.0


@dataclass
class ToldClock:
    """A clock that stands still until it is told; `sleep` returns once the time has come."""

    seconds: float = T0
    sleepers: list[tuple[float, asyncio.Event]] = field(default_factory=list)

    def now(self) -> float:
        return self.seconds

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self.sleepers.append((self.seconds + seconds, event))
        await event.wait()

    def tell(self, seconds: float) -> None:
        """Time goes on by `seconds`."""
        self.seconds += seconds
        for due, event in self.sleepers:
            if due <= self.seconds:
                event.set()


def tool(name: str, *, read: bool = False, schema: Mapping[str, Any] | None = None, **definition: Any) -> Tool:
    """A tool of the upstream `fake`."""
    annotations = {"readOnlyHint": True} if read else {}
    body = {"name": name, "inputSchema": dict(schema or {"type": "object"}), "annotations": annotations, **definition}
    return Tool(name, "fake", name, body)


@dataclass
class ScriptedUpstreams:
    """Upstreams whose every answer is scripted; `sent` is the effect log."""

    tools: dict[str, Tool] = field(default_factory=dict)
    answers: dict[str, deque[Answer | Callable[[Dispatch], Any]]] = field(default_factory=dict)
    sent: list[Dispatch] = field(default_factory=list)
    always: Mapping[str, Answer] = field(default_factory=dict)
    """What tools say when their script is over; ok, where it is not said."""
    observing: Observing | None = None

    def offer(self, *tools: Tool) -> None:
        self.tools.update({one.name: one for one in tools})

    def will(self, name: str, *answers: Answer | Callable[[Dispatch], Any]) -> None:
        """The tool's next answers, in order; a callable is awaited and gives the answer. Then it says ok for ever."""
        self.answers.setdefault(name, deque()).extend(answers)

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:  # noqa: ARG002 - all see the same
        return self.tools.get(name)

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:  # noqa: ARG002
        return [*self.tools.values()], True

    async def call(self, dispatch: Dispatch) -> Answer:
        self.sent.append(dispatch)
        queue = self.answers.get(dispatch.tool.name)
        answer = queue.popleft() if queue else self.always.get(dispatch.tool.name, ok())
        if self.observing is None:
            return await answer(dispatch) if callable(answer) else answer
        named = Sending("tools/call", dispatch.tool.own_name, "fake", len(self.sent), "2026-07-28", None)
        with self.observing(named) as observed:
            answer = await answer(dispatch) if callable(answer) else answer
            observed.answered(answer)
        return answer


@dataclass
class PatientCaller:
    """A client that waits, and answers what it is asked by script."""

    party: Party = field(default_factory=lambda: Party("test"))
    modern: bool = True
    log_level: str | None = None
    withdrawal: Withdrawal = field(default_factory=Withdrawal)
    told: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    answers: deque[Answer] = field(default_factory=deque)
    waits_since: float | None = field(default_factory=time.monotonic)

    def since(self) -> float | None:
        return self.waits_since

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        self.told.append((method, params))

    async def ask(self, method: str, params: Mapping[str, Any], told: Any = None) -> Answer:  # noqa: ARG002
        self.asked.append((method, params))
        return self.answers.popleft() if self.answers else Silence("nobody answers")

    def pause(self, retry_ms: int | None) -> None:
        self.told.append(("pause", {"retry": retry_ms}))


def ok(text: str = "ok", **fields: Any) -> ToolResult:
    """A plain success."""
    return ToolResult({"content": [{"type": "text", "text": text}], **fields})


def policy(**fields: Any) -> Policy:
    """A policy in which the tools `read` and `write` may be used, changed by `fields`."""
    base: dict[str, Any] = {
        "workflow": "test",
        "tools": {"read": {"effect": "read"}, "write": {"effect": "write"}, "pay": {"effect": "write"}},
        "transitions": [{"name": "any", "tools": ["*"]}],
    }
    return Policy.model_validate(base | fields)


def rules(**fields: Any) -> Rules:
    """As `policy`, compiled."""
    made = policy(**fields)
    return compile_rules(made, digest(made.model_dump(mode="json", by_alias=True), SALT))


def proposal(
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    run: str = "run_1",
    key: Key | None = None,
    principal: Principal = USER,
) -> Proposal:
    """One call of the tool."""
    given = dict(arguments or {})
    return Proposal(run, principal, name, given, digest(given, SALT), alike_digest(given, SALT), key)


def opened(by: Rules, *, run: str = "run_1", origin: str = "process", at: float = T0) -> Run:
    """A run just opened under these rules."""
    event = RunOpened.model_validate(
        {
            "principal": Who(tenant=USER.tenant, id=USER.id),
            "workflow": by.policy.workflow,
            "policy": by.digest,
            "phase": by.policy.initial,
            "origin": origin,
        }
    )
    return after(Run(run), event, at=at)


def after(run: Run, *events: Event, at: float = T0) -> Run:
    """The run after these events, all at one time."""
    for event in events:
        record = Record(run=run.id, seq=run.version + 1, at=utc(at), previous=run.head, event=event)
        run = reduce(run, record, link(encode(record)))
    return run
