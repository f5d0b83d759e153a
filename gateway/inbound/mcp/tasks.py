"""The tasks extension: an upstream's tasks under ids of ours, and our own for calls that outlast the client's patience.

An id is the task's whole address, sealed for its principal, so that no gateway need remember it and nobody can guess
another's [io.modelcontextprotocol/tasks].
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import TASKS, Asking
from gateway.inbound.mcp.callers import ModernCaller, UnaskedCaller
from gateway.inbound.mcp.faults import INVALID_PARAMS, MISSING_CAPABILITY, Fault
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.inbound.mcp.proposals import relayed
from gateway.inbound.mcp.seals import BrokenSeal, Seals
from gateway.model.answer import Shown
from gateway.model.events import Outcome
from gateway.model.offer import Route
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.ports import NoSuchRun

LIVES_S = 7 * 24 * 3600.0
POLL_MS = 3_000
TTL_MS = 24 * 3600 * 1000


class _Hurried(ModernCaller):
    """A client that wants to know where things stand, and not to wait."""

    def since(self) -> float | None:
        """For ever: its patience is over."""
        return float("-inf")


class Tasks:
    """Answers `tasks/*`."""

    def __init__(self, gate: Gate, offers: Offers, seals: Seals) -> None:
        self._gate = gate
        self._offers = offers
        self._seals = seals

    # --- how they begin -----------------------------------------------------------------------------------------------

    def started(self, asking: Asking, shown: Shown) -> dict[str, Any]:
        """The upstream's task, under an id of ours."""
        result = results.answered(shown)
        inner = result.get("taskId")
        if not asking.has_tasks or not isinstance(inner, str):
            raise Fault(INVALID_PARAMS, "the server made a task of the call, which this client did not say it can take")
        upstream = self._offers.owner_of(str(asking.params["name"]), asking.party)
        state = {"upstream": upstream, "task": inner, "attempt": shown.attempt}
        return {**result, "taskId": self._name(asking, "theirs", state)}

    def own(self, asking: Asking, attempt: str) -> dict[str, Any]:
        """A call that goes on, as a task of ours."""
        now = _now()
        state = {"attempt": attempt, "since": now}
        return {"resultType": "task", **_task(self._name(asking, "ours", state), "working", now)}

    def _name(self, asking: Asking, kind: str, state: dict[str, Any]) -> str:
        return self._seals.seal(kind, asking.exchange.principal, "", state, LIVES_S)

    # --- how they go on -----------------------------------------------------------------------------------------------

    async def get(self, asking: Asking) -> dict[str, Any]:
        """Where the task stands; at its end, with what came of it."""
        name, kind, state = self._named(asking)
        if kind == "ours":
            return await self._where_ours_stands(asking, name, state)
        result = await self._relay(asking, state)
        told = {**result, "taskId": name}
        ended = _end_of(result)
        if ended is None:
            return told
        shown = await self._gate.ended(state["attempt"], asking.exchange.principal, ended)
        return self._with_end(asking, told, shown)

    async def update(self, asking: Asking) -> dict[str, Any]:
        """The client's input is passed on; our own tasks ask for none."""
        _, kind, state = self._named(asking)
        return {} if kind == "ours" else await self._relay(asking, state)

    async def cancel(self, asking: Asking) -> dict[str, Any]:
        """The wish is passed on."""
        _, kind, state = self._named(asking)
        if kind == "theirs":
            return await self._relay(asking, state)
        self._gate.withdraw(state["attempt"], asking.exchange.principal)
        return {}

    def _named(self, asking: Asking) -> tuple[str, str, dict[str, Any]]:
        if not asking.has_tasks:
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise Fault(MISSING_CAPABILITY, "Missing required client capability", data=data)
        name = asking.params.get("taskId")
        try:
            if not isinstance(name, str):
                raise BrokenSeal("it is no string")  # noqa: TRY301 - one message for all that is wrong with it
            kind, state = self._seals.open(name, asking.exchange.principal, "", "ours", "theirs")
        except BrokenSeal as broken:
            raise Fault(INVALID_PARAMS, f"`taskId` names no task of yours: {broken}") from None
        return name, kind, state

    async def _relay(self, asking: Asking, state: Mapping[str, Any]) -> dict[str, Any]:
        params = {key: value for key, value in asking.params.items() if key != "_meta"} | {"taskId": state["task"]}
        route = Route((state["upstream"],), params, state["task"])
        caller = UnaskedCaller(asking)
        _, answer = await self._offers.request(route, asking.method, relayed(asking.meta), caller)
        if not isinstance(answer, ToolResult):
            raise results.failed(answer)
        return dict(answer.result)

    async def _where_ours_stands(self, asking: Asking, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        try:
            shown = await self._gate.outcome(state["attempt"], asking.exchange.principal, _Hurried(asking))
        except NoSuchRun as error:
            raise Fault(INVALID_PARAMS, str(error)) from None
        under_way = shown.refusal is not None and shown.refusal.outcome is Outcome.IN_FLIGHT
        told = _task(name, "working", state["since"])
        return told if under_way else self._with_end(asking, told, shown)

    def _with_end(self, asking: Asking, told: dict[str, Any], shown: Shown) -> dict[str, Any]:
        asking.exchange.shown = shown
        if shown.error is not None:
            return {**told, "status": "failed", "error": dict(shown.error)}
        if told["status"] == "cancelled":
            return told
        return {**told, "status": "completed", "result": results.answered(shown)}


def _end_of(result: Mapping[str, Any]) -> Answer | None:
    """What the end of a task says of its call; None while it goes on."""
    match result.get("status"):
        case "completed" if isinstance(result.get("result"), Mapping):
            return ToolResult(result["result"])
        case "failed" if isinstance(result.get("error"), Mapping):
            return ProtocolError(result["error"])
        case "completed" | "failed":
            return Silence("the server's task ended without a result")
        case "cancelled":
            return Silence("the server's task was cancelled")
        case _:
            return None


def _task(name: str, status: str, since: str) -> dict[str, Any]:
    return {
        "taskId": name,
        "status": status,
        "createdAt": since,
        "lastUpdatedAt": _now(),
        "ttlMs": TTL_MS,
        "pollIntervalMs": POLL_MS,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
