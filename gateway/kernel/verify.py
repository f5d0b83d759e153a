"""answer -> events. What the upstream said becomes a receipt; `evidence` says what becomes of what a probe said.

The upstream's "ok" is a claim. Where a transition names a verifier, only its evidence moves the phase.
A refused connection is known to have done nothing; a timeout is not; an error answer to a write never
proves that nothing happened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, assert_never

from gateway.kernel.rules import Rules
from gateway.kernel.schema import Unenforceable, violations
from gateway.model.canonical import Digest
from gateway.model.events import (
    AttemptAbandoned,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Effect,
    Event,
    PhaseMoved,
    ReceiptRecorded,
)
from gateway.model.policy import ToolRule
from gateway.model.run import Attempt, AttemptState, Run, RunState
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, ToolResult
from gateway.model.trusted import trusted

SUSPENDED_S = 600.0
"""How long an attempt may wait for input before it counts as unknown [SDK: request state lives 600 s]."""
TASK_S = 24 * 3600.0
"""How long for a task whose upstream does not say, and at the longest seven times that."""


@dataclass(frozen=True, slots=True)
class Cited:
    """An answer's payload, as the runtime stored it."""

    digest: Digest
    size_bytes: int


def observe(
    run: Run,
    attempt: Attempt,
    answer: Answer,
    cited: Cited | None,
    *,
    output_schema: Any,
    duration_s: float,
    now: datetime,
    failure: str | None,
    alike: Digest | None,
    refers: bool = False,
) -> Sequence[Event]:
    """What the answer makes of the attempt, and of the phase. Empty if the attempt can take no such answer any more.

    `failure` is the kind of an error, by `failure_of`; `alike` is what equal steps have in common, by `step_alike`.
    With `refers`, a result that the client has is told by reference.
    """
    match answer:
        case ToolResult(result):
            is_error = result.get("isError") is True
            valid = None if is_error else _valid(output_schema, result)
            repeats = _repeated(run, cited) if refers and not is_error else None
            receipt = _receipt(
                attempt,
                cited,
                duration_s,
                is_error=is_error,
                valid=valid,
                failure=failure,
                alike=alike,
                repeats=repeats,
            )
            return received(run, attempt, receipt)
        case ProtocolError():
            receipt = _receipt(attempt, cited, duration_s, answer="error", is_error=True, failure=failure, alike=alike)
            return received(run, attempt, receipt)
        case InputRequired() | TaskStarted():
            if attempt.state not in {AttemptState.OPEN, AttemptState.SUSPENDED} or cited is None:
                return ()
            awaits: Literal["input", "task"] = "input" if isinstance(answer, InputRequired) else "task"
            until = now + timedelta(seconds=_patience_s(answer))
            return (AttemptSuspended(attempt=attempt.id, awaits=awaits, answer=cited.digest, expires_at=until),)
        case NotSent(reason) if attempt.resumed:
            return lose(run, attempt, f"its earlier rounds were sent, and the next one was not: {reason}")
        case NotSent(reason) if attempt.sent > 1:
            return lose(run, attempt, f"it was sent before, and could not be sent again: {reason}")
        case NotSent(reason, needs_account=needs_account):
            unsent = AttemptUnsent(attempt=attempt.id, reason=reason, needs_account=needs_account)
            return (unsent,) if attempt.state is AttemptState.OPEN else ()
        case Silence(reason):
            return lose(run, attempt, reason)
        case _:
            assert_never(answer)


def failure_of(answer: Answer, arguments: Mapping[str, Any], rule: ToolRule, rules: Rules, now: datetime) -> str | None:
    """The kind of an error answer, as the registry tells them apart; None for none, or one that it does not name."""
    match answer:
        case ToolResult(result) if result.get("isError") is True:
            told = dict(result)
        case ProtocolError(error):
            told = {"isError": True, "error": dict(error)}
        case _:
            return None
    values = {"result": told, "args": dict(arguments), "values": rules.policy.values, "now": now}
    for failure, expressions in rule.failures.items():
        if all(rules.condition("verifier", expression).decide(values) is True for expression in expressions):
            return failure
    wrong = isinstance(answer, ProtocolError) and answer.error.get("code") == INVALID_PARAMS
    return "invalid" if wrong else None


INVALID_PARAMS = -32602
"""[JSON-RPC 2.0, 5.1]"""


REFERRED_BYTES = 1_024
"""A smaller result is told again: a reference to it would be as long."""


def _repeated(run: Run, cited: Cited | None) -> str | None:
    """The attempt by which the client got this very result before."""
    return run.given.get(cited.digest) if cited is not None and cited.size_bytes >= REFERRED_BYTES else None


def _patience_s(answer: InputRequired | TaskStarted) -> float:
    if isinstance(answer, InputRequired):
        return SUSPENDED_S
    ttl_ms = answer.result.get("ttlMs")
    if not isinstance(ttl_ms, int | float) or isinstance(ttl_ms, bool) or ttl_ms < 0:
        return TASK_S
    return float(min(ttl_ms / 1000, 7 * TASK_S))


def lose(run: Run, attempt: Attempt, reason: str) -> Sequence[Event]:
    """No answer came, or nobody is left who waits for one. A read is let go; a write is held as unknown."""
    if attempt.state not in {AttemptState.OPEN, AttemptState.SUSPENDED}:
        return ()
    if attempt.intent.effect is Effect.READ:
        return (AttemptAbandoned(attempt=attempt.id, reason=reason),)
    unknown = AttemptUnknown(attempt=attempt.id, reason=reason)
    return (unknown, *edge_taken(run, attempt, "timeout_unknown", run.version + 1))


def _receipt(
    attempt: Attempt,
    cited: Cited | None,
    duration_s: float,
    *,
    is_error: bool,
    answer: Literal["result", "error"] = "result",
    valid: bool | None = None,
    failure: str | None = None,
    alike: Digest | None = None,
    repeats: str | None = None,
) -> ReceiptRecorded:
    return _receipt_recorded(
        attempt=attempt.id,
        source="upstream",
        answer=answer,
        is_error=is_error,
        result=cited.digest if cited else None,
        size_bytes=cited.size_bytes if cited else 0,
        schema_valid=valid,
        duration_s=duration_s,
        late=attempt.state is not AttemptState.OPEN,
        by=None,
        reason=None,
        failure=failure,
        artifact=None,
        alike=alike,
        repeats=repeats,
    )


_receipt_recorded = trusted(ReceiptRecorded)


def _valid(schema: Any, result: Mapping[str, Any]) -> bool | None:
    """Whether the structured result keeps the tool's output schema; it is relayed either way."""
    if not isinstance(schema, Mapping):
        return None
    if "structuredContent" not in result:
        return False
    try:
        return not violations(schema, result["structuredContent"], limit=1)
    except Unenforceable:
        return False


def received(run: Run, attempt: Attempt, receipt: ReceiptRecorded) -> Sequence[Event]:
    """The receipt, and the phase that follows from it; nothing if the attempt has one already."""
    if attempt.state is AttemptState.ANSWERED:
        return ()  # the first recorded answer counts; a duplicate is the upstream's slip
    place = run.version + 1
    if receipt.is_error:
        edge = receipt.failure if receipt.failure in attempt.intent.edges else "error"
        return (receipt, *edge_taken(run, attempt, edge or "error", place))
    if receipt.schema_valid is False:
        return (receipt, *edge_taken(run, attempt, "invalid", place))  # a result that breaks its schema proves nothing
    if attempt.intent.verifiers:
        return (receipt,)  # evidence moves the phase
    return (receipt, *advance(run, attempt, place))


def advance(run: Run, attempt: Attempt, *because: int) -> Sequence[Event]:
    """The phase that the attempt leads to, once it has done its work; nothing if it leads nowhere."""
    target = attempt.intent.target
    return _move(run, attempt, target, because) if target else ()


def edge_taken(run: Run, attempt: Attempt, edge: str, *because: int) -> Sequence[Event]:
    """The phase that this failure of the attempt leads to; nothing if policy names none."""
    target = attempt.intent.edges.get(edge)
    return _move(run, attempt, target, because) if target else ()


def _move(run: Run, attempt: Attempt, target: str, because: tuple[int, ...]) -> Sequence[Event]:
    # INVARIANT: a phase moves only if the run still goes on, and is where it was when the call was allowed.
    if run.state is not RunState.RUNNING or run.phase != attempt.intent.phase or run.phase == target:
        return ()
    transition = attempt.intent.transition or ""
    return (PhaseMoved(source=run.phase, target=target, transition=transition, attempt=attempt.id, because=because),)
