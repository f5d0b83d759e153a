"""(a run's records, what is asked about) -> all that a person needs to answer, without the transcript. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gateway.kernel.approve import pending, stands
from gateway.kernel.left import charged
from gateway.kernel.owing import is_set_aside
from gateway.kernel.recover import honours_key, key_lives, query_of
from gateway.kernel.registry import Registered
from gateway.kernel.risk import would
from gateway.kernel.rules import Rules
from gateway.kernel.status import Around, failures, held, status
from gateway.model.events import (
    AttemptQueried,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    Effect,
    Held,
    Outcome,
    ReceiptRecorded,
)
from gateway.model.packet import Option, Packet, Tried
from gateway.model.record import Record
from gateway.model.run import Approval, Attempt, AttemptState, Run, RunState

MAX_OTHERS = 10
"""Other calls that are told of, the newest."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A run as its ledger has it, for whoever is asked about it."""

    run: Run
    records: Sequence[Record]
    rules: Rules | None
    """None where the ledger has no text of the policy that this version can read."""
    around: Around
    now: datetime


@dataclass(frozen=True, slots=True)
class Action:
    """The call that is asked about."""

    known: Registered | None
    """Its tool as the run's policy sees it; None where that cannot be told."""
    arguments: Mapping[str, Any] | None
    """None where they were erased or changed."""


def of_run(asked: Asked) -> Packet:
    """The packet of the whole run."""
    run = asked.run
    waiting = [one.id for one in run.approvals.values() if pending(one, asked.now)] if run.stopped is None else []
    unknown = [one.id for one in run.unsettled.values() if one.state is AttemptState.UNKNOWN]
    failed = sorted(name for name, one in run.undo.items() if one.state == "failed")
    asks = [*sorted(waiting), *sorted(unknown), *failed]
    options = [Option(command=f"counterfoil packet {name}", follows=_SHOWS) for name in asks]
    if run.stopped is not None:
        again = f"counterfoil run open --workflow {run.workflow}"
        options.append(Option(command=again, follows="a new run of the same workflow; what is unknown stays held"))
    return Packet(
        **common(asked),
        about="run",
        question=_asks_of_run(run, waits=bool(asks)),
        options=tuple(options),
        person=bool(asks) or (run.stopped is not None and run.stopped.outcome is Outcome.HUMAN_ESCALATION),
        state=str(run.stopped.outcome) if run.stopped is not None else str(run.state),
        reason=run.stopped.reason if run.stopped is not None else "",
        others=tuple(others(run, None, None, None)),
    )


_SHOWS = "shows what is asked there, and how to answer"


def _asks_of_run(run: Run, *, waits: bool) -> str:
    if run.stopped is None:
        return "What waits for a person in this run is listed below." if waits else "Nothing waits for a person now."
    also = " What is listed below waits for a person all the same." if waits else ""
    match run.stopped.outcome:
        case Outcome.VERIFIED_SUCCESS:
            return f"Nothing: the run reached its goal.{also}"
        case Outcome.HUMAN_ESCALATION:
            return f"The run handed its task to a person: do it, give it up, or open a new run for it?{also}"
        case _:
            return f"The run is over and its goal is not proven: give it up, or open a new run for it?{also}"


def of_attempt(asked: Asked, attempt: Attempt, action: Action) -> Packet:
    """The packet of one attempt: unsettled, or with an effect that must be undone by hand."""
    run, intent = asked.run, attempt.intent
    goes_on, person = _undoing(run, attempt) or _goes_on(attempt, action.known, asked.now)
    mine = [one for one in asked.records if getattr(one.event, "attempt", None) == attempt.id]
    return Packet(
        **common(asked),
        **proposed(intent.tool, intent.upstream, intent.transition, action),
        about="attempt",
        attempt=attempt.id,
        state=_state(run, attempt),
        sent_at=moment(attempt.sent_at or attempt.at),
        settles_at=moment(attempt.settles_at),
        consequence=_consequence(attempt, action.known),
        effect=str(intent.effect),
        undoes=intent.compensates,
        charge=intent.charge,
        tried=tuple(_tried(mine)),
        others=tuple(others(run, intent.transition, intent.tool, attempt.id)),
        waiting=sum(isinstance(one.event, Held) for one in mine),
        goes_on=goes_on,
        person=person,
        question=_asks_to_undo(run, attempt) or _asks_whether(attempt),
        options=_options(run, attempt, asked.now),
    )


def standing(run: Run, approval: Approval, now: datetime) -> str:
    """Where a question to a person stands."""
    if approval.used_by is not None and not approval.usable(now):
        return f"used by {approval.used_by}"
    match stands(run, approval, now):
        case "closed":
            return "run over"
        case "void":
            return "void, its policy was replaced"
        case state:
            return state


# --- what every packet has --------------------------------------------------------------------------------------------


def common(asked: Asked) -> dict[str, Any]:
    """What is told of the run."""
    run, rules = asked.run, asked.rules
    told: dict[str, Any] = {
        "run": run.id,
        "workflow": run.workflow,
        "phase": run.phase,
        "goal": run.goal,
        "principal": "" if run.principal is None else f"{run.principal.tenant}/{run.principal.id}",
        "spent": charged(run.spent),
        "budget_left": {},
    }
    if rules is None:
        return told
    stands = status(run, rules, asked.around, asked.now)
    return told | {
        "phase_says": stands.phase.description,
        "over": stands.over,
        "evidence": tuple(held(run, whole=True)),
        "missing": stands.missing,
        "failures": tuple(failures(run, whole=True)),
        "alternatives": stands.eligible,
        "barred": stands.barred,
        "budget_left": stands.budget_left,
        "plan": stands.plan,
        "hypotheses": stands.hypotheses,
    }


def proposed(tool: str, upstream: str | None, transition: str | None, action: Action) -> dict[str, Any]:
    """What is told of the action."""
    known = action.known
    return {
        "tool": tool,
        "upstream": upstream or "",
        "transition": transition,
        "arguments": None if action.arguments is None else dict(action.arguments),
        "reversible": None if known is None else known.reversible,
        "data_class": None if known is None else known.rule.data_class,
    }


def others(run: Run, transition: str | None, tool: str | None, but: str | None) -> Iterator[Tried]:
    """Other calls, the newest last: of a run all that were no plain reads, else those alike."""
    whole = tool is None
    alike = [
        one
        for one in run.attempts.values()
        if one.id != but
        and (
            (whole and (one.intent.effect is not Effect.READ or one.is_error))
            or (
                not whole
                and (one.intent.tool == tool or (transition is not None and one.intent.transition == transition))
            )
        )
    ]
    for one in sorted(alike, key=lambda each: each.seq)[-MAX_OTHERS:]:
        yield Tried(
            event=f"{run.id}#{one.seq}", at=moment(one.at), says=f"`{one.intent.tool}` ({one.id}) {_end(run, one)}"
        )


def _end(run: Run, attempt: Attempt) -> str:
    undoing = run.undo.get(attempt.id)
    undone = f"; it is {undoing.state}" if undoing is not None and undoing.state != "set_aside" else ""
    if attempt.state is not AttemptState.ANSWERED:
        return f"is {attempt.state}{undone}"
    said = "ended with an error" if attempt.is_error else "was answered"
    verdict = f", and its verifier said {attempt.verdict}" if attempt.verdict is not None else ""
    return f"{said}{verdict}{undone}"


def moment(at: datetime) -> str:
    """As packets spell it."""
    return at.isoformat(timespec="seconds")


# --- an attempt -------------------------------------------------------------------------------------------------------


def _state(run: Run, attempt: Attempt) -> str:
    if attempt.id in run.owed:
        return "to be undone"
    if _not_undone(run, attempt) is not None:
        return "not undone"
    return "unverified" if attempt.unverified else str(attempt.state)


def _not_undone(run: Run, attempt: Attempt) -> str | None:
    """Why a person must undo the attempt; None if nobody must."""
    undoing = run.undo.get(attempt.id)
    return undoing.reason if undoing is not None and undoing.state == "failed" else None


def _undoing(run: Run, attempt: Attempt) -> tuple[str, bool] | None:
    """What the gateways do about an effect that must not stay, and whether a person must; None for any other."""
    if (why := _not_undone(run, attempt)) is not None:
        return f"nothing: {why}", True
    undoing = run.undo.get(attempt.id) if attempt.id in run.owed else None
    if undoing is None:
        return None
    by = attempt.intent.undo.tool if attempt.intent.undo is not None else "its compensation"
    if undoing.approval is not None:
        return f"a person must agree to `{by}` (`{undoing.approval}`), and then it is made", True
    waits = f"; it waits: {undoing.waits[1]}" if undoing.waits is not None else ""
    return f"`{by}` is made to undo it{waits}", False


def _asks_whether(attempt: Attempt) -> str:
    intent = attempt.intent
    if attempt.settled:
        return f"Nothing is asked about this call of `{intent.tool}`: what came of it is known, and recorded."
    return f"Did this call of `{intent.tool}` on `{intent.upstream}` happen, with exactly these arguments?"


def _asks_to_undo(run: Run, attempt: Attempt) -> str | None:
    if _not_undone(run, attempt) is not None:
        return f"This effect of `{attempt.intent.tool}` must not stay, and a person must undo it by hand. Is it undone?"
    undoing = run.undo.get(attempt.id) if attempt.id in run.owed else None
    if undoing is None or undoing.approval is None:
        return None
    return f"May it be undone? `counterfoil packet {undoing.approval}` has the call that would"


def _consequence(attempt: Attempt, known: Registered | None) -> str:
    effect = attempt.intent.effect
    if effect is Effect.READ:
        return "it only reads"
    held = "" if attempt.settled else "; equal calls are held in every run until it is settled"
    return f"{would(effect, known)}{held}"


def _tried(records: Sequence[Record]) -> Iterator[Tried]:
    for record in records:
        match record.event:
            case AttemptUnknown():
                says = record.event.reason
            case AttemptSuspended():
                says = f"the upstream waits for {record.event.awaits}"
            case AttemptResumed():
                says = "the client brought what the upstream asked for"
            case AttemptQueried():
                says = record.event.says
            case AttemptResent():
                says = "it was sent again under its key"
            case ReceiptRecorded():
                says = "its answer was recorded" if record.event.source == "upstream" else record.event.reason or ""
            case _:
                continue
        yield Tried(event=record.id, at=moment(record.at), says=says)


def _goes_on(attempt: Attempt, known: Registered | None, now: datetime) -> tuple[str, bool]:
    """What the gateways do by themselves, and whether a person must."""
    if attempt.settled:
        return "", False
    if attempt.unverified:
        return f"the verifier `{attempt.asked_next}` is asked again", False
    if attempt.state is AttemptState.SUSPENDED and attempt.suspended_until is not None:
        until = attempt.suspended_until.isoformat(timespec="seconds")
        return f"it waits for its client until {until}, and is unknown then", False
    if attempt.state is not AttemptState.UNKNOWN:
        return (
            "its gateway waits for the answer; if that one is gone, the next that runs says that it is unknown",
            False,
        )
    query = None if known is None else query_of(known)
    asks = [] if query is None else [f"`{query.probe.tool}` is asked again whether it happened"]
    if known is not None and honours_key(known) and key_lives(attempt, known, now):
        asks.append(_again(attempt, known))
    if not asks:
        return "nothing: policy names no way to ask the server, and no key that it honours", True
    return "; ".join(asks), False


def _again(attempt: Attempt, known: Registered) -> str:
    told = known.rule.idempotency
    last = attempt.at + timedelta(seconds=(told.valid_s if told is not None else None) or 0.0)
    by_header = told is not None and told.key is not None and told.key.header is not None
    again = "it is sent again under its key" + (", if its server is reached over HTTP" if by_header else "")
    return f"{again}, which the server knows until {moment(last)}"


def _options(run: Run, attempt: Attempt, now: datetime) -> tuple[Option, ...]:
    undoing = run.undo.get(attempt.id)
    if undoing is not None and undoing.approval is not None:
        return (Option(command=f"counterfoil packet {undoing.approval}", follows=_SHOWS),)
    if attempt.state is not AttemptState.UNKNOWN:
        return ()
    happened = "it counts as done: whoever repeats the call is told so, and it is not sent again"
    refuted = "its charge is given back, and the call may be made again"
    if now < attempt.settles_at:
        until = moment(attempt.settles_at)
        refuted = f"not before {until}, for until then the server may still act on it; then {refuted}"
    answers = {"happened": happened, "did-not-happen": refuted, "retry": f"{refuted}, and you want it made"}
    if attempt.intent.undo is not None and is_set_aside(run, attempt.id):
        answers["compensate"] = "it counts as done and must not stay: a gateway undoes it"
    if run.state is RunState.RUNNING:
        answers["stop-run"] = "nobody can know: the run ends for good, and equal calls stay held"
    settle = f"counterfoil resolve {attempt.id}"
    return tuple(Option(command=f"{settle} --{what} --reason …", follows=told) for what, told in answers.items())
