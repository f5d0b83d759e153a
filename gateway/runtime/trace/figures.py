"""What events of the ledger count for, as metrics of this process: of what it recorded itself.

Without an SDK every instrument here is a no-op. No label says who, which run or which question: those are many. The
names of tools are those that upstreams list; whatever else a caller asks for counts as one. A yes that is void later is
counted twice, as `approved` and as `superseded`.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from gateway.kernel.accounts import limits_of
from gateway.kernel.charges import measured
from gateway.model.approval import Approval
from gateway.model.events import (
    ApprovalDecided,
    ApprovalExpired,
    ApprovalRequested,
    ApprovalSeen,
    ApprovalWithdrawn,
    AttemptAbandoned,
    AttemptRefuted,
    AttemptUnknown,
    AttemptUnsent,
    EvidenceRecorded,
    IntentRecorded,
    PhaseMoved,
    ReceiptRecorded,
    RunOpened,
    RunStopped,
    Verdict,
)
from gateway.model.run import Run
from gateway.model.telemetry.kinds import Metric
from gateway.model.telemetry.names import OTHER, Attr, Metrics
from gateway.runtime.trace.facts import Attributes, Told, receipt_state
from gateway.runtime.trace.providers import METER

T = TypeVar("T")


def instrument(make: Callable[..., T], metric: Metric) -> T:
    """The instrument, as the registry has it."""
    told: dict[str, Any] = {"unit": metric.unit, "description": metric.description}
    if metric.buckets is not None:
        told["explicit_bucket_boundaries_advisory"] = metric.buckets
    return make(metric.name, **told)


_count, _measure, _level = METER.create_counter, METER.create_histogram, METER.create_up_down_counter

_DECISIONS = instrument(_count, Metrics.DECISIONS)
_DECIDED = instrument(_measure, Metrics.DECISION_DURATION)
_TRANSITIONS = instrument(_count, Metrics.RUN_TRANSITIONS)
_RUNS = instrument(_count, Metrics.RUNS)
_ACTIVE_RUNS = instrument(_level, Metrics.RUN_ACTIVE)
_UTILIZATION = instrument(_measure, Metrics.RUN_BUDGET_UTILIZATION)
_CALLS = instrument(_count, Metrics.BUDGET_CALLS)
_MUTATIONS = instrument(_count, Metrics.BUDGET_MUTATIONS)
_TOKENS = instrument(_count, Metrics.BUDGET_TOKENS)
_COST = instrument(_count, Metrics.BUDGET_COST)
_REVIEWS = instrument(_count, Metrics.BUDGET_REVIEWS)
_EXHAUSTIONS = instrument(_count, Metrics.BUDGET_EXHAUSTIONS)
_APPROVALS = instrument(_count, Metrics.APPROVALS)
_WAITED = instrument(_measure, Metrics.APPROVAL_WAIT_DURATION)
_FIRST_LOOK = instrument(_measure, Metrics.APPROVAL_FIRST_LOOK_DURATION)
_ACTIVE = instrument(_measure, Metrics.APPROVAL_ACTIVE_DURATION)
_INTENTS = instrument(_count, Metrics.INTENTS)
_HITS = instrument(_count, Metrics.IDEMPOTENCY_HITS)
_VERDICTS = instrument(_count, Metrics.VERIFIER_VERDICTS)
_LOOKED = instrument(_measure, Metrics.VERIFIER_DURATION)
_SIZE = instrument(_measure, Metrics.TOOL_RESULT_SIZE)
_RESULT_TOKENS = instrument(_measure, Metrics.TOOL_RESULT_TOKENS)

MILLION = 1_000_000


MAX_TOOLS = 1_000
"""Names of tools that are labels; a server may list new ones for ever."""

_tools: set[str] = set()


def label_of(tool: str) -> str:
    """The tool's name, as a label."""
    if tool not in _tools:
        if len(_tools) >= MAX_TOOLS:
            return OTHER
        _tools.add(tool)
    return tool


def counted(told: Told, facts: Attributes, since_s: float | None) -> None:
    """The record is durable, and these are its facts. `since_s`: of a verdict, since its proposal came."""
    event = told.record.event
    if isinstance(event, Verdict):
        _judged(told, event, facts)
        if since_s is not None:
            _DECIDED.record(since_s, {Attr.DECISION_OUTCOME: facts[Attr.DECISION_OUTCOME]})
    match event:
        case ReceiptRecorded():
            _received(told, event, facts)
        case AttemptUnsent() | AttemptUnknown() | AttemptAbandoned() | AttemptRefuted():
            _known(told.run, event.attempt, receipt_state(event))
        case EvidenceRecorded():
            _looked(event)
        case PhaseMoved():
            _TRANSITIONS.add(1, _only(facts, Metrics.RUN_TRANSITIONS))
        case RunOpened():
            _ACTIVE_RUNS.add(1, {Attr.RUN_WORKFLOW: event.workflow})
        case RunStopped():
            _over(told, facts)
        case ApprovalRequested() | ApprovalDecided() | ApprovalWithdrawn() | ApprovalExpired() | ApprovalSeen():
            _asked(told.run, event)
        case _:
            pass


def _only(facts: Attributes, metric: Metric) -> Attributes:
    return {key: facts[key] for key in metric.labels if key in facts}


def _judged(told: Told, event: Verdict, facts: Attributes) -> None:
    tool = OTHER if event.definition is None else label_of(event.tool)
    _DECISIONS.add(1, _only(facts, Metrics.DECISIONS) | {Attr.GEN_AI_TOOL_NAME: tool})
    if (state := facts.get(Attr.IDEMPOTENCY_STATE)) not in {None, "new"}:
        _HITS.add(1, {Attr.IDEMPOTENCY_STATE: state})
    if (budget := facts.get(Attr.BUDGET_NAME)) is not None:
        _EXHAUSTIONS.add(1, {Attr.BUDGET_NAME: budget, Attr.RUN_WORKFLOW: told.run.workflow})
    labels = {Attr.GEN_AI_TOOL_NAME: tool, Attr.RUN_WORKFLOW: told.run.workflow}
    if isinstance(event, ApprovalRequested):
        _REVIEWS.add(1, labels)
    if isinstance(event, IntentRecorded):
        _CALLS.add(event.charge.calls, labels)
        if event.charge.mutations:
            _MUTATIONS.add(event.charge.mutations, labels)
        if event.charge.cost:
            _COST.add(event.charge.cost / MILLION, {**labels, Attr.USAGE_SOURCE: "priced"})


def _received(told: Told, event: ReceiptRecorded, facts: Attributes) -> None:
    _known(told.run, event.attempt, facts.get(Attr.RECEIPT_STATE))
    attempt = told.run.attempts.get(event.attempt)
    if attempt is None or not event.size_bytes:
        return
    tool = {Attr.GEN_AI_TOOL_NAME: label_of(attempt.intent.tool)}
    tokens, estimated = measured(event.size_bytes), {**tool, Attr.USAGE_SOURCE: "estimated"}
    _SIZE.record(event.size_bytes, tool)
    _RESULT_TOKENS.record(tokens, estimated)
    _TOKENS.add(tokens, {**estimated, Attr.RUN_WORKFLOW: told.run.workflow})


def _known(run: Run, name: str, state: str | None) -> None:
    attempt = run.attempts.get(name)
    if attempt is not None and state is not None:
        labels = {Attr.RECEIPT_STATE: state, Attr.TOOL_EFFECT: attempt.intent.effect.value}
        _INTENTS.add(1, {**labels, Attr.UPSTREAM_NAME: attempt.intent.upstream or OTHER})


def _looked(event: EvidenceRecorded) -> None:
    labels = {Attr.VERIFIER_NAME: event.verifier, Attr.VERIFIER_VERDICT: event.verdict}
    _VERDICTS.add(1, labels)
    if event.duration_s is not None:
        _LOOKED.record(event.duration_s, labels)


def _over(told: Told, facts: Attributes) -> None:
    _RUNS.add(1, _only(facts, Metrics.RUNS))
    _ACTIVE_RUNS.add(-1, {Attr.RUN_WORKFLOW: told.run.workflow})
    spent = vars(told.run.spent)
    for unit, limit in limits_of(told.rules.policy.budgets).items():
        if limit:
            _UTILIZATION.record(spent[unit] / limit, {Attr.BUDGET_NAME: unit, Attr.RUN_WORKFLOW: told.run.workflow})


def _asked(
    run: Run, event: ApprovalRequested | ApprovalDecided | ApprovalWithdrawn | ApprovalExpired | ApprovalSeen
) -> None:
    approval = run.approvals[event.approval]
    risk = {Attr.APPROVAL_RISK: approval.terms.risk}
    match event:
        case ApprovalRequested():
            for name in event.supersedes:
                _end(run.approvals[name])
        case ApprovalSeen():
            if len(approval.seen) == 1 and run.last_at is not None:  # nobody had looked before
                _FIRST_LOOK.record(max(0.0, (run.last_at - approval.requested_at).total_seconds()), risk)
        case ApprovalDecided():
            if event.active_s is not None:
                _ACTIVE.record(event.active_s, risk)
            _end(approval)
        case _:
            _end(approval)


def _end(approval: Approval) -> None:
    """It waits no more; nothing, where others must agree as well."""
    if approval.decision is None or approval.decided_at is None:
        return
    risk = {Attr.APPROVAL_RISK: approval.terms.risk}
    labels = {Attr.APPROVAL_STATE: approval.decision, **risk}
    _APPROVALS.add(1, labels)
    _WAITED.record(max(0.0, (approval.decided_at - approval.requested_at).total_seconds()), labels)
