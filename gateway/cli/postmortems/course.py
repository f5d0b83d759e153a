"""How the run went: in three sentences, and in the order of time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gateway.cli.postmortems.case import Case, at
from gateway.cli.totals import totals
from gateway.inbound.told.markdown import cell, table
from gateway.inbound.told.words import counted, spell
from gateway.kernel.sentences import sentence
from gateway.model.events import (
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    Effect,
    FinishClaimed,
    IntentRecorded,
    ReceiptRecorded,
    Replayed,
    RunOpened,
)
from gateway.model.record import Record
from gateway.model.run import Run

MOST = 200
"""Lines of a timeline; what is left out is its middle."""


def summary(case: Case) -> Iterator[str]:
    """What was asked, how it ended, what is open; and what it came to."""
    run = case.story.run
    yield " ".join((_asked(case), _ended(case), _open(case)))
    yield ""
    yield from (f"- {cell(line)}" for line in totals(run, case.story.records))


def _asked(case: Case) -> str:
    run = case.story.run
    who = "somebody" if run.principal is None else f"{run.principal.id} (tenant {run.principal.tenant})"
    opened = "" if run.opened_at is None else f" on {at(run.opened_at)} UTC"
    goal = f"to reach this goal: “{cell(run.goal)}”" if run.goal else "without saying a goal"
    return f"Under the workflow {cell(run.workflow)}, {cell(who)} opened the run{opened} {goal}."


def _ended(case: Case) -> str:
    run, last = case.story.run, case.story.records[-1]
    if run.stopped is None:
        return f"It has not ended: it is in phase {cell(run.phase)}, and was last heard of on {at(last.at)} UTC."
    stop = next(one for one in reversed(case.story.records) if one.seq == run.stopped_seq)
    took = "" if run.opened_at is None else f", after {spell((stop.at - run.opened_at).total_seconds())}"
    by = f" (rule {cell(run.stopped.rule)})" if run.stopped.rule else ""
    outcome, reason = cell(str(run.stopped.outcome)), cell(run.stopped.reason)
    return f"It ended as **{outcome}**{took}, in phase {cell(run.phase)}{by}: {reason}."


def _open(case: Case) -> str:
    run = case.story.run
    failed = sum(one.state == "failed" for one in run.undo.values())
    found = (
        (len(run.unsettled), "attempt that is not settled", "attempts that are not settled"),
        (len(run.owed), "effect that is to be undone", "effects that are to be undone"),
        (failed, "effect that only a person can undo", "effects that only a person can undo"),
        (len(case.waits), "question that waits for a person", "questions that wait for a person"),
        (int(case.escalated), "person who must take the run over", ""),
    )
    told = [f"{count} {one if count == 1 else many}" for count, one, many in found if count]
    return (
        f"Open: {', '.join(told)}." if told else "Nothing is open: each attempt is settled, and nobody is waited for."
    )


# --- in the order of time ---------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    record: Record
    says: str


def timeline(case: Case) -> Iterator[str]:
    """A table; reads that went well are counted, not listed."""
    lines, quiet = _lines(case.story.run, case.story.records)
    shown, left = _middle(lines)
    own = f"{case.story.run.id}."  # an attempt is named after the step of its intent
    rows = [(at(one.record.at), str(one.record.seq), cell(one.says.replace(own, "step "))) for one in shown]
    if left:
        rows.insert(MOST // 2, ("…", "…", f"{left:,} more lines; {cell(case.command('show', case.story.run.id))}"))
    yield from table(("time (UTC)", "step", "what happened"), rows)
    if quiet:
        yield ""
        yield f"Not listed: {counted(quiet, 'read')} that went well."


def _middle(lines: Sequence[_Line]) -> tuple[Sequence[_Line], int]:
    if len(lines) <= MOST:
        return lines, 0
    half = MOST // 2
    return [*lines[:half], *lines[-half:]], len(lines) - 2 * half


def _lines(run: Run, records: Sequence[Record]) -> tuple[Sequence[_Line], int]:
    lines, quiet = list[_Line](), 0
    for record in records:
        found = sentence(run, record)
        if found is not None:
            lines.append(_Line(record, found[1]))
        elif (says := _plainly(run, record)) is not None:
            lines.append(_Line(record, says))
        elif isinstance(record.event, ReceiptRecorded):
            quiet += 1
    return lines, quiet


def _plainly(run: Run, record: Record) -> str | None:
    """What is routine, and still changes something."""
    event = record.event
    attempt = run.attempts.get(getattr(event, "attempt", None) or "")
    match event:
        case RunOpened():
            return f"the run was opened in phase `{event.phase}`"
        case IntentRecorded() if event.effect is not Effect.READ:
            by = f" by `{event.transition}`" if event.transition else ""
            undoing = f", to undo {event.compensates}" if event.compensates else ""
            return f"`{event.tool}` was allowed{by} and sent ({event.attempt}){undoing}"
        case ReceiptRecorded() if attempt is not None and attempt.intent.effect is not Effect.READ:
            took = "" if event.duration_s is None else f" after {spell(event.duration_s)}"
            return f"`{attempt.intent.tool}` ({attempt.id}) answered{took}"
        case Replayed():
            return f"`{event.tool}` was answered from the record of {event.attempt}"
        case AttemptSuspended():
            return f"{event.attempt} waits for {event.awaits}"
        case AttemptResumed():
            return f"{event.attempt} goes on with the client's input"
        case AttemptResent():
            return f"{event.attempt} was sent again under its key"
        case FinishClaimed():
            return f"the agent said that it is done: {event.outcome}"
        case _:
            return None
