"""What an event of the ledger says, as attributes: of its log event, and of the span of the request that made it.

Both are made here and nowhere else, from the record and the run after it, so that telemetry cannot say otherwise than
the ledger does. Content (arguments, results, free text) is no part of it: `content` adds that where it is wanted.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from gateway.kernel.left import charged, left
from gateway.kernel.rules import Rules
from gateway.kernel.standing import standing
from gateway.model.canonical import digest_bytes
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
    CompensationFailed,
    CompensationOwed,
    Denied,
    Event,
    EvidenceRecorded,
    FinishClaimed,
    Held,
    IntentRecorded,
    NoticeSent,
    Outcome,
    OutcomeDelivered,
    PayloadsErased,
    PhaseMoved,
    PlanInvalidated,
    PlanRecorded,
    ReceiptRecorded,
    Replayed,
    RunMigrated,
    RunOpened,
    RunStopped,
    SwitchThrown,
    Verdict,
)
from gateway.model.record import Record
from gateway.model.run import Attempt, Run
from gateway.model.telemetry.names import OTHER, Attr

Attributes: TypeAlias = dict[str, Any]

ANONYMOUS = "anonymous"
"""The id of whoever came without a credential."""

MAX_PRINCIPALS = 1_000
"""Whose hashes are kept."""


class Told(NamedTuple):
    """A record with all that its attributes are made from."""

    record: Record
    run: Run
    """After it, and after what was recorded with it."""
    rules: Rules


class Facts:
    """Makes them. `salt` is the ledger's: names are hashed with it, as arguments are."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._principals: dict[tuple[str, str], str] = {}

    def of(self, told: Told) -> Attributes:
        """What the record says, beside its place."""
        event = told.record.event
        if isinstance(event, Verdict):
            return self._verdict(told, event)
        if isinstance(event, _OF_ATTEMPTS):
            return _attempt(told.run, event)
        if isinstance(event, ApprovalDecided | ApprovalSeen | ApprovalWithdrawn | ApprovalExpired):
            return question(told.run, event.approval)
        tell = _OTHERS.get(type(event))
        made = tell(told, event) if tell is not None else {}
        if isinstance(event, RunOpened):
            made[Attr.AUTHORITY_PRINCIPAL_HASH] = self.principal(told.run)
        return made

    def principal(self, run: Run) -> str:
        """Who the run is of, as a keyed hash."""
        who = run.principal
        if who is None:
            return ""
        key = who.tenant, who.id
        if key not in self._principals:
            if len(self._principals) >= MAX_PRINCIPALS:
                self._principals.clear()
            self._principals[key] = digest_bytes("\0".join(key).encode(), self._salt)
        return self._principals[key]

    def hashed(self, text: str) -> str:
        """As a keyed hash: it tells what is the same, and nothing else."""
        return digest_bytes(text.encode(), self._salt)

    def _verdict(self, told: Told, event: Verdict) -> Attributes:
        run, policy = told.run, told.rules.policy
        refused = next((one for one in event.checks if not one.passed), None)
        made: Attributes = {
            Attr.GEN_AI_TOOL_NAME: OTHER if event.definition is None else event.tool,
            Attr.POLICY_ID: policy.workflow,
            Attr.POLICY_VERSION: event.policy,
            Attr.AUTHORITY_KIND: _authority(run, event),
            Attr.AUTHORITY_PRINCIPAL_HASH: self.principal(run),
            Attr.RUN_WORKFLOW: run.workflow,
            Attr.RUN_PHASE_BEFORE: event.phase,
            Attr.ARGUMENTS_HASH: event.arguments,
            **_became(told, event),
        }
        if refused is not None and not isinstance(event, IntentRecorded | ApprovalRequested):
            made[Attr.DECISION_CHECK] = refused.check
        rule = _rule(event, refused.rule if refused is not None else None)
        for key, value in (
            (Attr.POLICY_RULE_ID, rule),
            (Attr.TRANSITION_NAME, event.transition),
            (Attr.TOOL_VERSION_HASH, event.definition),
            (Attr.UPSTREAM_NAME, event.upstream),
        ):
            if value:
                made[key] = value
        if event.key is not None:
            made[Attr.IDEMPOTENCY_KEY_SOURCE] = event.key.source
            made[Attr.IDEMPOTENCY_KEY_HASH] = self.hashed(event.key.value)
        made.update(_about_attempt(run, event))
        made.update(_budgets(told, event))
        return made


_BECAME: Mapping[type, str] = {
    Denied: "deny",
    Replayed: "replay",
    Held: "hold",
    ApprovalRequested: "needs_approval",
    IntentRecorded: "allow",
    AttemptResumed: "allow",
    AttemptResent: "allow",
}


def _became(told: Told, event: Verdict) -> Attributes:
    """What the proposal became, and by which repeat of what."""
    made: Attributes = {Attr.DECISION_OUTCOME: _BECAME[type(event)]}
    match event:
        case Denied(outcome=outcome):
            made[Attr.DECISION_REASON] = outcome.value
            if outcome is Outcome.CONFLICT:
                made[Attr.IDEMPOTENCY_STATE] = "conflict"
        case Held():
            made |= _held(told.run, event)
        case ApprovalRequested(approval=approval, terms=terms):
            made[Attr.DECISION_REASON] = Outcome.NEEDS_APPROVAL.value
            made[Attr.APPROVAL_ID], made[Attr.APPROVAL_RISK] = approval, terms.risk
            made[Attr.APPROVAL_STATE] = "pending"
        case IntentRecorded(approval=approval) if approval is not None:
            made[Attr.AUTHORITY_APPROVAL_ID] = approval
        case _:
            pass
    return made | _REPEATS.get(type(event), {})


_REPEATS: Mapping[type, Attributes] = {
    IntentRecorded: {Attr.IDEMPOTENCY_STATE: "new"},
    Replayed: {Attr.IDEMPOTENCY_STATE: "replayed"},
    AttemptResumed: {Attr.RETRY_CLASS: "round"},
    AttemptResent: {Attr.RETRY_CLASS: "resend"},
}


def _held(run: Run, event: Held) -> Attributes:
    made: Attributes = {Attr.DECISION_REASON: event.outcome.value}
    if event.outcome is Outcome.NEEDS_APPROVAL:
        made[Attr.DECISION_OUTCOME] = "needs_approval"
    else:
        made[Attr.IDEMPOTENCY_STATE] = "in_flight" if event.outcome is Outcome.IN_FLIGHT else "held"
    approval = run.approvals.get(event.approval or "")
    if approval is not None:
        made |= {Attr.APPROVAL_ID: approval.id, Attr.APPROVAL_RISK: approval.terms.risk}
    return made


def _rule(event: Verdict, refused: str | None) -> str | None:
    if isinstance(event, Denied | ApprovalRequested) and event.rule:
        return event.rule
    return refused if isinstance(event, Denied | Held) else None


def _authority(run: Run, event: Verdict) -> str:
    if event.compensates is not None:
        return "compensation"
    if isinstance(event, IntentRecorded) and event.approval is not None:
        return "approval"
    if run.principal is None or run.principal.id == ANONYMOUS:
        return "anonymous"
    return "delegation" if run.delegated is not None else "grant"


def _about_attempt(run: Run, event: Verdict) -> Attributes:
    name = getattr(event, "attempt", None)
    if name is None:
        return {}
    attempt = run.attempts.get(name)
    made: Attributes = {Attr.INTENT_ID: name}
    if attempt is not None:
        made[Attr.TOOL_EFFECT] = attempt.intent.effect.value
    return made


_UNITS = {
    "calls": (Attr.BUDGET_CHARGED_CALLS, Attr.BUDGET_REMAINING_CALLS),
    "mutations": (Attr.BUDGET_CHARGED_MUTATIONS, Attr.BUDGET_REMAINING_MUTATIONS),
    "tokens": (Attr.BUDGET_CHARGED_TOKENS, Attr.BUDGET_REMAINING_TOKENS),
    "cost": (Attr.BUDGET_CHARGED_COST, Attr.BUDGET_REMAINING_COST),
    "reviews": (Attr.BUDGET_CHARGED_REVIEWS, Attr.BUDGET_REMAINING_REVIEWS),
}


def _unpaid(event: Denied) -> bool:
    """A budget or account refused it. Its outcome alone does not tell: where the run goes on it is `denied`."""
    of_budgets = event.outcome in {Outcome.BUDGET_EXHAUSTED, Outcome.RATE_LIMITED}
    return of_budgets or any(one.check == "budget" and not one.passed for one in event.checks)


def _budgets(told: Told, event: Verdict) -> Attributes:
    if isinstance(event, Denied):
        return {Attr.BUDGET_NAME: event.rule} if event.rule and _unpaid(event) else {}
    if not isinstance(event, IntentRecorded):
        return {}
    made: Attributes = {}
    for place, amounts in enumerate((charged(event.charge), left(told.run, told.rules.policy, None))):
        for unit in amounts.keys() & _UNITS:
            made[_UNITS[unit][place]] = float(amounts[unit]) if unit == "cost" else int(amounts[unit])
    if event.charge.cost:
        made[Attr.USAGE_SOURCE] = "priced"
    return made


# --- what becomes of an attempt ---------------------------------------------------------------------------------------

_Fate: TypeAlias = (
    ReceiptRecorded
    | AttemptUnsent
    | AttemptUnknown
    | AttemptAbandoned
    | AttemptRefuted
    | AttemptSuspended
    | AttemptQueried
    | OutcomeDelivered
    | CompensationOwed
    | CompensationFailed
)
_OF_ATTEMPTS = (
    ReceiptRecorded,
    AttemptUnsent,
    AttemptUnknown,
    AttemptAbandoned,
    AttemptRefuted,
    AttemptSuspended,
    AttemptQueried,
    OutcomeDelivered,
    CompensationOwed,
    CompensationFailed,
)

_STATES: Mapping[type, str] = {
    AttemptUnsent: "unsent",
    AttemptUnknown: "unknown",
    AttemptAbandoned: "abandoned",
    AttemptRefuted: "refuted",
}


def receipt_state(event: Event) -> str | None:
    """What is known of the attempt by this event; None where it says nothing of that."""
    if not isinstance(event, ReceiptRecorded):
        return _STATES.get(type(event))
    if event.source != "upstream" or event.late:
        return "reconciled"
    return "failed" if event.is_error else "confirmed"


def _attempt(run: Run, event: _Fate) -> Attributes:
    made: Attributes = {Attr.INTENT_ID: event.attempt, **standing_of(run, event.attempt)}
    if (state := receipt_state(event)) is not None:
        made[Attr.RECEIPT_STATE] = state
    if isinstance(event, ReceiptRecorded) and event.result is not None:
        made[Attr.RECEIPT_HASH] = event.result
    if isinstance(event, AttemptQueried):
        made[Attr.QUERY_VERDICT] = event.verdict
    return made


def standing_of(run: Run, name: str) -> Attributes:
    """The tool of the attempt, and how its effect stands where it has one."""
    attempt: Attempt | None = run.attempts.get(name)
    if attempt is None:
        return {}
    stands = standing(run, attempt)
    return {
        Attr.GEN_AI_TOOL_NAME: attempt.intent.tool,
        **({Attr.EFFECT_STANDING: stands.value} if stands is not None else {}),
    }


# --- what people, verifiers and agents say ----------------------------------------------------------------------------


def question(run: Run, name: str) -> Attributes:
    """How a question to a person stands."""
    approval = run.approvals[name]
    made: Attributes = {
        Attr.APPROVAL_ID: name,
        Attr.APPROVAL_RISK: approval.terms.risk,
        Attr.APPROVAL_STATE: approval.decision or "pending",
        Attr.GEN_AI_TOOL_NAME: approval.tool,
    }
    if approval.decided_at is not None:
        made[Attr.APPROVAL_WAIT_DURATION] = max(0.0, (approval.decided_at - approval.requested_at).total_seconds())
    return made


_SCORES = {"pass": 1.0, "fail": 0.0}


def _evidence(told: Told, event: EvidenceRecorded) -> Attributes:
    made: Attributes = {
        Attr.GEN_AI_EVALUATION_NAME: event.verifier,
        Attr.GEN_AI_EVALUATION_SCORE_LABEL: event.verdict,
        Attr.VERIFIER_NAME: event.verifier,
        Attr.VERIFIER_VERDICT: event.verdict,
    }
    if event.verdict in _SCORES:
        made[Attr.GEN_AI_EVALUATION_SCORE_VALUE] = _SCORES[event.verdict]
    if event.attempt is not None:
        made |= {Attr.INTENT_ID: event.attempt, **standing_of(told.run, event.attempt)}
    return made


def _moved(told: Told, event: PhaseMoved) -> Attributes:
    made: Attributes = {
        Attr.RUN_WORKFLOW: told.run.workflow,
        Attr.RUN_PHASE_BEFORE: event.source,
        Attr.RUN_PHASE_AFTER: event.target,
        Attr.TRANSITION_NAME: event.transition,
    }
    return made | ({Attr.INTENT_ID: event.attempt} if event.attempt is not None else {})


def _stopped(told: Told, event: RunStopped) -> Attributes:
    made: Attributes = {
        Attr.STOP_REASON: event.outcome.value,
        Attr.RUN_WORKFLOW: told.run.workflow,
        Attr.RUN_PHASE_AFTER: told.run.phase,
    }
    return made | ({Attr.POLICY_RULE_ID: event.rule} if event.rule else {})


_OTHERS: Mapping[type, Callable[[Told, Any], Attributes]] = {
    EvidenceRecorded: _evidence,
    PhaseMoved: _moved,
    RunStopped: _stopped,
    RunOpened: lambda _, event: {
        Attr.RUN_WORKFLOW: event.workflow,
        Attr.RUN_PHASE_AFTER: event.phase,
        Attr.POLICY_VERSION: event.policy,
    },
    RunMigrated: lambda _, event: {Attr.POLICY_VERSION: event.target},
    PlanRecorded: lambda _, event: {Attr.PLAN_REVISION: event.revision},
    PlanInvalidated: lambda _, event: {Attr.PLAN_REVISION: event.plan},
    FinishClaimed: lambda _, event: {Attr.FINISH_OUTCOME: event.outcome},
    PayloadsErased: lambda _, event: {Attr.ERASED_COUNT: event.count},
    SwitchThrown: lambda _, event: {
        **({Attr.GEN_AI_TOOL_NAME: event.tool} if event.tool else {}),
        **({Attr.UPSTREAM_NAME: event.upstream} if event.upstream else {}),
    },
    NoticeSent: lambda _, event: {Attr.NOTICE_CHANNEL: event.channel, Attr.NOTICE_OUTCOME: event.outcome},
}
