"""(run, record) -> what happened in one sentence, and how relevant that is; None for what is routine. Pure."""

from collections import Counter
from collections.abc import Iterable
from typing import Literal, TypeAlias, assert_never

from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    Asking,
    AttemptAbandoned,
    AttemptQueried,
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Claim,
    CompensationFailed,
    CompensationOwed,
    Denied,
    EscalationAcknowledged,
    EvidenceRecorded,
    FinishClaimed,
    FinishRefused,
    Held,
    IntentRecorded,
    NoticeSent,
    OutcomeDelivered,
    PayloadsErased,
    PhaseMoved,
    PlanInvalidated,
    ReceiptRecorded,
    Replayed,
    RunMigrated,
    RunOpened,
    RunStopped,
    SwitchLifted,
    SwitchThrown,
)
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.model.status import News, Since

About: TypeAlias = Literal["failure", "evidence", "phase", "approval", "stop", "hold"]

RELEVANCE: tuple[About, ...] = ("failure", "evidence", "phase", "approval", "stop", "hold")
"""The most relevant first."""

MAX_NEWS = 30
MAX_CHARS = 300
"""Of one sentence."""


def since(run: Run, records: Iterable[Record]) -> Since:
    """What these records of the run say, the most relevant first and of those the newest; the rest is counted."""
    news: list[News] = []
    routine: Counter[str] = Counter()
    for record in records:
        found = sentence(run, record)
        if found is None:
            routine[record.event.kind] += 1
        else:
            news.append(News(event=record.id, about=found[0], says=shortened(found[1])))
    news.reverse()
    news.sort(key=lambda one: RELEVANCE.index(one.about))
    return Since(events=tuple(news[:MAX_NEWS]), more=max(0, len(news) - MAX_NEWS), routine=dict(routine))


def shortened(text: str) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= MAX_CHARS else f"{text[: MAX_CHARS - 1]}…"


def sentence(run: Run, record: Record) -> tuple[About, str] | None:  # noqa: C901, PLR0912 - one arm a kind
    """What the record says; None for what is routine. `run` knows its attempt."""
    event = record.event
    attempt = run.attempts.get(getattr(event, "attempt", None) or "")
    call = "a call" if attempt is None else f"`{attempt.intent.tool}` ({attempt.id})"
    if isinstance(event, Claim):
        return ("failure", event.says) if isinstance(event, PlanInvalidated) else None
    if isinstance(event, Asking):
        return _asked(event)
    match event:
        case ReceiptRecorded():
            return _received(event, call)
        case AttemptUnsent() | AttemptUnknown() | AttemptAbandoned():
            return "failure", f"{call} {_LOST[event.kind]}: {event.reason}"
        case AttemptRefuted():
            return "hold", f"{call} did not happen: {event.reason}"
        case EvidenceRecorded():
            return ("failure" if event.verdict == "fail" else "evidence"), f"{event.verdict}: {event.says}"
        case CompensationOwed():
            return "failure", f"{call} must be undone: {event.reason}"
        case CompensationFailed():
            return "failure", f"{call} is not undone, a person must: {event.reason}"
        case PhaseMoved():
            return "phase", f"the run moved from `{event.source}` to `{event.target}` by `{event.transition}`"
        case RunMigrated():
            return "phase", "the run goes on under a newer text of its policy"
        case RunStopped():
            return "stop", f"the run is over as {event.outcome}: {event.reason}"
        case FinishRefused():
            return "failure", f"it was said to be done, and lacks {', '.join(event.lacking)}"
        case Denied():
            return "hold", f"`{event.tool}` was refused ({event.outcome}): {event.reason}"
        case Held():
            return "hold", f"`{event.tool}` was not sent ({event.outcome}): {event.reason}"
        case (
            RunOpened()
            | IntentRecorded()
            | Replayed()
            | AttemptSuspended()
            | AttemptResumed()
            | AttemptResent()
            | AttemptQueried()
            | OutcomeDelivered()
            | FinishClaimed()
            | NoticeSent()
            | PayloadsErased()
            | SwitchThrown()
            | SwitchLifted()
        ):
            return None
        case _:
            assert_never(event)


def _asked(event: Asking) -> tuple[About, str] | None:
    match event:
        case ApprovalRequested():
            return (
                "approval",
                f"a person is asked about `{event.tool}` ({event.approval}): {event.because or event.reason}",
            )
        case ApprovalDecided():
            why = f": {event.reason}" if event.reason else ""
            return "approval", f"`{event.by.id}` {event.decision} {event.approval}{why}"
        case ApprovalWithdrawn():
            return "approval", f"`{event.by.id}` took {event.approval} back"
        case ApprovalExpired():
            return "approval", f"nobody answered {event.approval} in time"
        case EscalationAcknowledged():
            return "stop", f"`{event.by.id}` has taken over the run"
        case ApprovalSeen():
            return None
        case _:
            assert_never(event)


_LOST = {
    "attempt.unsent": "was not sent",
    "attempt.unknown": "has no known outcome",
    "attempt.abandoned": "was given up",
}


def _received(event: ReceiptRecorded, call: str) -> tuple[About, str] | None:
    if event.source != "upstream":
        return "hold", f"{call} happened: {event.reason}"
    if event.is_error:
        return "failure", f"{call} ended with an error" + (f" ({event.failure})" if event.failure else "")
    return ("failure", f"the result of {call} breaks its schema") if event.schema_valid is False else None
