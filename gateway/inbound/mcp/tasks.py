"""The tasks extension: an upstream's tasks under ids of ours, and our own for calls that outlast the client's patience.

An id is the task's whole address, sealed for its principal, so that no gateway need remember it and nobody can guess
another's [io.modelcontextprotocol/tasks].
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gateway.inbound.mcp import results
from gateway.inbound.mcp.asking import TASKS, Asking
from gateway.inbound.mcp.callers import UnaskedCaller
from gateway.inbound.mcp.faults import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, MISSING_CAPABILITY, Fault
from gateway.inbound.mcp.holds import waits_for
from gateway.inbound.mcp.ports import Gate, Offers
from gateway.inbound.mcp.proposals import relayed
from gateway.inbound.mcp.seals import BrokenSeal, Seals
from gateway.inbound.mcp.stopped import check_not_stopped
from gateway.model.alike import alike_digest
from gateway.model.answer import Refusal, Shown
from gateway.model.canonical import dump
from gateway.model.events import Outcome
from gateway.model.offer import Route
from gateway.model.proposal import Key, KeySource, Proposal
from gateway.model.question import Question
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.ports import LedgerUnavailable, NoSuchRun

LIVES_S = 7 * 24 * 3600.0
POLL_MS = 3_000
TTL_MS = 24 * 3600 * 1000
MAX_META_CHARS = 1_024
"""Of the client's `_meta`, as JSON, that an id carries for the call it stands for: clients send ids in a header."""


class _Hurried(UnaskedCaller):
    """A client that wants to know where things stand, and not to wait."""

    def since(self) -> float | None:
        """For ever: its patience is over."""
        return float("-inf")


class _Poll(_Hurried):
    """A client that polls for a call of its own: it hears of no progress, and nothing can be asked of it."""

    def __init__(self, asking: Asking) -> None:
        super().__init__(asking)
        # What a poll can take, the call that it stands for cannot: a server must not ask, nor make a task of it.
        self.party = replace(asking.party, capabilities={})


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
        state = {"upstream": upstream, "task": inner, "attempt": shown.attempt, "tool": asking.params["name"]}
        return {**_unended(result), "taskId": self._name(asking, "theirs", state)}

    def own(self, asking: Asking, attempt: str) -> dict[str, Any]:
        """A call that goes on, as a task of ours."""
        now = _now()
        state = {"attempt": attempt, "since": now}
        return {"resultType": "task", **_task(self._name(asking, "ours", state), "working", now)}

    def asked(self, asking: Asking, proposal: Proposal, question: Question) -> dict[str, Any]:
        """A call that waits for a person, as a task of ours. Its id is all that is needed to propose it again."""
        lives_s = max(0.0, question.expires_at.timestamp() - self._seals.now()) + LIVES_S
        key = proposal.key or Key(KeySource.CALL_ID, f"task {question.id}")
        state = {
            "approval": question.id,
            "run": question.told.run,
            "tool": proposal.tool,
            "arguments": proposal.arguments_digest,
            "key": [key.source, key.value],
            "meta": _kept(proposal.meta),
            "since": _now(),
            "ttl": int(lives_s * 1000),
        }
        name = self._seals.seal("asked", asking.exchange.principal, "", state, lives_s)
        return {"resultType": "task", **_waiting(name, state, waits_for(question))}

    def _name(self, asking: Asking, kind: str, state: dict[str, Any]) -> str:
        return self._seals.seal(kind, asking.exchange.principal, "", state, LIVES_S)

    # --- how they go on -----------------------------------------------------------------------------------------------

    async def get(self, asking: Asking) -> dict[str, Any]:
        """Where the task stands; at its end, with what came of it."""
        name, kind, state = self._named(asking)
        if kind == "ours":
            return await self._where_ours_stands(asking, name, state)
        if kind == "asked":
            return await self._where_asked_stands(asking, name, state)
        result = await self._relay(asking, state)
        told = {**results.counted(_unended(result)), "taskId": name}
        ended = _end_of(result)
        if ended is None:
            return told
        shown = await self._gate.ended(state["attempt"], asking.exchange.principal, ended)
        return self._with_end(asking, told, shown)

    async def update(self, asking: Asking) -> dict[str, Any]:
        """The client's input is passed on, as a further round of its call, unless a person has stopped that; our own
        tasks ask for none.
        """
        _, kind, state = self._named(asking)
        if kind != "theirs":
            return {}
        await check_not_stopped(
            self._gate, asking.exchange.principal, (state["upstream"] or "",), tool=state.get("tool")
        )
        return await self._relay(asking, state)

    async def cancel(self, asking: Asking) -> dict[str, Any]:
        """The wish is passed on."""
        _, kind, state = self._named(asking)
        if kind == "theirs":
            return await self._relay(asking, state)
        attempt = await self._withdrawn(asking, state) if kind == "asked" else state["attempt"]
        if attempt is not None:
            self._gate.withdraw(attempt, asking.exchange.principal)
        return {}

    async def _withdrawn(self, asking: Asking, state: Mapping[str, Any]) -> str | None:
        """The question is taken back; or the attempt for which it is too late."""
        question = await self._question(asking, state)
        if self._gate.questions.heard_by_others(question):
            return None  # an equal call waits for the same answer
        await self._gate.questions.withdraw(question, asking.exchange.principal, "the client cancelled its task")
        return (await self._question(asking, state)).told.attempt

    def _named(self, asking: Asking) -> tuple[str, str, dict[str, Any]]:
        if not asking.has_tasks:
            data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise Fault(MISSING_CAPABILITY, "Missing required client capability", data=data)
        name = asking.params.get("taskId")
        try:
            if not isinstance(name, str):
                raise BrokenSeal("it is no string")  # noqa: TRY301 - one message for all that is wrong with it
            kind, state = self._seals.open(name, asking.exchange.principal, "", "ours", "theirs", "asked")
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
        return results.own(answer.result)

    async def _where_ours_stands(self, asking: Asking, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        try:
            shown = await self._gate.outcome(state["attempt"], asking.exchange.principal, _Hurried(asking))
        except NoSuchRun as error:
            raise Fault(INVALID_PARAMS, str(error)) from None
        under_way = shown.refusal is not None and shown.refusal.outcome is Outcome.IN_FLIGHT
        told = _task(name, "working", state["since"])
        return told if under_way else self._with_end(asking, told, shown)

    # --- calls that wait for a person ---------------------------------------------------------------------------------

    async def _question(self, asking: Asking, state: Mapping[str, Any]) -> Question:
        try:
            return await self._gate.questions.of(state["approval"], asking.exchange.principal, state["run"])
        except NoSuchRun as error:
            raise Fault(INVALID_PARAMS, str(error)) from None
        except LedgerUnavailable as error:
            raise Fault(INTERNAL_ERROR, f"the ledger cannot be read now: {error}") from None

    async def _where_asked_stands(self, asking: Asking, name: str, state: Mapping[str, Any]) -> dict[str, Any]:
        """Where the call stands. Whoever polls is there to hear what comes of it: so a poll may make it."""
        question = await self._question(asking, state)
        told = _waiting(name, state, waits_for(question))
        if question.awaits:
            return told
        if question.told.state == "withdrawn":
            return {**told, "status": "cancelled", "statusMessage": "the question was taken back"}
        try:
            shown = await self._came_of(asking, state, question)
        except NoSuchRun:  # the intent of its attempt is not on disk yet
            return told
        refused = shown.refusal
        if refused is not None and (refused.outcome is Outcome.IN_FLIGHT or _may_pass(shown, refused)):
            return {**told, "statusMessage": refused.reason}
        del told["statusMessage"]
        return self._with_end(asking, told, shown)

    async def _came_of(self, asking: Asking, state: Mapping[str, Any], question: Question) -> Shown:
        """What the call has come to: its own attempt, or of the call that used the answer up; else it is made now."""
        told, principal, caller = question.told, asking.exchange.principal, _Poll(asking)
        source, value = state["key"]
        key = Key(KeySource(source), value)
        made = await self._gate.questions.made(question, key) or (told.attempt if told.state == "used" else None)
        if made is not None:
            return await self._gate.outcome(made, principal, caller)
        if told.state != "approved":
            return await self._gate.questions.ended(question)
        if lacks := asking.exchange.lacks(state["tool"]):  # the call asked for them; a poll for it comes by this way
            named = ", ".join(f"`{one}`" for one in sorted(lacks))
            raise Fault(INVALID_REQUEST, f"the access token lacks a scope that this call needs: {named}")
        return await self._gate.call(await self._proposal(asking, state, key), caller)

    async def _proposal(self, asking: Asking, state: Mapping[str, Any], key: Key) -> Proposal:
        """The call, in the words in which it was made. Its key is its own for ever: it is made once."""
        try:
            arguments = await self._gate.questions.arguments(state["arguments"])
        except LedgerUnavailable as error:
            raise Fault(INTERNAL_ERROR, f"the ledger cannot be read now: {error}") from None
        if arguments is None:
            raise Fault(INTERNAL_ERROR, "the arguments of this call were erased, so that it cannot be made any more")
        return Proposal(
            run=state["run"],
            principal=asking.exchange.principal,
            tool=state["tool"],
            arguments=arguments,
            arguments_digest=state["arguments"],
            alike=alike_digest(dict(arguments), self._gate.salt),
            key=key,
            meta=state["meta"],
            attribution=asking.client.attribution,
            waited=True,
        )

    def _with_end(self, asking: Asking, told: dict[str, Any], shown: Shown) -> dict[str, Any]:
        asking.exchange.shown = shown
        if shown.error is not None:
            return {**told, "status": "failed", "error": dict(shown.error)}
        if told["status"] == "cancelled":
            return told
        return {**told, "status": "completed", "result": results.answered(shown)}


def _unended(result: Mapping[str, Any]) -> dict[str, Any]:
    """The task without what it ended with: that is told from its receipt alone, as any answer is."""
    return {key: value for key, value in result.items() if key not in {"result", "error"}}


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


def _waiting(name: str, state: Mapping[str, Any], says: str) -> dict[str, Any]:
    task = _task(name, "working", state["since"])
    return {**task, "ttlMs": state["ttl"], "statusMessage": says}


def _may_pass(shown: Shown, refused: Refusal) -> bool:
    """Whether the call has merely not begun now, and may when it is asked after next."""
    begun = shown.attempt is not None and refused.executed is not False
    return not begun and not refused.terminal and refused.retry_after_s is not None


def _kept(meta: Mapping[str, Any]) -> dict[str, Any]:
    """What an id carries of the client's `_meta`: nothing of this one request, and no more than fits in a header."""
    kept = {key: value for key, value in meta.items() if key != "progressToken" and not key.startswith(PROTOCOLS)}
    return kept if len(dump(kept)) <= MAX_META_CHARS else {}


PROTOCOLS = "io.modelcontextprotocol/"
"""Keys of the protocol's own: what they say is said of one request."""


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
