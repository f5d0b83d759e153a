"""(a run's records, one unsettled attempt) -> all that a person needs to settle it, without the transcript. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from gateway.kernel.recover import honours_key, key_lives, query_of
from gateway.kernel.registry import Registered
from gateway.model.events import (
    AttemptQueried,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    Charge,
    Effect,
    Held,
    ReceiptRecorded,
)
from gateway.model.record import Record
from gateway.model.run import Attempt, AttemptState, Run


@dataclass(frozen=True, slots=True)
class Tried:
    """What was done about the attempt since it was sent."""

    record: str
    at: datetime
    says: str


@dataclass(frozen=True, slots=True)
class Option:
    """What a person may say, and what follows from it."""

    says: str
    follows: str


@dataclass(frozen=True, slots=True)
class Packet:
    """One attempt that is not settled."""

    attempt: str
    run: str
    workflow: str
    phase: str
    goal: str
    principal: str
    tool: str
    upstream: str
    transition: str | None
    arguments: Mapping[str, Any] | None
    """None where they were erased."""
    state: str
    sent_at: datetime
    settles_at: datetime
    """From then on the upstream can no longer act on it."""
    consequence: str
    charge: Charge
    """What it holds until it is settled."""
    tried: tuple[Tried, ...]
    waiting: int
    """How many equal calls of this run were held because of it."""
    goes_on: str
    """What the gateways still do about it by themselves."""
    person: bool
    """Whether nothing but a person's word can settle it, as far as the policy says."""
    question: str
    options: tuple[Option, ...]


def packet(
    run: Run,
    records: Sequence[Record],
    attempt: Attempt,
    known: Registered | None,
    arguments: Mapping[str, Any] | None,
    now: datetime,
) -> Packet:
    """The packet of that attempt; `known` is its tool as the run's policy sees it, None where that cannot be told."""
    intent = attempt.intent
    goes_on, person = _undoing(run, attempt) or _goes_on(attempt, known, now)
    mine = [one for one in records if getattr(one.event, "attempt", None) == attempt.id]
    return Packet(
        attempt=attempt.id,
        run=run.id,
        workflow=run.workflow,
        phase=run.phase,
        goal=run.goal,
        principal="" if run.principal is None else f"{run.principal.tenant}/{run.principal.id}",
        tool=intent.tool,
        upstream=intent.upstream or "",
        transition=intent.transition,
        arguments=arguments,
        state=_state(run, attempt),
        sent_at=attempt.sent_at or attempt.at,
        settles_at=attempt.settles_at,
        consequence=_consequence(attempt, known),
        charge=intent.charge,
        tried=tuple(_tried(mine)),
        waiting=sum(isinstance(one.event, Held) for one in mine),
        goes_on=goes_on,
        person=person,
        question=_asks_to_undo(run, attempt) or _asks_whether(attempt),
        options=_options(attempt, now),
    )


def _state(run: Run, attempt: Attempt) -> str:
    if attempt.id in run.owed:
        return "to be undone"
    return "unverified" if attempt.unverified else str(attempt.state)


def _undoing(run: Run, attempt: Attempt) -> tuple[str, bool] | None:
    """What the gateways do about an effect that must not stay, and whether a person must; None for any other."""
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
    return f"Did this call of `{intent.tool}` on `{intent.upstream}` happen, with exactly these arguments?"


def _asks_to_undo(run: Run, attempt: Attempt) -> str | None:
    undoing = run.undo.get(attempt.id) if attempt.id in run.owed else None
    if undoing is None or undoing.approval is None:
        return None
    return f"May it be undone? `counterfoil approvals show {undoing.approval}` has the call that would"


def _consequence(attempt: Attempt, known: Registered | None) -> str:
    effect = attempt.intent.effect
    if effect is Effect.READ:
        return "it only reads"
    undone = {"yes": "can be undone", "compensate": "can be compensated", "no": "cannot be undone"}
    reversible = "" if known is None else f" that {undone[known.reversible]}"
    return f"a {effect} call{reversible}; equal calls are held in every run until it is settled"


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
        yield Tried(record.id, record.at, says)


def _goes_on(attempt: Attempt, known: Registered | None, now: datetime) -> tuple[str, bool]:
    """What the gateways do by themselves, and whether a person must."""
    if attempt.unverified:
        return f"the verifier `{attempt.intent.verifier}` is asked again", False
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
    return f"{again}, which the server knows until {last.isoformat(timespec='seconds')}"


def _options(attempt: Attempt, now: datetime) -> tuple[Option, ...]:
    if attempt.state is not AttemptState.UNKNOWN:
        return ()
    happened = Option("--happened", "it counts as done: whoever repeats the call is told so, and it is not sent again")
    refuted = "its charge is given back, and the call may be made again"
    if now < attempt.settles_at:
        until = attempt.settles_at.isoformat(timespec="seconds")
        refuted = f"not before {until}, for until then the server may still act on it; then {refuted}"
    return happened, Option("--did-not-happen", refuted)
