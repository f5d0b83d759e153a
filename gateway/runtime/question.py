"""What a page about one question shows beside its packet: who must agree, how far a yes goes, what was asked before."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.kernel.approve import pending
from gateway.model.approval import Approval
from gateway.model.asked import Offer, Risk, Stage
from gateway.model.events import ApprovalRequested
from gateway.model.record import utc
from gateway.model.run import Run, RunState
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in


@dataclass(frozen=True, slots=True)
class StageTold:
    """One of the answers that are needed, in order."""

    stage: Stage
    agreed: tuple[str, ...]
    """Who has said yes in it."""
    waits: bool


@dataclass(frozen=True, slots=True)
class Earlier:
    """The question before this one about the same tool."""

    approval: str
    asked_at: datetime
    decision: str
    """What became of it; empty where nobody has answered."""
    by: str
    reason: str
    arguments: Mapping[str, Any] | None
    """None where they were erased or changed."""


@dataclass(frozen=True, slots=True)
class Question:
    """One question to people."""

    approval: str
    action: str
    pending: bool
    risk: Risk
    reasons: str
    """When a reviewer must say why: `never`, `rejection` or `always`."""
    stages: tuple[StageTold, ...]
    agreed: tuple[tuple[str, str], ...]
    """Tenant and id of all who have said yes."""
    offer: Offer | None
    """How far beyond one call a yes may go."""
    decision: str
    decided_by: str
    reason: str
    superseded_by: str
    """The question that took its place."""
    supersedes: tuple[str, ...]
    seen: tuple[str, ...]
    """Who has looked at it."""
    earlier: Earlier | None
    because: str
    """Why it is asked anew."""
    unchanged: tuple[str, ...]
    """Verifiers of which what they saw must be the same when the call is sent."""
    granted: str
    """How far the yes went, in words; empty for one call."""


async def question_of(book: Book, run: Run, name: str) -> Question | None:
    """The question of that run; None if it has none of that name.

    Raises: LedgerUnavailable.
    """
    mine = run.approvals.get(name)
    if mine is None:
        return None
    asked = await _asked(book, run, mine)
    superseded = mine.decision == "superseded"
    return Question(
        approval=name,
        action=mine.action,
        pending=pending(mine, utc(book.clock.now())) and run.state is RunState.RUNNING,
        risk=mine.terms.risk,
        reasons=mine.terms.reasons,
        stages=tuple(_stages(mine)),
        agreed=mine.agreed,
        offer=mine.terms.reuse,
        decision=mine.decision or "",
        decided_by="" if superseded else mine.by or "",
        reason=mine.reason,
        superseded_by=(mine.by or "") if superseded else "",
        supersedes=() if asked is None else asked.supersedes,
        seen=tuple(who for _, who in mine.seen),
        earlier=await _earlier(book, run, mine),
        because="" if asked is None else asked.because,
        unchanged=tuple(verifier for verifier, _ in mine.state),
        granted=_granted(mine),
    )


def _stages(mine: Approval) -> Iterator[StageTold]:
    agreed, waits = [who for _, who in mine.agreed], mine.decision is None
    for stage in mine.stages:
        here, agreed = agreed[: stage.quorum], agreed[stage.quorum :]
        lacks = len(here) < stage.quorum
        yield StageTold(stage, tuple(here), waits and lacks)
        waits = waits and not lacks


def _granted(mine: Approval) -> str:
    if mine.granted is None:
        return ""
    times = "any number of calls" if mine.granted.times is None else f"{mine.granted.times} calls"
    return f"{times} until {mine.granted.until.isoformat(timespec='seconds')}"


async def _asked(book: Book, run: Run, mine: Approval) -> ApprovalRequested | None:
    found = await book.ledger.read(run.id, mine.seq - 1, limit=1)
    event = found[0][0].event if found else None
    return event if isinstance(event, ApprovalRequested) else None


async def _earlier(book: Book, run: Run, mine: Approval) -> Earlier | None:
    last = run.approvals.get(mine.follows or "")
    if last is None:
        return None
    return Earlier(
        last.id,
        last.requested_at,
        last.decision or "",
        "" if last.decision == "superseded" else last.by or "",
        last.reason,
        await stored_in(book.ledger, last.arguments),
    )


async def arguments_of(book: Book, run_id: str, name: str) -> Mapping[str, Any] | None:
    """Of a question or an attempt; None where they were erased, or there are none.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    run = await book.state_of(run_id)
    attempt, mine = run.attempts.get(name), run.approvals.get(name)
    if attempt is not None:
        return await stored_in(book.ledger, attempt.intent.arguments)
    return None if mine is None else await stored_in(book.ledger, mine.arguments)
