"""The world beyond the gateway: servers that do what they are asked, or not, or twice, or late, and keep count.

What happened is in `received`, `effects` and `answered`, whatever anybody was told about it.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from gateway.model.canonical import canonical, digest_bytes
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, Tool, ToolResult
from gateway.ports import Dispatch
from gateway.runtime.wire import payload_of
from tests.crash.clocks import TrueClock
from tests.crash.history import Answered, Effect, Received

LATE_S = 15.0
"""How long after the timeout a late effect or answer comes; within every tool's grace."""
VALID_S = 300.0
"""How long the servers remember our idempotency keys."""
ARGUMENT = "our_key"
"""The argument in which the tool `keyed` takes our idempotency key."""


@dataclass(frozen=True, slots=True)
class Fault:
    """How a server serves one call."""

    effect: Literal["now", "never", "late", "twice"] = "now"
    answer: Literal[
        "result", "schema", "is_error", "rpc_error", "input", "input_timeout", "task", "silence", "timeout", "refused"
    ] = "result"
    again: bool = False
    """It answers (once more) later, and says something else."""


FAULTS: Mapping[str, Fault] = {
    "none": Fault(),
    "refused": Fault("never", "refused"),
    "dropped before it was done": Fault("never", "silence"),
    "dropped after it was done": Fault("now", "silence"),
    "deaf": Fault("never", "timeout"),
    "done after the deadline": Fault("late", "timeout"),
    "answered after the deadline": Fault("now", "timeout", again=True),
    "done and answered after the deadline": Fault("late", "timeout", again=True),
    "answered twice": Fault("now", "result", again=True),
    "against its schema": Fault("now", "schema"),
    "an error before it was done": Fault("never", "is_error"),
    "an error after it was done": Fault("now", "is_error"),
    "a JSON-RPC error after it was done": Fault("now", "rpc_error"),
    "done twice": Fault("twice", "result"),
    "asks for input": Fault("now", "input"),
    "asks for input, and is deaf to it": Fault("late", "input_timeout"),
    "makes a task of it": Fault("now", "task"),
}

_OUTPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def definition(name: str, version: int = 1) -> dict[str, Any]:
    """The tool as its server describes it; another version is another description."""
    return {
        "name": name,
        "description": f"{name}, version {version}",
        "inputSchema": {"type": "object"},
        "outputSchema": _OUTPUT,
    }


@dataclass
class Outside:
    """The servers, all behind one name."""

    clock: TrueClock
    salt: bytes
    fault: Callable[[str], str] = lambda _tool: "none"
    """How the next call of that tool is served."""
    tools: dict[str, Tool] = field(default_factory=dict)
    received: list[Received] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    lying: bool = False
    """Whether a probe is answered with nothing useful."""
    tasks: dict[str, ToolResult] = field(default_factory=dict)
    """By attempt, how a task that was made of a call ends."""
    _kept: dict[Any, ToolResult] = field(default_factory=dict)
    """What was answered to a key, or to arguments that are one: twice is as once."""
    _since: dict[Any, float] = field(default_factory=dict)
    """When what is known again was done."""
    _done: Counter[tuple[str, Any]] = field(default_factory=Counter)
    _numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    def offer(self, *names: str) -> None:
        """These tools are there."""
        self.tools |= {name: Tool(name, "outside", name, definition(name)) for name in names}

    def swap(self, name: str, version: int) -> None:
        """The server describes the tool in other words from now on."""
        self.tools[name] = Tool(name, "outside", name, definition(name, version))

    def probed(self, dispatch: Dispatch) -> Answer:
        """What a probe sees: how often the effect that it asks about happened."""
        if self.lying:
            return Silence("the probe heard nothing")
        asked = dispatch.arguments
        if "key" in asked:
            count = sum(one.attempt == asked["key"] for one in self.effects)
        else:
            count = self._done[asked["tool"], asked["ref"]]
        return ToolResult({"content": [], "structuredContent": {"n": count}})

    def take(
        self,
        dispatch: Dispatch,
        attempt: str | None,
        *,
        intended: bool,
        deadline: float,
        late: Callable[[Answer], None],
    ) -> tuple[Answer, float]:
        """What comes of a call that reaches its server now, and from when on its caller can know.

        `deadline` is when its caller gives up; whoever has not sent it by then does not send it any more.
        """
        fault, now = FAULTS[self.fault(dispatch.tool.name)], self.clock.seconds
        if fault.answer == "refused" or now > deadline:
            return NotSent("nobody listens there"), now
        arguments = dict(dispatch.arguments)
        key = arguments.pop(ARGUMENT, None)
        one = Received(next(self._numbers), dispatch.tool.name, arguments, attempt, intended, key, now)
        self.received.append(one)
        if fault.answer in {"input", "input_timeout"} and not dispatch.more:
            return self._told(
                one, InputRequired({"resultType": "input_required", "requestState": f"r{one.number}"})
            ), now
        answer = self._answer(one, fault)
        if fault.effect == "late":
            self.clock.at(deadline + LATE_S, lambda: self._do(one, fault))
        else:
            self._do(one, fault)
        if fault.again:
            other = ToolResult({"content": [], "structuredContent": {"n": -one.number}})
            self.clock.at(deadline + LATE_S + 1, lambda: late(self._told(one, other)))
        return answer, deadline if fault.answer in {"timeout", "input_timeout"} else now

    def _answer(self, one: Received, fault: Fault) -> Answer:
        result = self._result(one)
        match fault.answer:
            case "result" | "input":
                return self._told(one, result)
            case "schema":
                return self._told(one, ToolResult({"content": [], "structuredContent": {"n": "many"}}), valid=False)
            case "is_error":
                return self._told(one, ToolResult({"content": [], "isError": True, "number": one.number}))
            case "rpc_error":
                return self._told(one, ProtocolError({"code": -32000, "message": f"trouble {one.number}"}))
            case "task":
                self.tasks[one.attempt or ""] = result
                return self._told(one, TaskStarted({"resultType": "task", "taskId": f"t{one.number}", "ttlMs": 60_000}))
            case _:
                return Silence(f"call {one.number} is not answered")

    def _result(self, one: Received) -> ToolResult:
        made = ToolResult({"content": [], "structuredContent": {"n": one.number}})
        memory = self._memory(one)
        return made if memory is None else self._kept.setdefault(memory, made)

    def _memory(self, one: Received) -> Any:
        """By what the server knows a call again, if it does."""
        if one.key is not None:
            return one.tool, one.key
        return (one.tool, one.arguments["ref"]) if one.tool == "natural" else None

    def _do(self, one: Received, fault: Fault) -> None:
        known = self._memory(one)
        if fault.effect == "never" or one.tool == "read" or (known is not None and self._remembers(known)):
            return
        self._since[known] = self.clock.seconds
        for twin in (False, True) if fault.effect == "twice" else (False,):
            self.effects.append(Effect(one.number, one.attempt, one.tool, twin))
            self._done[one.tool, one.arguments.get("ref")] += 1

    def _remembers(self, known: Any) -> bool:
        """Keys are forgotten after their time; what is natural never is."""
        since = self._since.get(known)
        return since is not None and (known[0] == "natural" or self.clock.seconds < since + VALID_S)

    def _told(self, one: Received, answer: Any, *, valid: bool = True) -> Answer:
        payload = digest_bytes(canonical(payload_of(answer)), self.salt)
        self.answered.append(Answered(one.attempt, payload, valid))
        told: Answer = answer
        return told

    def end(self, attempt: str) -> ToolResult:
        """The end of the task that was made of that attempt."""
        result = self.tasks[attempt]
        self.answered.append(Answered(attempt, digest_bytes(canonical(payload_of(result)), self.salt)))
        return result
