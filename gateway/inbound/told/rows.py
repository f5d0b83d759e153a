"""What happened in a run as rows: one for each proposal and what came of it, and for each thing that is no call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias, assert_never

from gateway.inbound.told.words import GONE, counted, cut, seconds, whose
from gateway.model.canonical import Digest
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
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
    Event,
    EvidenceRecorded,
    FinishClaimed,
    FinishRefused,
    Held,
    IntentRecorded,
    NoteRecorded,
    NoticeSent,
    OutcomeDelivered,
    PayloadsErased,
    PhaseMoved,
    PlanInvalidated,
    PlanRecorded,
    ReceiptRecorded,
    Replayed,
    RunOpened,
    RunStopped,
    SwitchLifted,
    SwitchThrown,
    Verdict,
)
from gateway.model.record import Record
from gateway.model.switch import what
from gateway.runtime.story import Long, Story

_People: TypeAlias = ApprovalDecided | ApprovalSeen | ApprovalWithdrawn | ApprovalExpired | EscalationAcknowledged
_Beside: TypeAlias = (
    FinishClaimed | FinishRefused | EvidenceRecorded | NoticeSent | PayloadsErased | SwitchThrown | SwitchLifted
)

MAX_ARGUMENTS = 80
"""Characters of a call's arguments; `show --step` has them in full."""
MAX_WORDS = 160
"""Characters of what an agent said."""


@dataclass(slots=True)
class Row:
    """A line of the table, while what came of its proposal is still being read."""

    step: int
    transition: str
    call: str
    verdict: str
    charge: str = ""
    duration_s: float | None = None
    results: list[str] = field(default_factory=list)
    style: str = ""
    phases: list[str] = field(default_factory=list)
    """Through which it led the run, the one where it began included; nothing if it moved none."""
    stands: str = ""
    """What is known of its effect; nothing for what has none."""
    changed: bool = False
    """Whether that did change the world, or may have."""


def rows_of(story: Story) -> list[Row]:
    """A row for each proposal, with what came of it, and for what else happened."""
    payloads = story.payloads
    rows: list[Row] = []
    attempts: dict[str, Row] = {}
    plan: Any = None
    for record in story.records:
        event = record.event
        row = attempts.get(getattr(event, "attempt", None) or "")
        if isinstance(event, PlanRecorded):
            plan = payloads.get(event.plan)
        if isinstance(event, IntentRecorded):
            row = attempts[event.attempt] = _allowed(record.seq, event, payloads, attempts)
            rows.append(row)
        elif row is not None and not isinstance(event, Held | Replayed):
            _follow(row, event)
        elif (row := _told(record, payloads, attempts, plan)) is not None:
            rows.append(row)
        if row is not None and isinstance(event, Verdict) and event.reported_tokens:
            row.results.append(f"{counted(event.reported_tokens, 'token')} of its model, says the client")
    for one in story.stands:
        if (mine := attempts.get(one.attempt)) is not None:
            by = attempts.get(one.undone_by or "")
            mine.stands = f"UNDONE by step {by.step}" if by is not None else f"effect {one.says}"
            mine.changed = one.changed
    return rows


def _allowed(step: int, event: IntentRecorded, payloads: Mapping[Digest, Any], attempts: dict[str, Row]) -> Row:
    charge = "\n".join(_charged(what, count) for what, count in event.charge.model_dump().items() if count)
    told = [f"not enforced: {_why(one.check, one.rule, one.reason)}" for one in event.checks if not one.passed]
    style = "yellow" if told else ""
    if (undone := attempts.get(event.compensates or "")) is not None:
        told.append(f"to undo step {undone.step}")
    return Row(step, event.transition or "", _call(event, payloads), "allowed", charge, None, told, style)


def _charged(what: str, count: int) -> str:
    return f"cost {count / MILLION:g}" if what == "cost" else counted(count, what[:-1])


MILLION = 1_000_000
"""A cost is recorded in millionths."""

_ENDED = {
    "attempt.unsent": "NOT SENT",
    "attempt.unknown": "UNKNOWN",
    "attempt.abandoned": "ABANDONED",
    "attempt.refuted": "DID NOT HAPPEN",
}


def _follow(row: Row, event: Event) -> None:
    """What became of an attempt, in its own row."""
    match event:
        case ReceiptRecorded():
            row.duration_s = event.duration_s
            said = _said_by(event)
            late = ", late" if event.late and event.source == "upstream" else ""
            broken = ", breaks its schema" if event.schema_valid is False else ""
            length = f", {event.size_bytes} bytes" if event.size_bytes else ""
            again = ", the same again" if event.repeats is not None else ""
            row.results.append(f"{said}{late}{broken}{length}{again}")
        case OutcomeDelivered() if event.told_bytes is not None:
            row.results.append(f"told in {event.told_bytes} bytes")
        case AttemptUnsent() | AttemptUnknown() | AttemptAbandoned() | AttemptRefuted():
            who = f" ({event.by.id})" if isinstance(event, AttemptRefuted) and event.by else ""
            row.results.append(f"{_ENDED[event.kind]}: {event.reason}{who}")
            row.style = "red" if isinstance(event, AttemptUnknown) else row.style
        case AttemptSuspended() | AttemptQueried() | AttemptResent() | AttemptResumed():
            row.results.append(_goes_on(event))
            row.style = "" if isinstance(event, AttemptResent) else row.style
        case EvidenceRecorded():
            told, row.style = _found(event)
            row.results.append(f"{told} ({seconds(event.duration_s)})")
        case CompensationOwed():
            row.results.append("to be undone")
        case CompensationFailed():
            row.results.append(f"NOT UNDONE, a person must: {event.reason}")
            row.style = "red"
        case PhaseMoved():
            row.phases += [*([] if row.phases[-1:] == [event.source] else [event.source]), event.target]
        case _:
            pass


def _goes_on(event: AttemptSuspended | AttemptQueried | AttemptResent | AttemptResumed) -> str:
    match event:
        case AttemptSuspended():
            return f"waits for {event.awaits}"
        case AttemptQueried():
            return f"asked: {event.says}"
        case AttemptResent():
            return "sent again under its key"
        case AttemptResumed():
            return "goes on with the client's input"
        case _:
            assert_never(event)


def _said_by(receipt: ReceiptRecorded) -> str:
    match receipt.source:
        case "person":
            return f"{receipt.by.id if receipt.by else '?'}: {receipt.reason}"
        case "probe":
            return f"HAPPENED: {receipt.reason}"
        case "upstream":
            return "error" if receipt.is_error else "ok"
        case _:
            assert_never(receipt.source)


def _told(record: Record, payloads: Mapping[Digest, Any], attempts: dict[str, Row], plan: Any) -> Row | None:
    """A row of its own for what is no attempt's; the plan is the agent's last one."""
    event, step = record.event, record.seq
    if isinstance(event, _People):
        return _answered(step, event)
    if isinstance(event, Claim):
        return _claimed(step, event, payloads, plan)
    if isinstance(event, _Beside):
        return _beside(step, event, payloads)
    match event:
        case RunOpened():
            goal = [event.goal] if event.goal else []
            who = whose(event.principal.tenant, event.principal.id)
            return Row(step, "", "", "run opened", results=[f"{who}, phase {event.phase}", *goal])
        case Denied():
            rule = event.transition or event.rule or ""
            other = f"{event.rule}: " if event.rule and event.rule != rule else ""
            told = [f"{other}{event.reason}"]
            return Row(step, rule, _call(event, payloads), str(event.outcome), results=told, style="yellow")
        case Held():
            why = [event.reason] if not event.approval else [f"{event.approval} is pending"]
            call = _call(event, payloads)
            return Row(step, event.transition or "", call, str(event.outcome), results=why, style="yellow")
        case ApprovalRequested():
            asked = [f"{event.approval}: {event.reason}"]
            return Row(step, event.rule, _call(event, payloads), "needs_approval", results=asked, style="magenta")
        case Replayed():
            first = attempts.get(event.attempt)
            told = [f"answered from the record of step {first.step}" if first else "answered from the record"]
            return Row(step, event.transition or "", _call(event, payloads), "replayed", results=told)
        case RunStopped():
            return Row(step, event.rule or "", "", f"STOP\n{event.outcome}", results=[event.reason], style="bold")
        case _:
            return None


def _answered(step: int, event: _People) -> Row:
    """What people did about a question, or a run."""
    match event:
        case ApprovalDecided():
            looked = "" if event.active_s is None else f", who looked at it for {seconds(event.active_s)}"
            told = f"{event.approval} by {event.by.id}{looked}{_because(event.reason)}"
            return Row(step, "", "", event.decision, results=[told], style="magenta")
        case ApprovalSeen():
            return Row(step, "", "", "looked at", results=[f"{event.approval} by {event.by.id}"], style="dim")
        case ApprovalWithdrawn():
            told = f"{event.approval} by {event.by.id}{_because(event.reason)}"
            return Row(step, "", "", "withdrawn", results=[told], style="magenta")
        case ApprovalExpired():
            return Row(step, "", "", "expired", results=[f"{event.approval}: nobody answered in time"], style="magenta")
        case EscalationAcknowledged():
            return Row(step, "", "", "taken over", results=[f"by {event.by.id}{_because(event.reason)}"], style="bold")
        case _:
            assert_never(event)


def _switched(step: int, event: SwitchThrown | SwitchLifted) -> Row:
    """What a person stopped, and what they let go on."""
    told = [f"by {event.by.id}{_because(event.reason)}"]
    if isinstance(event, SwitchThrown):
        return Row(step, "", what(event), "stopped", results=told, style="red")
    return Row(step, "", f"switch {event.switch}", "lifted", results=told, style="bold")


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _notified(step: int, event: NoticeSent) -> Row:
    """That people were told that something waits for them."""
    tries = "" if event.tries == 1 else f", at try {event.tries}"
    if event.outcome == "delivered":
        return Row(step, "", "", "told", results=[f"{event.about} by {event.channel}{tries}"], style="dim")
    said = f"{event.about} NOT TOLD by {event.channel}{tries}: {event.reason}"
    return Row(step, "", "", "not told", results=[said], style="yellow")


def _beside(step: int, event: _Beside, payloads: Mapping[Digest, Any]) -> Row:
    """What the agent says of the end of its task, what is found, who was told, what is gone, what people stopped."""
    match event:
        case FinishClaimed():
            told = [f"the agent says: {event.outcome}", *_words(payloads.get(event.claim), "says")]
            return Row(step, "", "", "claimed", results=told, style="dim")
        case FinishRefused():
            return Row(step, "", "", "not done", results=[f"lacks {', '.join(event.lacking)}"], style="yellow")
        case EvidenceRecorded():
            found, style = _found(event)
            return Row(step, "", f"verifier {event.verifier}", "asked", "", event.duration_s, [found], style)
        case NoticeSent():
            return _notified(step, event)
        case PayloadsErased():
            by = "" if event.by is None else f" by {event.by.id}"
            told = [f"{counted(event.count, 'payload')}{by}: {event.rule}"]
            return Row(step, "", "", "erased", results=told, style="dim")
        case SwitchThrown() | SwitchLifted():
            return _switched(step, event)
        case _:
            assert_never(event)


def _found(event: EvidenceRecorded) -> tuple[str, str]:
    """What a verifier said, and how it is shown."""
    return f"{event.verdict.upper()}: {event.kept or event.says}", "green" if event.verdict == "pass" else "yellow"


def _claimed(step: int, event: Claim, payloads: Mapping[Digest, Any], plan: Any) -> Row:
    """What the agent says of its own work, and what contradicts it."""
    match event:
        case PlanRecorded():
            told = [f"revision {event.revision}, {counted(len(event.assumptions), 'assumption')}"]
            return Row(step, "", "", "plan", results=[*told, *_words(plan, "objective")], style="dim")
        case PlanInvalidated():
            assumed = plan["assumptions"][event.assumption] if isinstance(plan, dict) else None
            return Row(step, "", "", "contradicted", results=[event.says, *_words(assumed, "says")], style="yellow")
        case NoteRecorded():
            end = f"`{event.until}` speaks anew, or " if event.until is not None else ""
            until = f"a hypothesis ({event.confidence:g}) until {end}{event.expires_at.isoformat(timespec='seconds')}"
            told = [until, *_words(payloads.get(event.note), "says")]
            return Row(step, "", "", "note", results=told, style="dim")
        case _:
            assert_never(event)


def _words(said: Any, name: str) -> list[str]:
    """The agent's own words, in quotes; nothing where it said none, or where they were erased."""
    return [f"“{cut(said[name], MAX_WORDS)}”"] if isinstance(said, dict) and said.get(name) else []


def _why(check: str, rule: str | None, reason: str | None) -> str:
    named = f" ({rule})" if rule else ""
    return f"{check}{named}: {reason}" if reason else f"{check}{named}"


def _call(event: Denied | Held | IntentRecorded | ApprovalRequested | Replayed, payloads: Mapping[Digest, Any]) -> str:
    arguments = payloads.get(event.arguments)
    match arguments:
        case None:
            shown = GONE
        case Long():
            shown = cut(arguments.head, MAX_ARGUMENTS)
        case _:
            shown = _short(arguments)
    undoing = f" to undo {event.compensates}" if event.compensates and not isinstance(event, IntentRecorded) else ""
    return f"{event.tool} {shown}{undoing}"


def _short(arguments: dict[str, Any]) -> str:
    """The arguments as JSON, the short ones first, so that what is cut off is the end of the longest."""
    values = {name: json.dumps(value, ensure_ascii=False) for name, value in arguments.items()}
    parts = (f"{json.dumps(name)}: {value}" for name, value in sorted(values.items(), key=lambda one: len(one[1])))
    return cut(f"{{{', '.join(parts)}}}", MAX_ARGUMENTS)
