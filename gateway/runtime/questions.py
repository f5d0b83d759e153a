"""What waits for people, as the ledger has it: how such things are found, and what is told of one of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gateway.kernel.risk import would
from gateway.kernel.registry import Registered, registered
from gateway.model.canonical import Digest
from gateway.model.events import ApprovalRequested, Effect
from gateway.model.notice import Risk, Subject
from gateway.model.record import utc
from gateway.model.run import Approval, Attempt, AttemptState, Run, Tracked
from gateway.model.tool import Tool
from gateway.runtime.book import Book
from gateway.runtime.explain import rules_in, stored_in

FOUND = 1_000
"""Questions that are looked through, the newest."""


@dataclass(frozen=True, slots=True)
class Waits:
    """That something waits."""

    about: Subject
    name: str
    run: str
    row: Tracked | None = None
    """What can be claimed, so that one gateway at a time tells of it; None where that would be in somebody's way."""


@dataclass(frozen=True, slots=True)
class Question:
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
    """In one of which a person must answer; nothing where anybody may."""
    agreed: int = 0
    needed: int = 1
    instead: str = ""
    """The question that took its place."""


async def waiting(book: Book) -> Sequence[Waits]:
    """All that waits for a person now, oldest first.

    Raises: LedgerUnavailable.
    """
    found: list[Waits] = []
    for record in reversed(await book.ledger.find(["approval.requested"], limit=FOUND)):
        if isinstance(record.event, ApprovalRequested):
            run, name = await book.state_of(record.run), record.event.approval
            if run.stopped is None and _stands(run.approvals[name], utc(book.clock.now())) == "open":
                found.append(Waits("approval", name, record.run))
    found += [Waits("unknown", one.attempt, one.run) for one in await book.ledger.tracked(states={"unknown"})]
    return found


async def question(book: Book, waits: Waits, *, whole: bool = True) -> Question | None:
    """What is to be told of it, by the run's latest state; None where the run does not know it.

    Without `whole` it lacks what takes more than the run's state to say: reason and consequence.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    run = await (book.fresh_state_of(waits.run) if whole else book.state_of(waits.run))
    match waits.about:
        case "approval":
            approval = run.approvals.get(waits.name)
            return None if approval is None else await _approval(book, run, approval, whole=whole)
        case "unknown":
            attempt = run.attempts.get(waits.name)
            return None if attempt is None else await _attempt(book, run, attempt, whole=whole)
        case "escalation":
            return _escalated(run)


async def _approval(book: Book, run: Run, approval: Approval, *, whole: bool) -> Question:
    said, known = None, None
    if whole:
        (found,) = await book.ledger.read(run.id, approval.seq - 1, limit=1)
        said = found[0].event if isinstance(found[0].event, ApprovalRequested) else None
    if said is not None:
        known = await _known(book, run, said.tool, said.upstream, said.definition)
    return Question(
        about="approval",
        name=approval.id,
        run=run.id,
        seq=approval.seq,
        asked_at=approval.requested_at,
        state=_stands(approval, utc(book.clock.now())),
        told=run.told,
        tenant=run.principal.tenant if run.principal is not None else "",
        principal=run.principal.id if run.principal is not None else "",
        workflow=run.workflow,
        expires_at=approval.expires_at,
        tool=approval.tool,
        transition=approval.rule,
        reason=said.reason if said is not None else "",
        consequence=would(None if known is None else known.effect, known) if whole else "",
        roles=() if approval.role is None else (approval.role,),
        agreed=len(approval.agreed),
        needed=approval.quorum,
    )


def _stands(approval: Approval, now: datetime) -> str:
    if approval.decision is not None:
        return approval.decision
    return "open" if now < approval.expires_at else "expired"


async def _attempt(book: Book, run: Run, attempt: Attempt, *, whole: bool) -> Question:
    intent = attempt.intent
    known = await _known(book, run, intent.tool, intent.upstream, intent.definition) if whole else None
    return Question(
        about="unknown",
        name=attempt.id,
        run=run.id,
        seq=attempt.seq,
        asked_at=attempt.at,
        state="open" if attempt.state is AttemptState.UNKNOWN else str(attempt.state),
        told=run.told,
        tenant=run.principal.tenant if run.principal is not None else "",
        principal=run.principal.id if run.principal is not None else "",
        workflow=run.workflow,
        tool=intent.tool,
        transition=intent.transition,
        reason="nobody knows whether this call happened",
        risk="high" if intent.effect is Effect.DESTRUCTIVE else "medium",
        consequence=would(intent.effect, known) if whole else "",
    )


def _escalated(run: Run) -> Question | None:
    if run.stopped is None or run.stopped_seq is None or run.last_at is None:
        return None
    return Question(
        about="escalation",
        name=run.id,
        run=run.id,
        seq=run.stopped_seq,
        asked_at=run.last_at,
        state="open",
        told=run.told,
        tenant=run.principal.tenant if run.principal is not None else "",
        principal=run.principal.id if run.principal is not None else "",
        workflow=run.workflow,
        reason=run.stopped.reason,
        consequence="the run does nothing more by itself",
    )


async def _known(book: Book, run: Run, tool: str, upstream: str | None, cited: Digest | None) -> Registered | None:
    """The tool as the run's policy sees it, defined as it was then; None where its policy cannot be read."""
    rules = await rules_in(book.ledger, run.policy)
    definition = await stored_in(book.ledger, cited)
    if rules is None:
        return None
    own_name = str((definition or {}).get("name", tool))
    return registered(Tool(tool, upstream or "", own_name, definition or {}), rules.policy)
