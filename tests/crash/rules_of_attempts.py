"""I2, I8, I9 and I21: what must hold of every attempt, by the ledger alone."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalWithdrawn,
    CompensationFailed,
    EscalationAcknowledged,
    IntentRecorded,
    RunStopped,
)
from tests.crash.attempts import FORWARD, FREED, Lived, given_way, lived
from tests.crash.history import History


def one_intent_a_key(history: History) -> Iterator[str]:
    """I2. A key is free again only if its attempt is known to have done nothing, or claims nothing."""
    by_key: dict[tuple[str, ...], list[Lived]] = defaultdict(list)
    names: set[str] = set()
    for attempt in lived(history).values():
        key = attempt.intent.key
        if key is None:
            yield f"`{attempt.id}` was intended without a key"
            continue
        before = by_key[attempt.run, attempt.intent.tool, key.source, key.value]
        for earlier in before:
            state = earlier.state_at(attempt.place - 1)
            read = attempt.intent.effect == "read" and any(one in FREED for _, one in earlier.states())
            if state not in FREED and not read:  # of a read that was let go, a late answer binds nobody
                yield f"`{attempt.id}` has the key of `{earlier.id}`, which was {state}"
        before.append(attempt)
    for _, _, event in history.events():
        if isinstance(event, IntentRecorded):
            if event.attempt in names:
                yield f"`{event.attempt}` was intended twice"
            names.add(event.attempt)


def all_that_is_open_is_listed(history: History) -> Iterator[str]:
    """I8. What is tracked beside the records is what they say, so that it is found after any crash."""
    place, attempts = len(history.records), lived(history)
    given = given_way(attempts)
    owed = {one.id: state for one in attempts.values() if (state := one.owes_at(place)) and given.get(one.id) is None}
    owed |= wait_for_people(history)
    listed = {one.attempt: one.state for one in history.tracked}
    for name in sorted(owed.keys() | listed.keys()):
        if owed.get(name) != listed.get(name):
            yield f"`{name}` is {owed.get(name)} by its records, and listed as {listed.get(name)}"
    for one in history.tracked:
        if one.attempt in attempts and one.hold != attempts[one.attempt].intent.hold:
            yield f"`{one.attempt}` is listed with another hold than it was intended with"
    for claim in history.claims:
        if claim.left_s > 0:
            yield f"`{claim.by}` took `{claim.attempt}`, whose lease had still {claim.left_s:.1f} s"


def wait_for_people(history: History) -> dict[str, str]:  # noqa: C901 - one arm a kind
    """What people are asked and have not answered, and the runs that wait for one."""
    waits: dict[str, str] = {}
    asked: dict[str, tuple[str, ApprovalRequested]] = {}
    agreed: dict[str, int] = defaultdict(int)
    over, undone = set[str](), set[str]()
    for _, record, event in history.events():
        match event:
            case ApprovalRequested():
                asked[event.approval] = record.run, event
                waits = {name: state for name, state in waits.items() if name not in event.supersedes}
                waits[event.approval] = "awaiting"
            case ApprovalDecided(decision="approved"):
                agreed[event.approval] += 1
                request = asked[event.approval][1]
                needed = sum(stage.quorum for stage in request.terms.stages) or request.quorum
                if agreed[event.approval] >= needed:
                    waits.pop(event.approval, None)
            case ApprovalDecided() | ApprovalWithdrawn() | ApprovalExpired():
                waits.pop(event.approval, None)
            case EscalationAcknowledged():
                waits.pop(record.run, None)
            case RunStopped():
                waits = {
                    name: state for name, state in waits.items() if name not in asked or asked[name][0] != record.run
                }
                over.add(record.run)
                if (event.outcome == "human_escalation" and event.by is None) or record.run in undone:
                    waits[record.run] = "escalated"
            case CompensationFailed():
                undone.add(record.run)
                if record.run in over:
                    waits[record.run] = "escalated"
            case _:
                pass
    return waits


def only_forward(history: History) -> Iterator[str]:
    """I9. One outcome for each intent; what is known never becomes unknown again."""
    for attempt in lived(history).values():
        states = [state for _, state in attempt.states()]
        for before, after in pairwise(states):
            if after not in FORWARD[before]:
                yield f"`{attempt.id}` became {after} after it was {before}"
        for kind in ("receipt.recorded", "evidence.recorded", "outcome.delivered"):
            if len(attempt.of_kind(kind)) > 1:
                yield f"`{attempt.id}` has more than one {kind}"
    known = lived(history)
    for _, record, event in history.events():
        name = getattr(event, "attempt", None)
        if name is not None and event.kind in _OF_ATTEMPTS and name not in known:
            yield f"`{record.id}` speaks of `{name}`, which was never intended"


_OF_ATTEMPTS = frozenset(
    {"receipt.recorded", "attempt.unsent", "attempt.unknown", "attempt.abandoned", "attempt.refuted"}
)


def everything_ends(history: History) -> Iterator[str]:
    """I21. With nothing wrong any more, all is settled but what only a person can settle, and nobody waits."""
    if not history.at_rest:
        return
    for attempt in lived(history).values():
        if (owes := attempt.owes_at(len(history.records))) in {"open", "unverified"}:
            yield f"`{attempt.id}` is still {owes}"
        if attempt.id in history.heard and not attempt.of_kind("receipt.recorded"):
            yield f"`{attempt.id}` was answered late, and has no receipt"
    for call in history.unanswered:
        yield f"{call} is still waited for"
