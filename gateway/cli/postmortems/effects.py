"""What was attempted, what is known to be there, and what was done about the rest."""

from collections import Counter
from collections.abc import Iterator

from gateway.cli.postmortems.case import Case, at
from gateway.inbound.told.markdown import cell, code, table
from gateway.inbound.told.words import counted, spell
from gateway.model.events import AttemptQueried, AttemptResent, AttemptUnknown
from gateway.model.run import Attempt, AttemptState
from gateway.runtime.story import Stands

MOST = 200
"""Rows of one table."""
_NOTHING = {AttemptState.UNSENT: "it was not sent", AttemptState.REFUTED: "it was found not to have happened"}


def effects(case: Case) -> Iterator[str]:
    """Attempted against committed: each call that is no read."""
    stands = case.story.stands
    if not stands:
        yield "No call that could change anything was sent."
        return
    counts = Counter(one.says for one in stands)
    told = ", ".join(f"{count} {what}" for what, count in counts.items())
    yield f"Of {counted(len(stands), 'effect')} that were attempted: {told}."
    yield ""
    rows = (_effect(case, one) for one in stands[:MOST])
    yield from table(("step", "tool", "transition", "committed?", "how that is known"), rows)
    if len(stands) > MOST:
        yield ""
        yield f"And {len(stands) - MOST:,} more: {code(case.command('show', case.story.run.id, '--changes'))}"


def _effect(case: Case, one: Stands) -> tuple[str, ...]:
    attempt = case.story.run.attempts[one.attempt]
    says = f"**{one.says}**" if one.changed and one.says in {"unknown", "failed"} else one.says
    return (
        str(attempt.seq),
        cell(attempt.intent.tool),
        cell(attempt.intent.transition or ""),
        says,
        cell(_known(case, one, attempt)),
    )


def _known(case: Case, one: Stands, attempt: Attempt) -> str:
    run = case.story.run
    match one.says:
        case "committed":
            return f"by a look from outside (step {attempt.evidence})"
        case "reported":
            return (
                "its own server says so" if attempt.source == "upstream" else f"by a {attempt.source}: {attempt.says}"
            )
        case "failed":
            return f"its postcondition does not hold (step {attempt.evidence})"
        case "undone":
            by = run.attempts.get(one.undone_by or "")
            return f"undone by step {by.seq}" if by is not None else "undone"
        case "nothing":
            return attempt.says or _NOTHING.get(attempt.state, "")
        case "unknown":
            return "nobody knows whether it happened"
        case _:
            return "it ended with an error" if attempt.is_error else "nothing shows that it did its work"


def unknowns(case: Case) -> Iterator[str]:
    """Each outcome that was unknown for a time, and how it was settled, or that it was not."""
    lost = [(one.at, one.event) for one in case.story.records if isinstance(one.event, AttemptUnknown)]
    if not lost:
        yield "No outcome was ever unknown."
        return
    settled = {one.name: one for one in case.asked}
    for when, event in lost:
        attempt = case.story.run.attempts[event.attempt]
        asked = settled.get(event.attempt)
        yield f"- Step {attempt.seq}, {cell(attempt.intent.tool)}: unknown since {at(when)} UTC ({cell(event.reason)})."
        for line in _tried(case, event.attempt):
            yield f"  - {line}"
        if asked is not None and asked.said:
            said = asked.said[-1]
            who = cell(said.who) if said.who else "the gateway"
            yield f"  - Settled after {spell(said.took_s)}, by {who}: {cell(said.word)}, “{cell(said.reason)}”"
        else:
            yield f"  - **Not settled.** {code(case.command('packet', event.attempt))} has what a person needs for it."


def _tried(case: Case, name: str) -> Iterator[str]:
    for record in case.story.records:
        event = record.event
        if isinstance(event, AttemptQueried) and event.attempt == name:
            yield f"Asked at {at(record.at)}: {cell(event.verdict)}, {cell(event.says)}"
        elif isinstance(event, AttemptResent) and event.attempt == name:
            yield f"Sent again under its key at {at(record.at)}."


def undoing(case: Case) -> Iterator[str]:
    """Compensations: what was owed, and what became of it."""
    run = case.story.run
    owed = [(name, one) for name, one in run.undo.items() if one.owed_at is not None]
    if not owed:
        yield "Nothing had to be undone."
        return
    rows = []
    for name, one in sorted(owed, key=lambda pair: run.attempts[pair[0]].seq):
        attempt, by = run.attempts[name], run.attempts.get(one.by or "")
        became = f"{one.state.replace('_', ' ')}" + (f" by step {by.seq}" if by is not None else "")
        reason = one.reason or (one.waits[1] if one.waits else "")
        since = at(one.owed_at) if one.owed_at is not None else "-"
        rows.append((str(attempt.seq), cell(attempt.intent.tool), since, became, cell(reason)))
    yield from table(("step", "tool", "owed since (UTC)", "what became of it", "why"), rows)
