"""A gate and tools in memory. The gate answers by script, an echo by default, and remembers what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from gateway.model.answer import PolicyRef, Refusal, Shown
from gateway.model.canonical import Digest, dump
from gateway.model.events import Outcome
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal

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
class FakeGate:
    """Satisfies `Gate`. As the real one does, it finishes what it began even if the caller is cancelled."""

    salt: bytes = b"salt"
    answers: dict[str, Answers] = field(default_factory=dict)
    """By tool; the echo for all others."""
    proposals: list[Proposal] = field(default_factory=list)
    finished: list[Shown] = field(default_factory=list)
    deliveries: list[Shown] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)
    open_error: Exception | None = None
    shields: bool = False
    """A cancelled caller waits for the answer all the same, and then gets it."""
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    _tasks: set[asyncio.Task[Shown]] = field(default_factory=set)

    async def call(self, proposal: Proposal) -> Shown:
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


@dataclass
class FakeTools:
    """Satisfies `Tools`."""

    definitions: Sequence[Mapping[str, Any]] = TOOLS
    text: str = "The upstream says hello."

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        return self.definitions

    def instructions(self) -> str:
        return self.text

    def schema_of(self, name: str) -> Mapping[str, Any] | None:
        return next((tool["inputSchema"] for tool in self.definitions if tool["name"] == name), None)
