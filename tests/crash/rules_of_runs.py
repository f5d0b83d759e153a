"""I1 and I11 to I19: what must hold of every run, by the ledger and the policies that it cites."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase

from gateway.kernel.reduce import CorruptLedger, fold
from gateway.kernel.registry import pin
from gateway.model.canonical import parse
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptResent,
    AttemptUnsent,
    EvidenceRecorded,
    IntentRecorded,
    PhaseMoved,
    RunMigrated,
    RunOpened,
    RunStopped,
)
from gateway.model.events import Effect as EffectClass
from gateway.model.policy import Policy, micro
from gateway.model.record import GENESIS, Record, link
from gateway.model.run import Run
from tests.crash.attempts import Lived, lived
from tests.crash.history import History


def one_chain(history: History) -> Iterator[str]:
    """I1. Each run is a gapless chain, and holds all that was acknowledged."""
    links: dict[str, list[str]] = defaultdict(list)
    for record, body in history.records:
        before = links[record.run]
        if record.seq != len(before) + 1 or record.previous != (before[-1] if before else GENESIS):
            yield f"`{record.id}` does not follow what is before it"
        before.append(link(body))
    for run, version, head in history.acknowledged:
        if links[run][version - 1 : version] != [head]:
            yield f"`{run}#{version}` was acknowledged, and is not in the ledger"


# --- budgets --------------------------------------------------------------------------------------------------------


def exact_budgets(history: History) -> Iterator[str]:
    """I11. What is spent is what was not given back; no limit is passed; levels beside the records are their sum."""
    spent: dict[str, Counter[str]] = defaultdict(Counter)
    levels: Counter[tuple[str, str]] = Counter()
    attempts = lived(history)
    back: set[str] = set()
    for _, record, event in history.events():
        if isinstance(event, IntentRecorded | ApprovalRequested):
            yield from _taken(history, record, event, spent[record.run], levels)
        attempt = attempts.get(getattr(event, "attempt", None) or "")
        if attempt is not None and event.kind in {"attempt.unsent", "attempt.refuted"}:
            back.add(attempt.id)
            _give_back(attempt, spent[record.run], levels, -1)
        elif attempt is not None and event.kind == "receipt.recorded" and attempt.id in back:
            back.discard(attempt.id)  # it had happened after all
            _give_back(attempt, spent[record.run], levels, 1)
    for (account, unit), level in history.levels.items():
        if unit != "tokens" and levels[account, unit] != level:
            yield f"`{account}` stands at {level} {unit}, and its records add up to {levels[account, unit]}"


def _taken(
    history: History,
    record: Record,
    event: IntentRecorded | ApprovalRequested,
    spent: Counter[str],
    levels: Counter[tuple[str, str]],
) -> Iterator[str]:
    asked = {"reviews": 1} if isinstance(event, ApprovalRequested) else _charged(event)
    spent.update(asked)
    waived = isinstance(event, IntentRecorded) and "budget" in event.waived
    for unit, limit in _limits(history.policies.get(event.policy)).items():
        if asked.get(unit) and spent[unit] > limit and not waived:
            yield f"`{record.id}` takes run `{record.run}` to {spent[unit]} of {limit} {unit}"
    for one in event.accounts:
        levels[one.account, one.unit] += one.amount
        if one.amount and one.limit is not None and levels[one.account, one.unit] > one.limit:
            yield f"`{record.id}` takes `{one.account}` to {levels[one.account, one.unit]} of {one.limit}"


def _charged(event: IntentRecorded) -> dict[str, int]:
    return {unit: amount for unit, amount in vars(event.charge).items() if unit != "tokens"}


def _give_back(attempt: Lived, spent: Counter[str], levels: Counter[tuple[str, str]], sign: int) -> None:
    for unit, amount in _charged(attempt.intent).items():
        spent[unit] += sign * amount
    for one in attempt.intent.accounts:
        levels[one.account, one.unit] += sign * one.amount


def _limits(policy: Policy | None) -> dict[str, int]:
    if policy is None:
        return {}
    budgets = policy.budgets
    told = {
        "calls": budgets.calls,
        "mutations": budgets.mutations,
        "reviews": budgets.reviews,
        "cost": None if budgets.cost is None else micro(budgets.cost),
    }
    return {unit: limit for unit, limit in told.items() if limit is not None}


# --- people ---------------------------------------------------------------------------------------------------------


def _asked(history: History) -> dict[str, ApprovalRequested]:
    return {event.approval: event for _, _, event in history.events() if isinstance(event, ApprovalRequested)}


def _used(history: History) -> Iterator[tuple[int, str, IntentRecorded]]:
    for place, record, event in history.events():
        if isinstance(event, IntentRecorded) and event.approval is not None:
            yield place, record.run, event


def approvals_are_used_once(history: History) -> Iterator[str]:
    """I12. By one intent, and in its own record."""
    unsent = {event.attempt for _, _, event in history.events() if isinstance(event, AttemptUnsent)}
    used = Counter(event.approval for _, _, event in _used(history) if event.attempt not in unsent)
    yield from (f"approval `{name}` was used {count} times" for name, count in used.items() if count > 1)
    for place, _, event in history.events():
        if not isinstance(event, IntentRecorded) or event.approval is not None or "approval" in event.waived:
            continue
        policy = history.policies.get(event.policy)
        named = [one for one in policy.transitions if one.name == event.transition] if policy is not None else []
        if any(one.approval is not None and not one.approval.when for one in named):
            yield f"`{event.attempt}` (place {place}) needed an approval and was intended without one"


def approvals_are_for_this_action(history: History) -> Iterator[str]:
    """I13. Same run, tool, arguments, definition, policy and rule, and enough people had said yes."""
    asked = _asked(history)
    for place, run, event in _used(history):
        request = asked.get(event.approval or "")
        if request is None:
            yield f"`{event.attempt}` used an approval that nobody was asked for"
            continue
        for what in ("tool", "upstream", "arguments", "definition", "policy", "transition"):
            if getattr(request, what) != getattr(event, what):
                yield f"`{event.attempt}` used an approval of another {what}"
        decided = [
            (one.decision, one.by.tenant, one.by.id)
            for at, record, one in history.events()
            if isinstance(one, ApprovalDecided) and one.approval == event.approval and at < place and record.run == run
        ]
        if len(set(decided)) < request.quorum or any(decision != "approved" for decision, *_ in decided):
            yield f"`{event.attempt}` used an approval that was not given"


def approvals_are_in_time(history: History) -> Iterator[str]:
    """I14. Nothing is decided or used once its time is over, by the true clock."""
    asked = _asked(history)
    for place, record, event in history.events():
        if not isinstance(event, IntentRecorded | ApprovalDecided) or event.approval not in asked:
            continue
        at = history.times[place - 1] if history.times else record.at.timestamp()
        if at >= asked[event.approval].expires_at.timestamp():
            yield f"`{record.id}` rests on approval `{event.approval}`, which was over"


def approvals_are_anothers(history: History) -> Iterator[str]:
    """I15. Whoever asks does not answer, unless policy says so; and reviewers have their role."""
    asked, owners = _asked(history), {}
    for _, record, event in history.events():
        if isinstance(event, RunOpened):
            owners[record.run] = event.principal.tenant, event.principal.id
        request = asked.get(event.approval) if isinstance(event, ApprovalDecided) else None
        if request is None or not isinstance(event, ApprovalDecided):
            continue
        if not request.self_review and (event.by.tenant, event.by.id) == owners.get(record.run):
            yield f"`{event.by.id}` decided about `{event.approval}`, which is its own"
        if request.role is not None and request.role not in event.by.roles:
            yield f"`{event.by.id}` decided about `{event.approval}` without the role `{request.role}`"


# --- the run itself -------------------------------------------------------------------------------------------------

_NEW = frozenset(
    {
        "intent.recorded",
        "attempt.resumed",
        "attempt.resent",
        "phase.moved",
        "approval.requested",
        "approval.decided",
        "plan.recorded",
        "plan.invalidated",
        "note.recorded",
    }
)


def stopped_stays_stopped(history: History) -> Iterator[str]:
    """I16. Nothing new follows the end of a run."""
    over: dict[str, int] = {}
    for place, record, event in history.events():
        if record.run in over and (event.kind in _NEW or isinstance(event, RunStopped)):
            yield f"`{record.id}` is a {event.kind}, and the run had ended at place {over[record.run]}"
        if isinstance(event, RunStopped):
            over.setdefault(record.run, place)


def legal_when_intended(history: History) -> Iterator[str]:
    """I17. In that phase, under the run's own policy, for that tool as it is pinned, by whoever may."""
    for run, records in history.runs().items():
        phase, policy = "", None
        owner: RunOpened | None = None
        for _, record in records:
            match record.event:
                case RunOpened() as opened:
                    phase, policy, owner = opened.phase, opened.policy, opened
                case RunMigrated(target=target):
                    policy = target
                case PhaseMoved(source=source, target=target):
                    if source != phase:
                        yield f"`{record.id}` moves from `{source}`, and run `{run}` is in `{phase}`"
                    phase = target
                case IntentRecorded() as intent:
                    if (intent.phase, intent.policy) != (phase, policy):
                        yield f"`{record.id}` was judged in another phase or by another policy than its run has"
                    yield from _illegal(history, intent, owner)
                case _:
                    pass


def _illegal(history: History, intent: IntentRecorded, owner: RunOpened | None) -> Iterator[str]:
    policy = history.policies.get(intent.policy)
    if policy is None or owner is None:
        yield f"`{intent.attempt}` cites a policy or a run that nobody knows"
        return
    found = next((one for one in policy.transitions if one.name == intent.transition), None)
    if found is None or not any(fnmatchcase(intent.tool, pattern) for pattern in found.tools):
        yield f"`{intent.attempt}` cites no transition of its policy that names `{intent.tool}`"
        return
    if found.sources and intent.phase not in found.sources:
        yield f"`{intent.attempt}` is not legal in the phase `{intent.phase}`"
    held = {
        name
        for grant in policy.grants
        if fnmatchcase(owner.principal.id, grant.principal) and set(grant.roles) <= set(owner.principal.roles)
        for name in grant.authority
    }
    if not set(found.authority) <= held:
        yield f"`{intent.attempt}` was intended by `{owner.principal.id}`, who may not"
    body = history.payloads.get(intent.definition) if intent.definition is not None else None
    pinned = policy.pins.get(intent.tool)
    if pinned is not None and (body is None or pin(parse(body)) != pinned.digest):
        yield f"`{intent.attempt}` calls `{intent.tool}` as it is not pinned"


def one_state_for_all(history: History) -> Iterator[str]:
    """I18. Reduced twice the ledger gives one state, and it is what every gateway takes the run to be."""
    folded: dict[tuple[str, int], Run] = {}
    bodies: dict[str, list[tuple[Record, str]]] = defaultdict(list)
    for record, body in history.records:
        bodies[record.run].append((record, link(body)))
    for run, made in bodies.items():
        try:
            state = Run(run)
            for number, one in enumerate(made, 1):
                state = fold([one], state)
                folded[run, number] = state
            if fold(made, Run(run)) != state or len(made) != state.version:
                yield f"run `{run}` is reduced to two states"
        except CorruptLedger as error:
            yield f"run `{run}` cannot be reduced: {error}"
    for view in history.views:
        known = folded.get((view.id, view.version))
        # What is queued rests on what may never come; the link tells whether it speaks of the same records.
        if known is not None and known.head == view.head and known != view:
            yield f"a gateway takes run `{view.id}` at {view.version} for another state than its records give"


def success_is_proven(history: History) -> Iterator[str]:
    """I19. The last word of every verifier that success needs is a pass, newer than every mutation that it covers."""
    yield from _unproven(history)
    for run, records in history.runs().items():
        policies = [one.event.policy for _, one in records if isinstance(one.event, RunOpened | IntentRecorded)]
        for at, (_, record) in enumerate(records):
            if not isinstance(record.event, RunStopped) or record.event.outcome != "verified_success":
                continue
            policy = history.policies.get(policies[-1])
            before = [one for _, one in records[:at]]
            for name in policy.success.evidence if policy is not None and policy.success is not None else ():
                said = [one.event for one in before if isinstance(one.event, EvidenceRecorded)]
                last = next((one for one in reversed(said) if one.verifier == name), None)
                if last is None or last.verdict != "pass":
                    yield f"run `{run}` is a success, and `{name}` never passed it"
                    continue
                for one in before:
                    if one.seq > last.after and _mutates(one.event, last):
                        yield f"run `{run}` is a success by evidence older than `{one.id}`"


def _unproven(history: History) -> Iterator[str]:
    """A pass rests on an answer; a phase that needs one moves by nothing else."""
    passed = set()
    for _, record, event in history.events():
        if isinstance(event, EvidenceRecorded) and event.verdict == "pass":
            passed.add(record.id)
            if event.artifact is None:
                yield f"`{record.id}` is a pass, and nobody was asked"
    for attempt in lived(history).values():
        for _, moved in attempt.of_kind("phase.moved"):
            proven = any(f"{attempt.run}#{seq}" in passed for seq in moved.because)
            if attempt.intent.verifier is not None and moved.target == attempt.intent.target and not proven:
                yield f"`{attempt.id}` moved the phase to `{moved.target}` without the evidence that it needs"


def _mutates(event: object, proof: EvidenceRecorded) -> bool:
    match event:
        case IntentRecorded(tool=tool, effect=effect):
            sent = effect is not EffectClass.READ
        case AttemptResent(tool=tool):
            sent = True
        case _:
            return False
    return sent and any(fnmatchcase(tool, one) for one in proof.covers)
