"""step -> what is wrong with it, or None: calls, their answers, budgets and ends."""

from datetime import timedelta

from gateway.kernel.accounts import limited_by, limits_of, shown
from gateway.kernel.audit.breach import Step
from gateway.kernel.globs import names
from gateway.kernel.stop import proves
from gateway.model.events import (
    ApprovalRequested,
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptUnsent,
    EvidenceRecorded,
    IntentRecorded,
    Outcome,
    PhaseMoved,
    ReceiptRecorded,
    Replayed,
    RunStopped,
    Verdict,
)
from gateway.model.policy import Policy
from gateway.model.proposal import KeySource
from gateway.model.run import AttemptState, joined

_SENT = frozenset({KeySource.CALLER, KeySource.CALL_ID})
"""Keys that a client can send again."""


def key_used_twice(step: Step) -> str | None:
    """A key that has an intent gets no other, unless it is proven that nothing happened."""
    event = step.record.event
    if not isinstance(event, IntentRecorded) or event.key is None or event.key.source not in _SENT:
        return None
    earlier = step.before.keys.get(joined(event.tool, event.key.source, event.key.value))
    return None if earlier is None else f"its key had an intent already, `{earlier}`"


def replay_of_nothing(step: Step) -> str | None:
    """What is answered from a record has one."""
    event = step.record.event
    attempt = step.before.attempts.get(event.attempt) if isinstance(event, Replayed) else None
    if attempt is None or attempt.state is AttemptState.ANSWERED:
        return None
    return f"it was answered from the record of `{attempt.id}`, which was {attempt.state}"


def replay_of_another_call(step: Step) -> str | None:
    """A call is answered from the record of a call of the same tool."""
    event = step.record.event
    attempt = step.before.attempts.get(event.attempt) if isinstance(event, Replayed) else None
    if attempt is None or not isinstance(event, Replayed) or attempt.intent.tool == event.tool:
        return None
    return f"a call of `{event.tool}` was answered from the record of `{attempt.id}`, a call of `{attempt.intent.tool}`"


def reference_to_another_result(step: Step) -> str | None:
    """A result is told by reference to the very same one, which the client had got."""
    event = step.record.event
    if not isinstance(event, ReceiptRecorded) or event.repeats is None:
        return None
    same = event.result is not None and step.before.given.get(event.result) == event.repeats
    return None if same else f"its result was told as that of `{event.repeats}`, which the client had not got"


def absence_too_early(step: Step) -> str | None:
    """That nothing happened is said only when nothing can happen any more."""
    event = step.record.event
    if not isinstance(event, AttemptRefuted | AttemptUnsent):
        return None
    attempt = step.before.attempts[event.attempt]
    if isinstance(event, AttemptUnsent):
        earlier = attempt.resumed or attempt.sent > 1
        return f"`{attempt.id}` is said to be unsent, and was sent before" if earlier else None
    # As its record says: what is known beyond that of rounds and tasks, earlier versions did not go by.
    until = attempt.intent.settles_at if attempt.sent == 1 else attempt.settles_at
    if step.record.at >= until:
        return None
    return f"`{attempt.id}` is said not to have happened, and could until {until.isoformat(timespec='seconds')}"


def receipt_without_evidence(step: Step) -> str | None:
    """A receipt holds an answer, or the word of a person who says why."""
    event = step.record.event
    if not isinstance(event, ReceiptRecorded):
        return None
    match event.source:
        case "upstream":
            return "the receipt has no answer of the upstream's" if event.result is None else None
        case "person":
            return "a person's word has no name or no reason" if event.by is None or not event.reason else None
        case _:
            found = event.reason and (event.artifact or event.result)
            return None if found else "the probe's finding is not there"


def sent_again_without_key(step: Step) -> str | None:
    """Only what its server knows from a second call by a key, which it still remembers, is sent again."""
    event = step.record.event
    if not isinstance(event, AttemptResent) or step.policy is None:
        return None
    rule = next((one for pattern, one in step.policy.tools.items() if names(pattern, event.tool)), None)
    told = None if rule is None else rule.idempotency
    if told is None or told.key is None or told.valid_s is None:
        return f"`{event.attempt}` was sent again, and policy names no key that its server honours"
    first = step.before.attempts[event.attempt].at
    if step.record.at < first + timedelta(seconds=told.valid_s):
        return None
    return f"`{event.attempt}` was sent again when its server had forgotten its key"


# --- legality -------------------------------------------------------------------------------------------------------


_SENDING = (IntentRecorded, AttemptResumed, AttemptResent)
"""Verdicts after which something goes out."""


def verdict_in_another_state(step: Step) -> str | None:
    """A verdict is about the run as it was: its phase, its policy, its owner."""
    event = step.record.event
    if not isinstance(event, Verdict):
        return None
    if event.phase != step.before.phase:
        return f"it was judged in the phase `{event.phase}`, and the run was in `{step.before.phase}`"
    if event.policy != step.before.policy:
        return "it was judged by another policy than the run was under"
    return _of_another(step, event) if isinstance(event, _SENDING) else None


def _of_another(step: Step, event: Verdict) -> str | None:
    asking, owner = event.observed.get("principal"), step.before.principal
    if asking is None or owner is None or (asking.get("tenant"), asking.get("id")) == (owner.tenant, owner.id):
        return None
    return f"`{asking.get('id')}` was allowed a call in a run of `{owner.id}`"


def intent_against_checks(step: Step) -> str | None:
    """What was sent had passed every check, or policy only observed those that refused it."""
    event = step.record.event
    if not isinstance(event, _SENDING):
        return None
    refusing = next((one for one in event.checks if not one.passed and one.check not in event.waived), None)
    return None if refusing is None else f"the check `{refusing.check}` had refused it"


def intent_against_policy(step: Step) -> str | None:
    """What was sent is what a transition of the run's policy names, in a phase that it starts from, with a person's yes
    if it always wants one.
    """
    event = step.record.event
    if not isinstance(event, IntentRecorded) or step.policy is None:
        return None
    if event.transition is None:
        return None if event.waived else "no transition allowed it"
    rule = next((one for one in step.policy.transitions if one.name == event.transition), None)
    if rule is None or not any(names(pattern, event.tool) for pattern in rule.tools):
        return f"the policy has no transition `{event.transition}` for `{event.tool}`"
    if rule.sources and event.phase not in rule.sources and "phase" not in event.waived:
        return f"the transition `{rule.name}` does not start from the phase `{event.phase}`"
    asks = rule.approval is not None and not rule.approval.when and "approval" not in event.waived
    return f"the transition `{rule.name}` wants a person's yes" if asks and event.approval is None else None


# --- budgets --------------------------------------------------------------------------------------------------------


def budget_overspent(step: Step) -> str | None:
    """Neither a call nor a question to a person takes the run above a limit that binds.

    What a call takes includes what is set aside to undo it with; what undoes it takes only what goes beyond that.
    """
    event, policy = step.record.event, step.policy
    if policy is None or not isinstance(event, IntentRecorded | ApprovalRequested):
        return None
    if isinstance(event, IntentRecorded) and "budget" in event.waived:
        return None
    before: dict[str, int] = vars(step.before.spent)
    spent: dict[str, int] = vars(step.after.spent)
    for unit, limit in limited_by(limits_of(policy.budgets)):
        if before[unit] < spent[unit] > limit and not _observed(policy, unit):
            return f"with it the run has spent {shown(unit, spent[unit]):g} {unit} of {shown(unit, limit):g}"
    return None


def _observed(policy: Policy, unit: str) -> bool:
    return unit == "reviews" and policy.mode == "observe"


def spent_below_nothing(step: Step) -> str | None:
    """No more is given back than was taken."""
    spent: dict[str, int] = vars(step.after.spent)
    below = next((unit for unit, amount in spent.items() if amount < 0), None)
    return None if below is None else f"with it the run has spent {shown(below, spent[below]):g} {below}"


# --- ends -----------------------------------------------------------------------------------------------------------


def success_unproven(step: Step) -> str | None:
    """A run succeeds by fresh evidence of every verifier that its policy names, and with nothing under way."""
    event = step.record.event
    if not isinstance(event, RunStopped) or event.outcome is not Outcome.VERIFIED_SUCCESS:
        return None
    if step.before.unsettled:
        return f"it succeeded while `{min(step.before.unsettled)}` was not settled"
    success = step.policy.success if step.policy is not None else None
    proven = {
        name: held.seq
        for name, held in step.before.evidence.items()
        if proves(held, success.accept if success is not None else "independent")
    }
    if not event.evidence or not set(event.evidence) <= set(proven.values()):
        return "it succeeded by what is no fresh evidence that something holds"
    lacking = next((name for name in success.evidence if name not in proven), None) if success is not None else None
    return None if lacking is None else f"it succeeded without fresh evidence of `{lacking}`"


def phase_unproven(step: Step) -> str | None:
    """Where a transition names a verifier, only its pass leads to the phase that it is for."""
    event = step.record.event
    attempt = step.before.attempts.get(event.attempt or "") if isinstance(event, PhaseMoved) else None
    if attempt is None or not attempt.intent.verifiers or not isinstance(event, PhaseMoved):
        return None
    intent = attempt.intent
    if event.target != intent.target or event.target in intent.edges.values() or attempt.verdict == "pass":
        return None
    return f"the run came to `{event.target}`, and `{'`, `'.join(intent.verifiers)}` did not pass"


def evidence_from_the_future(step: Step) -> str | None:
    """A probe cannot have started after the run that it is recorded in came so far."""
    event = step.record.event
    if not isinstance(event, EvidenceRecorded) or event.after <= step.before.version:
        return None
    return f"its probe is said to have started at record {event.after}, which was not there yet"
