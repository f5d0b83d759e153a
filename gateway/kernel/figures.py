"""(records of questions and answers, now) -> how people answered. Pure.

Read from events alone, so that what is told of last month does not depend on what a run became since.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import ceil

from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    Denied,
    IntentRecorded,
    RunStopped,
)
from gateway.model.figures import Figures, Group, Load, Reviews, Spread
from gateway.model.record import Record

QUICK_S = 3.0
"""Nobody has read a question in less."""

KINDS = (
    "approval.requested",
    "approval.seen",
    "approval.decided",
    "approval.withdrawn",
    "approval.expired",
    "intent.recorded",
    "proposal.denied",
    "run.stopped",
)
ENDS = ("approved", "rejected", "returned", "revoked", "expired", "superseded", "withdrawn", "void")
"""`void`: the run was over before anybody answered."""


@dataclass(slots=True)
class Question:
    """One question, as far as the events tell."""

    asked_at: datetime
    event: ApprovalRequested
    run: str
    state: str = "awaiting"
    looks: list[tuple[datetime, tuple[str, str]]] = field(default_factory=list)
    """When, and by whom: tenant and id."""
    answers: list[tuple[datetime, ApprovalDecided]] = field(default_factory=list)
    ended_at: datetime | None = None
    was_approved: bool = False
    used: bool = False
    failed: bool = False
    """The agent came for the call, and the yes did not hold."""


def questions(records: Iterable[Record], now: datetime) -> Sequence[Question]:
    """What became of each, from records in the order in which they were made. What is about a question that was asked
    before the first of them is left out.
    """
    known: dict[tuple[str, str], Question] = {}
    yeses: dict[tuple[str, str, str | None], Question] = {}
    for record in records:
        _take(record, known, yeses)
    for one in known.values():
        if one.state == "awaiting" and now >= one.event.expires_at:
            one.state, one.ended_at = "expired", one.event.expires_at
    return [*known.values()]


def _take(
    record: Record, known: dict[tuple[str, str], Question], yeses: dict[tuple[str, str, str | None], Question]
) -> None:
    event, run = record.event, record.run
    match event:
        case ApprovalRequested():
            _superseded(record, event, known)
            known[run, event.approval] = Question(record.at, event, run)
        case ApprovalSeen() if (one := known.get((run, event.approval))) is not None:
            one.looks.append((record.at, (event.by.tenant, event.by.id)))
        case ApprovalDecided() if (one := known.get((run, event.approval))) is not None:
            _decided(one, record, event)
            if one.was_approved:
                yeses[run, one.event.tool, one.event.arguments] = one
        case ApprovalWithdrawn() | ApprovalExpired() if (one := known.get((run, event.approval))) is not None:
            one.state = "expired" if isinstance(event, ApprovalExpired) else "withdrawn"
            one.ended_at = record.at
        case RunStopped():
            _over(record, known.values())
        case IntentRecorded() if event.approval is not None and (run, event.approval) in known:
            known[run, event.approval].used = True
        case Denied() if (one := yeses.get((run, event.tool, event.arguments))) is not None and not one.used:
            one.failed = True
        case _:
            pass


def _over(record: Record, known: Iterable[Question]) -> None:
    for one in known:
        if one.run == record.run and one.state == "awaiting":
            one.state, one.ended_at = "void", record.at


def _superseded(record: Record, event: ApprovalRequested, known: Mapping[tuple[str, str], Question]) -> None:
    for name in event.supersedes:
        before = known.get((record.run, name))
        if before is not None:
            before.failed = before.failed or (before.was_approved and _same_call(before.event, event))
            before.state, before.ended_at = "superseded", before.ended_at or record.at


def _same_call(before: ApprovalRequested, event: ApprovalRequested) -> bool:
    """Whether the agent came for the call again, and not for another on the same object."""
    return before.arguments == event.arguments or (before.scope is not None and before.scope == event.scope)


def _decided(one: Question, record: Record, event: ApprovalDecided) -> None:
    one.answers.append((record.at, event))
    yeses = sum(answer.decision == "approved" for _, answer in one.answers)
    if event.decision != "approved":
        one.state, one.ended_at = event.decision, record.at
    elif yeses >= _needed(one.event):
        one.state, one.ended_at, one.was_approved = "approved", record.at, True


def _needed(event: ApprovalRequested) -> int:
    return sum(stage.quorum for stage in event.terms.stages) or event.quorum


# --- what is told -----------------------------------------------------------------------------------------------------


def reckoned(found: Sequence[Question], *, since: datetime | None, now: datetime, partial: bool) -> Reviews:
    """The figures of these questions."""
    return Reviews(
        since=since.isoformat(timespec="seconds") if since is not None else None,
        until=now.isoformat(timespec="seconds"),
        all=_figures(found),
        reviewers=tuple(_loads(found)),
        tools=_groups(found, lambda one: one.event.tool),
        transitions=_groups(found, lambda one: one.event.rule or ""),
        risks=_groups(found, lambda one: one.event.terms.risk),
        partial=partial,
    )


def _groups(found: Iterable[Question], key: Callable[[Question], str]) -> tuple[Group, ...]:
    grouped: dict[str, list[Question]] = defaultdict(list)
    for one in found:
        grouped[key(one)].append(one)
    return tuple(Group(name=name, figures=_figures(grouped[name])) for name in sorted(grouped))


def _figures(found: Sequence[Question]) -> Figures:
    counts = {state: sum(one.state == state for one in found) for state in ("awaiting", *ENDS)}
    yeses = [answer for one in found for _, answer in one.answers if answer.decision == "approved"]
    timed = [answer.active_s for answer in yeses if answer.active_s is not None]
    counts |= {
        "used": sum(one.used for one in found),
        "failed_revalidation": sum(one.failed for one in found),
        "quick": sum(seconds < QUICK_S for seconds in timed),
        "timed": len(timed),
    }
    return Figures(
        asked=len(found),
        **counts,
        first_look=spread(_s(one.asked_at, min(at for at, _ in one.looks)) for one in found if one.looks),
        active=spread(a.active_s for one in found for _, a in one.answers if a.active_s is not None),
        waited=spread(_s(one.asked_at, one.ended_at) for one in found if _answered(one) and one.ended_at is not None),
        rates=_rates(counts, len(found), sum(one.was_approved for one in found)),
    )


def _answered(one: Question) -> bool:
    """By a person: how long an expired one waited says only what policy says."""
    return one.was_approved or one.state in {"rejected", "returned"}


def _rates(counts: Mapping[str, int], asked: int, approved: int) -> dict[str, float]:
    over = asked - counts["awaiting"]
    of = dict.fromkeys(ENDS, over) | {"used": approved, "failed_revalidation": approved, "quick": counts["timed"]}
    return {name: round(counts[name] / total, 4) for name, total in of.items() if total}


def _loads(found: Sequence[Question]) -> Iterable[Load]:
    answers: dict[tuple[str, str], list[tuple[datetime, datetime, ApprovalDecided]]] = defaultdict(list)
    looked: dict[tuple[str, str], int] = defaultdict(int)
    for one in found:
        for who in {who for _, who in one.looks}:
            looked[who] += 1
        for at, answer in one.answers:
            answers[answer.by.tenant, answer.by.id].append((one.asked_at, at, answer))
    for tenant, name in sorted({*answers, *looked}):
        mine = answers[tenant, name]
        said = [answer for _, _, answer in mine]
        active = [answer.active_s for answer in said if answer.active_s is not None]
        yeses = [answer for answer in said if answer.decision == "approved"]
        yield Load(
            tenant=tenant,
            reviewer=name,
            decisions=len(mine),
            approved=len(yeses),
            rejected=sum(answer.decision == "rejected" for answer in said),
            returned=sum(answer.decision == "returned" for answer in said),
            quick=sum(answer.active_s is not None and answer.active_s < QUICK_S for answer in yeses),
            looked_at=looked[tenant, name],
            busiest_hour=_busiest(sorted(at for _, at, _ in mine)),
            active=spread(active),
            waited=spread(_s(asked, at) for asked, at, _ in mine),
        )


def _busiest(times: Sequence[datetime]) -> int:
    """The most of them within any one hour."""
    most, first = 0, 0
    for last, at in enumerate(times):
        while at - times[first] >= timedelta(hours=1):
            first += 1
        most = max(most, last - first + 1)
    return most


def _s(then: datetime, at: datetime) -> float:
    return max(0.0, (at - then).total_seconds())


def spread(seconds: Iterable[float]) -> Spread:
    """Of these durations: values that were really seen (nearest rank), not means between two."""
    ordered = sorted(seconds)
    if not ordered:
        return Spread()
    rank = {share: ordered[ceil(share * len(ordered)) - 1] for share in (0.5, 0.9)}
    shown = [round(value, 3) for value in (rank[0.5], rank[0.9], ordered[-1])]
    return Spread(count=len(ordered), median_s=shown[0], p90_s=shown[1], max_s=shown[2])
