"""What waits for people, as the ledger has it: how such things are found, and what is told of one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from gateway.kernel.approve import pending, stands
from gateway.model.asked import Risk
from gateway.model.events import ApprovalRequested, ApprovalWithdrawn, Effect
from gateway.model.notice import Subject
from gateway.model.record import Record, utc
from gateway.model.run import Approval, Attempt, AttemptState, Run, Tracked
from gateway.ports import UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.inbox import LISTED

_SUBJECTS: Mapping[str, Subject] = {"awaiting": "approval", "unknown": "unknown", "escalated": "escalation"}

VOID = "void, for its run is over"
OVER = frozenset({"superseded", "withdrawn", VOID})
"""States of a question that nobody answered and nobody need answer any more."""

FOUND = 500
"""Questions and withdrawals that are looked through for what is over, the newest."""


@dataclass(frozen=True, slots=True)
class Waits:
    """That something waits."""

    about: Subject
    name: str
    run: str
    row: Tracked | None = None
    """What can be claimed, so that one gateway at a time tells of it; None where that would be in somebody's way."""


@dataclass(frozen=True, slots=True)
class Matter:
    """What is told of it. No arguments of a call: they may hold anything."""

    about: Subject
    name: str
    run: str
    seq: int
    """The record of the run that asks."""
    asked_at: datetime
    state: str
    """`open`, or what became of it."""
    told: Mapping[str, str]
    """What became of messages to people, of this run."""
    tenant: str = ""
    principal: str = ""
    workflow: str = ""
    expires_at: datetime | None = None
    tool: str | None = None
    transition: str | None = None
    reason: str = ""
    risk: Risk = "medium"
    consequence: str = ""
    roles: tuple[str, ...] = ()
    """In one of which a person must answer next; nothing where anybody may."""
    agreed: int = 0
    needed: int = 1
    instead: str = ""
    """The question that took its place."""
    staged: bool = False
    """Whether others are asked once those who are asked now have agreed."""


async def waiting(book: Book) -> Sequence[Waits]:
    """All that waits for a person now, oldest first.

    Raises: LedgerUnavailable.
    """
    return [_waits(one) for one in await book.ledger.tracked(states=LISTED)]


def _waits(one: Tracked) -> Waits:
    # Whoever holds the row of an unknown attempt keeps recovery from settling it, so that one is never claimed here.
    return Waits(_SUBJECTS[one.state], one.attempt, one.run, None if one.state == "unknown" else one)


async def over(book: Book, within_s: float) -> Sequence[Waits]:
    """Questions that nobody need answer any more, since the newest of them in that time.

    Raises: LedgerUnavailable.
    """
    since, found = utc(book.clock.now()) - timedelta(seconds=within_s), list[Waits]()
    for record in await _found(book, "approval.requested", "approval.withdrawn"):
        match record.event:
            case ApprovalRequested(supersedes=names) if record.at >= since:
                found += [Waits("approval", name, record.run) for name in names]
            case ApprovalWithdrawn(approval=name) if record.at >= since:
                found.append(Waits("approval", name, record.run))
            case _:
                pass
    return found


async def decided(book: Book) -> Mapping[str, str]:
    """The newest answers of people, by record, each with its run.

    Raises: LedgerUnavailable.
    """
    return {one.id: one.run for one in await _found(book, "approval.decided")}


async def _found(book: Book, *kinds: str) -> Sequence[Record]:
    """The newest of these kinds; none where one of them is damaged, which others tell of."""
    try:
        return await book.ledger.find(kinds, limit=FOUND)
    except UnreadableRecord:
        return ()


async def question(book: Book, waits: Waits, *, whole: bool = True) -> Matter | None:
    """What is to be told of it, by the run's latest state; None where the run does not know it.

    Without `whole` it may be of a moment ago, and lacks the reason of an approval.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    run = await (book.fresh_state_of(waits.run) if whole else book.state_of(waits.run))
    match waits.about:
        case "approval":
            approval = run.approvals.get(waits.name)
            if approval is None:
                return None
            reason = await _reason(book, run, approval) if whole else ""
            return _approval(run, approval, reason, utc(book.clock.now()))
        case "unknown":
            attempt = run.attempts.get(waits.name)
            return None if attempt is None else _attempt(run, attempt)
        case "escalation":
            return _escalated(run)


async def _reason(book: Book, run: Run, approval: Approval) -> str:
    (found,) = await book.ledger.read(run.id, approval.seq - 1, limit=1)
    event = found[0].event
    if not isinstance(event, ApprovalRequested):
        return ""
    # What it was asked anew for may quote what was seen of the call; that is for the console to show.
    return f"{event.reason}; asked anew, for what a yes rested on has changed" if event.because else event.reason


def _matter(run: Run, about: Subject, name: str, seq: int, asked_at: datetime, state: str) -> Matter:
    """What is told of the run, whatever it is about."""
    who = run.principal
    tenant, principal = ("", "") if who is None else (who.tenant, who.id)
    return Matter(about, name, run.id, seq, asked_at, state, run.told, tenant, principal, run.workflow)


def _approval(run: Run, approval: Approval, reason: str, now: datetime) -> Matter:
    stage, agreed = approval.waits_for or (approval.stages[-1], approval.stages[-1].quorum)
    state = _state(run, approval, now)
    return replace(
        _matter(run, "approval", approval.id, approval.seq, approval.requested_at, state),
        expires_at=approval.expires_at,
        tool=approval.tool,
        transition=approval.rule,
        reason=reason,
        risk=approval.terms.risk,
        consequence=approval.terms.consequence,
        roles=() if stage.role is None else (stage.role,),
        agreed=agreed,
        needed=stage.quorum,
        instead=(approval.by or "") if approval.decision == "superseded" else "",
        staged=stage is not approval.stages[-1],
    )


def _state(run: Run, approval: Approval, now: datetime) -> str:
    """What became of the question, whatever became of the yes to it."""
    match stands(run, approval, now):
        case "superseded" if approval.waits_for is None:
            return "approved"  # whoever was told of it has answered
        case "approved" | "used" | "lapsed":
            return "approved"
        case "closed":
            return VOID
        case "awaiting" | "void":
            return "open" if pending(approval, now) else "expired"
        case state:
            return state


def _attempt(run: Run, attempt: Attempt) -> Matter:
    intent = attempt.intent
    state = "open" if attempt.state is AttemptState.UNKNOWN else str(attempt.state)
    return replace(
        _matter(run, "unknown", attempt.id, attempt.seq, attempt.at, state),
        tool=intent.tool,
        transition=intent.transition,
        reason="whether it happened is not known",
        risk="high" if intent.effect is Effect.DESTRUCTIVE else "medium",
        consequence=f"a {intent.effect} call; equal calls are held in every run until it is settled",
    )


def _escalated(run: Run) -> Matter | None:
    if run.stopped is None or run.stopped_seq is None or run.last_at is None:
        return None
    state = "open" if run.acknowledged is None else "acknowledged"
    return replace(
        _matter(run, "escalation", run.id, run.stopped_seq, run.last_at, state),
        reason=run.stopped.reason,
        risk="high",
        consequence="the run is over and waits for a person",
    )
