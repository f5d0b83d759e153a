"""answer -> events. What the upstream said becomes a receipt; what a probe said becomes evidence.

The upstream's "ok" is a claim. Where a transition names a verifier, only its evidence moves the phase.
A refused connection is known to have done nothing; a timeout is not; an error answer to a write never
proves that nothing happened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, assert_never

from gateway.kernel.conditions import Kind, Undecided
from gateway.kernel.fresh import overtaken
from gateway.kernel.rules import Rules
from gateway.kernel.schema import Unenforceable, violations
from gateway.kernel.values import proven
from gateway.model.canonical import Digest, digest
from gateway.model.events import (
    AttemptAbandoned,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Effect,
    Event,
    EvidenceRecorded,
    PhaseMoved,
    ReceiptRecorded,
)
from gateway.model.policy import ProbeCall, ToolRule, Verifier
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
) -> Sequence[Event]:
    """What the answer makes of the attempt, and of the phase. Empty if the attempt can take no such answer any more.

    `failure` is the kind of an error, by `failure_of`; `alike` is what equal steps have in common, by `step_alike`.
    """
    match answer:
        case ToolResult(result):
            is_error = result.get("isError") is True
            valid = None if is_error else _valid(output_schema, result)
            receipt = _receipt(attempt, cited, duration_s, is_error=is_error, valid=valid, failure=failure, alike=alike)
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
        case NotSent(reason):
            return (AttemptUnsent(attempt=attempt.id, reason=reason),) if attempt.state is AttemptState.OPEN else ()
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
    return (unknown, *_edge(run, attempt, "timeout_unknown", run.version + 1))


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
        return (receipt, *_edge(run, attempt, edge or "error", place))
    if receipt.schema_valid is False:
        return (receipt, *_edge(run, attempt, "invalid", place))  # a result that breaks its schema proves nothing
    if attempt.intent.verifier is not None:
        return (receipt,)  # evidence moves the phase
    return (receipt, *_advance(run, attempt, place))


def _advance(run: Run, attempt: Attempt, *because: int) -> Sequence[Event]:
    target = attempt.intent.target
    return _move(run, attempt, target, because) if target else ()


def _edge(run: Run, attempt: Attempt, edge: str, *because: int) -> Sequence[Event]:
    target = attempt.intent.edges.get(edge)
    return _move(run, attempt, target, because) if target else ()


def _move(run: Run, attempt: Attempt, target: str, because: tuple[int, ...]) -> Sequence[Event]:
    # INVARIANT: a phase moves only if the run still goes on, and is where it was when the call was allowed.
    if run.state is not RunState.RUNNING or run.phase != attempt.intent.phase or run.phase == target:
        return ()
    transition = attempt.intent.transition or ""
    return (PhaseMoved(source=run.phase, target=target, transition=transition, attempt=attempt.id, because=because),)


@dataclass(frozen=True, slots=True)
class Question:
    """A probe to make, and what it is for."""

    verifier: str
    rule: Verifier
    attempt: Attempt
    after: int
    """The run's version when the probe starts."""


def question(run: Run, attempt_id: str, rules: Rules) -> Question | None:
    """The verifier that must speak about this attempt now, or None."""
    attempt = run.attempts[attempt_id]
    name = attempt.intent.verifier
    if name is None or not attempt.unverified:
        return None
    return Question(name, rules.policy.verifiers[name], attempt, run.version)


def settle(
    run: Run,
    asked: Question,
    answer: Answer,
    cited: Cited | None,
    arguments: Mapping[str, Any],
    rules: Rules,
    *,
    started_at: datetime,
    duration_s: float,
    now: datetime,
) -> Sequence[Event]:
    """The verifier's verdict about the attempt, and the phase that follows from it."""
    verdict, says = judged(asked.verifier, asked.rule, run, answer, arguments, rules, now)
    evidence = EvidenceRecorded(
        verifier=asked.verifier,
        verdict=verdict,
        attempt=asked.attempt.id,
        scope=_scope(asked.rule, run, answer, arguments, rules, now),
        covers=asked.rule.covers,
        signature=_signature(asked, answer, says) if verdict != "pass" else None,
        says=says,
        artifact=cited.digest if cited else None,
        started_at=started_at,
        duration_s=duration_s,
        after=asked.after,
    )
    attempt, place = run.attempts[asked.attempt.id], run.version + 1
    if not attempt.unverified:
        return ()  # another gateway was quicker
    if verdict == "pass":
        # INVARIANT: evidence that was overtaken while it was made moves nothing; the reducer calls it stale as well.
        return (evidence,) if overtaken(run, evidence) else (evidence, *_advance(run, attempt, place))
    # Whoever could not look has found nothing wrong: only a failure takes the failure's edge.
    return (evidence, *(_edge(run, attempt, "verification_failed", place) if verdict == "fail" else ()))


def probe_arguments(
    rule: Verifier, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> dict[str, Any] | Undecided:
    """What the verifier's probe is asked with, about a call with these arguments."""
    values = {"args": dict(arguments), "values": rules.policy.values, "now": now}
    return filled(rule.probe, "probe", values, rules)


def filled(probe: ProbeCall, kind: Kind, values: Mapping[str, Any], rules: Rules) -> dict[str, Any] | Undecided:
    """The arguments of the probe, those included that are told by formulas of that kind over the values."""
    asked = dict(probe.arguments)
    for name, formula in probe.arguments_from.items():
        found = rules.value(kind, formula).find(values)
        if isinstance(found, Undecided):
            return found
        asked[name] = found
    return asked


def _scope(
    rule: Verifier, run: Run, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> dict[str, Any]:
    """What the evidence is about; what cannot be told is left out, and a condition that reads it is undecided."""
    asked = probe_arguments(rule, arguments, rules, now)
    scope = {"tool": rule.probe.tool, "arguments": {} if isinstance(asked, Undecided) else asked, **rule.scope}
    if isinstance(answer, ToolResult):
        values = _values(run, answer, arguments, rules, now)
        told = ((name, rules.value("verifier", formula).find(values)) for name, formula in rule.scope_from.items())
        scope |= {name: found for name, found in told if not isinstance(found, Undecided)}
    return scope


def _values(run: Run, answer: ToolResult, arguments: Mapping[str, Any], rules: Rules, now: datetime) -> dict[str, Any]:
    return {
        "result": dict(answer.result),
        "args": dict(arguments),
        "evidence": proven(run),
        "values": rules.policy.values,
        "now": now,
    }


def judged(
    name: str, rule: Verifier, run: Run, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> tuple[Literal["pass", "fail", "inconclusive"], str]:
    """The verifier's verdict by its probe's answer, and what it says in one sentence."""
    if not isinstance(answer, ToolResult):
        return "inconclusive", f"`{name}` could not check: {trouble(answer)}"
    if answer.result.get("isError") is True:
        return "inconclusive", f"`{name}` could not check: the probe answered with an error"
    values = _values(run, answer, arguments, rules, now)
    for expression in rule.passes:
        held = rules.condition("verifier", expression).decide(values)
        if isinstance(held, Undecided):
            return "inconclusive", f"`{name}` could not judge `{expression}`: {held.reason}"
        if not held:
            return "fail", f"`{name}` found that `{expression}` does not hold"
    return "pass", f"`{name}` passed"


def _signature(asked: Question, answer: Answer, says: str) -> str:
    content = answer.result.get("structuredContent") if isinstance(answer, ToolResult) else None
    told = {name: content.get(name) for name in asked.rule.signature} if isinstance(content, Mapping) else {}
    return digest({"verifier": asked.verifier, "says": says, "told": told}, b"")


def trouble(answer: Answer) -> str:
    """Why a probe found nothing, in half a sentence."""
    match answer:
        case ProtocolError(error):
            return f"the probe was refused with code {error.get('code')}"
        case NotSent(reason) | Silence(reason):
            return reason
        case _:
            return "the probe wants more input"
