"""What the agent says of its own work, and what contradicts it. Pure; nothing here is read by `decide` or by `stop`.

A plan and its notes are claims: they stand in the run beside its facts, never among them.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, assert_never

from gateway.model.alike import alike
from gateway.model.canonical import Digest, digest
from gateway.model.events import Assumed, Claim, EvidenceRecorded, NoteRecorded, PlanInvalidated, PlanRecorded
from gateway.model.plan import Assumption
from gateway.model.record import Record
from gateway.model.run import Attempt, Contradicted, Noted, Planned, Run, RunState
from gateway.model.tool import Answer, ToolResult

EVIDENCE_FIELDS = ("verdict", "signature", "scope", "self_reported", "opinion")
"""What of evidence an assumption may be about."""

VERDICT_FIELDS = ("verdict", "self_reported", "opinion")
"""The same, where the agent is told the verdict alone."""


class Misplaced(Exception):
    """The event speaks of a plan, an assumption or a record that is not there."""


# --- how events move it ---------------------------------------------------------------------------------------------


def heard(run: Run, record: Record, event: Claim) -> Run:
    """After the agent said it, or it was found to be otherwise.

    Raises: Misplaced.
    """
    match event:
        case PlanRecorded():
            if event.revision != revision(run) + 1:
                raise Misplaced(f"the plan's revision is {event.revision}, the run's last is {revision(run)}")
            return run._replace(plan=Planned(record.seq, record.at, event))
        case PlanInvalidated():
            return run._replace(plan=_contradicted(run, record, event))
        case NoteRecorded():
            if any(not 0 < place < record.seq for place in event.sources):
                raise Misplaced("the note rests on a record that is not there")
            left = tuple(one for one in run.notes if lives(run, one, record.at))
            return run._replace(notes=(*left, Noted(record.seq, record.at, event)), noted=run.noted + 1)
        case _:
            assert_never(event)


def _contradicted(run: Run, record: Record, event: PlanInvalidated) -> Planned:
    plan = run.plan
    if plan is None or plan.event.revision != event.plan or not 0 <= event.assumption < len(plan.event.assumptions):
        raise Misplaced(f"no plan {event.plan} with an assumption {event.assumption} is the run's")
    if any(one.assumption == event.assumption for one in plan.contradicted):
        raise Misplaced(f"assumption {event.assumption} of plan {event.plan} was contradicted before")
    found = Contradicted(event.assumption, event.says, event.because, record.seq)
    return plan._replace(contradicted=(*plan.contradicted, found))


def revision(run: Run) -> int:
    """Of the plan that counts; 0 where there is none."""
    return 0 if run.plan is None else run.plan.event.revision


def lives(run: Run, note: Noted, now: datetime) -> bool:
    """Whether the note still counts: its time is not over, and the verifier that would end it has not spoken anew."""
    spoke = None if note.event.until is None else run.evidence.get(note.event.until)
    return now < note.event.expires_at and (spoke is None or spoke.seq < note.seq)


# --- what contradicts a plan ----------------------------------------------------------------------------------------


def assumed(assumption: Assumption, salt: bytes) -> Assumed:
    """The assumption, as it is looked after."""
    arguments = assumption.arguments
    return Assumed(
        evidence=assumption.evidence or None,
        tool=assumption.tool or None,
        arguments=None if arguments is None else _cited(arguments, salt),
        field=assumption.field,
        equals=_cited(assumption.equals, salt),
    )


def _cited(value: Any, salt: bytes) -> Digest:
    return digest(alike(value), salt)


def by_evidence(run: Run, event: EvidenceRecorded, place: int, salt: bytes) -> Sequence[PlanInvalidated]:
    """What of the run's plan this evidence contradicts, recorded at that place."""
    if run.plan is None or run.state is not RunState.RUNNING:
        return ()
    told = {name: getattr(event, name) for name in (EVIDENCE_FIELDS if event.kept is None else VERDICT_FIELDS)}
    says = f"the evidence of `{event.verifier}` says otherwise"
    found = (
        number
        for number, one in _open(run.plan)
        if one.evidence == event.verifier and _differs(told, one.field, one.equals, salt)
    )
    return tuple(_invalidated(run.plan, number, says, place) for number in found)


def by_answer(
    run: Run, attempt: Attempt, answer: Answer, arguments: Mapping[str, Any], salt: bytes
) -> Sequence[PlanInvalidated]:
    """What of the run's plan this answer of the attempt contradicts, whose receipt is recorded next."""
    if run.plan is None or run.state is not RunState.RUNNING or not isinstance(answer, ToolResult):
        return ()
    tool, told = attempt.intent.tool, dict(answer.result)
    asked = _cited(dict(arguments), salt)
    says = f"the result of `{tool}` says otherwise"
    found = (
        number
        for number, one in _open(run.plan)
        if one.tool == tool and one.arguments in {None, asked} and _differs(told, one.field, one.equals, salt)
    )
    return tuple(_invalidated(run.plan, number, says, run.version + 1) for number in found)


def by_what_is_known(run: Run, plan: PlanRecorded, now: datetime, salt: bytes) -> Iterator[PlanInvalidated]:
    """What of a plan that is about to be recorded the evidence contradicts that the run holds already."""
    coming = run._replace(plan=Planned(run.version + 1, now, plan))
    for held in run.evidence.values():
        if held.fresh:
            yield from by_evidence(coming, held.event, held.seq, salt)


def _open(plan: Planned) -> Iterator[tuple[int, Assumed]]:
    """The assumptions that nothing has contradicted yet, with their places."""
    gone = {one.assumption for one in plan.contradicted}
    return ((number, one) for number, one in enumerate(plan.event.assumptions) if number not in gone)


def _invalidated(plan: Planned, number: int, says: str, place: int) -> PlanInvalidated:
    field = plan.event.assumptions[number].field
    said = f"the plan assumes something of `{field}`, and {says}"
    return PlanInvalidated(plan=plan.event.revision, assumption=number, says=said, because=(place,))


def _differs(told: Mapping[str, Any], field: str, equals: Digest, salt: bytes) -> bool:
    """Whether the field is there and is another one."""
    value: Any = told
    for part in field.split("."):
        match value:
            case dict() if part in value:
                value = value[part]
            case list() if part.isdecimal() and int(part) < len(value):
                value = value[int(part)]
            case _:
                return False
    return _cited(value, salt) != equals
