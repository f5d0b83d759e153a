"""(an unknown attempt, what its upstream says of it) -> events. What no probe can tell stays unknown, for a person.

A "yes" counts at any time. A "no" counts only once the upstream can no longer act on the call, which is for the
runtime to say: it has watched. What is sent again goes under the key by which the upstream knows it from a second call.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from gateway.kernel.conditions import Undecided
from gateway.kernel.evidence import filled, trouble
from gateway.kernel.registry import Registered
from gateway.kernel.rules import Rules
from gateway.kernel.verify import Cited, received
from gateway.model.events import (
    AttemptQueried,
    AttemptRefuted,
    AttemptResent,
    Denied,
    Event,
    Held,
    ReceiptRecorded,
    Verdict,
)
from gateway.model.policy import StatusQuery
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.tool import Answer, ToolResult

Found: TypeAlias = Literal["happened", "absent", "inconclusive"]


@dataclass(frozen=True, slots=True)
class Answered:
    """What an upstream said when it was asked whether an attempt happened."""

    found: Found
    says: str
    """One sentence."""


def query_of(known: Registered) -> StatusQuery | None:
    """How the upstream is asked whether a call of this tool happened; None where it cannot be."""
    told = known.rule.idempotency
    return None if told is None else told.query


def honours_key(known: Registered) -> bool:
    """Whether the upstream knows a call that is sent again by its key, which reaches it, and for how long is told."""
    told = known.rule.idempotency
    if told is None or told.key is None or told.valid_s is None:
        return False
    return told.key.header is None or known.tool.headers


def key_lives(attempt: Attempt, known: Registered, now: datetime) -> bool:
    """Whether the upstream still remembers the key of the first sending when another one has ended, begun now."""
    told = known.rule.idempotency
    if told is None or told.valid_s is None:
        return False
    grace_s = known.rule.grace_s
    return now + timedelta(seconds=attempt.intent.timeout_s + grace_s) < attempt.at + timedelta(seconds=told.valid_s)


def query_arguments(
    query: StatusQuery, attempt: Attempt, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> dict[str, Any] | Undecided:
    """What the upstream is asked with, about that attempt, which was made with these arguments."""
    return filled(query.probe, "query", _values(attempt, arguments, rules, now), rules)


def judge_status(
    query: StatusQuery, attempt: Attempt, answer: Answer, arguments: Mapping[str, Any], rules: Rules, now: datetime
) -> Answered:
    """What the answer to the status query tells of the attempt."""
    asked = f"`{query.probe.tool}`"
    if not isinstance(answer, ToolResult):
        return Answered("inconclusive", f"{asked} could not tell: {trouble(answer)}")
    if answer.result.get("isError") is True:
        return Answered("inconclusive", f"{asked} could not tell: it answered with an error")
    values = _values(attempt, arguments, rules, now) | {"result": dict(answer.result)}
    happened = _all(query.happened, values, rules)
    absent = _all(query.absent, values, rules) if query.absent else False
    if happened is True and absent is not True:
        return Answered("happened", f"{asked} knows of it")
    if absent is True and happened is False:
        return Answered("absent", f"{asked} knows nothing of it")
    unclear = next((one.reason for one in (happened, absent) if isinstance(one, Undecided)), None)
    both = "its answer says both" if happened is True else "its answer proves neither"
    return Answered("inconclusive", f"{asked} could not tell: {unclear or both}")


def _all(expressions: tuple[str, ...], values: Mapping[str, Any], rules: Rules) -> bool | Undecided:
    """Whether all hold; one that does not counts more than one that cannot be judged."""
    found = [rules.condition("status", expression).decide(values) for expression in expressions]
    if any(one is False for one in found):
        return False
    return next((one for one in found if isinstance(one, Undecided)), True)


def _values(attempt: Attempt, arguments: Mapping[str, Any], rules: Rules, now: datetime) -> dict[str, Any]:
    return {"args": dict(arguments), "key": attempt.id, "values": rules.policy.values, "now": now}


def queried(
    run: Run, attempt_id: str, found: Answered, cited: Cited | None, *, started_at: datetime, settled: bool
) -> tuple[Event, ...]:
    """What the answer makes of the attempt: its receipt, its refutation, or a note where it says something new.

    `settled`: the upstream could no longer act on the call when it was asked.
    """
    attempt = run.attempts.get(attempt_id)
    if attempt is None or attempt.state is not AttemptState.UNKNOWN:
        return ()  # a late answer, a person or another gateway was quicker
    artifact = cited.digest if cited else None
    if found.found == "happened":
        receipt = ReceiptRecorded(
            attempt=attempt.id,
            source="probe",
            answer="result",
            is_error=False,
            late=True,
            reason=found.says,
            artifact=artifact,
        )
        return tuple(received(run, attempt, receipt))
    if found.found == "absent" and settled:
        return (AttemptRefuted(attempt=attempt.id, source="probe", reason=found.says, artifact=artifact),)
    return noted(attempt, found, cited, started_at=started_at)


def resending(run: Run, attempt_id: str, verdict: Verdict, now: datetime) -> tuple[Event, ...]:
    """The verdict, if the attempt may be sent again; else what is against it, where that is new."""
    attempt = run.attempts.get(attempt_id)
    if isinstance(verdict, AttemptResent):
        return (verdict,)
    if attempt is None or attempt.state is not AttemptState.UNKNOWN:
        return ()
    why = verdict.reason if isinstance(verdict, Denied | Held) else "a person would have to be asked"
    return noted(attempt, Answered("inconclusive", f"it is not sent again: {why}"), started_at=now)


def noted(attempt: Attempt, found: Answered, cited: Cited | None = None, *, started_at: datetime) -> tuple[Event, ...]:
    """What was found that settles nothing; empty where it was found before."""
    verdict: Literal["absent", "inconclusive"] = "absent" if found.found == "absent" else "inconclusive"
    if attempt.queried == (verdict, found.says):
        return ()
    artifact = cited.digest if cited else None
    return (
        AttemptQueried(attempt=attempt.id, verdict=verdict, says=found.says, artifact=artifact, started_at=started_at),
    )
