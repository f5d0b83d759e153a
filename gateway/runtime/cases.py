"""A policy's own tests: state and call, judged by the very `decide` of a running gateway."""

from rpds import HashTrieMap

from gateway.kernel.case import Observed
from gateway.kernel.decide import decide
from gateway.kernel.reduce import reduce
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop
from gateway.model.canonical import digest
from gateway.model.events import (
    ApprovalRequested,
    Charge,
    Denied,
    EvidenceRecorded,
    IntentRecorded,
    RunOpened,
    Verdict,
    Who,
)
from gateway.model.policy import Case
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import Record, utc
from gateway.model.run import Evidence, Run
from gateway.model.tool import Tool

_START = 1_800_000_000.0
"""When every case's run was opened; cases have no clock of their own."""


def judge(rules: Rules, case: Case) -> tuple[Verdict, str]:
    """The verdict on the case's call in its state, and the outcome in the words of `expect`."""
    given = case.given
    principal = Principal(id=given.principal, tenant=given.tenant, roles=frozenset(given.roles))
    run = _state(rules, case, principal)
    own_name = case.call.tool.rpartition("__")[2]
    definition = {"name": own_name, "inputSchema": given.tool.input_schema, "annotations": given.tool.annotations}
    tool = Tool(case.call.tool, "case", own_name, definition)
    arguments = case.call.arguments
    proposal = Proposal(run.id, principal, case.call.tool, arguments, digest(arguments, b""))
    now = utc(_START + given.elapsed_s)
    verdict = decide(run, proposal, rules, Observed(tool), now)
    after = reduce(run, Record(run=run.id, seq=run.version + 1, at=now, previous=run.head, event=verdict), "")
    over = stop(after, rules, now)
    return verdict, str(over.outcome) if over is not None else _outcome(verdict)


def mismatch(rules: Rules, case: Case) -> str | None:
    """What came instead of what the case expects, in one sentence; None if it came."""
    verdict, outcome = judge(rules, case)
    expected = case.expect
    refused = verdict.checks[-1]
    reason = f": {refused.reason}" if not refused.passed and refused.reason else ""
    if outcome != expected.outcome:
        return f"expected {expected.outcome}, but it is {outcome} by check `{refused.check}`{reason}"
    if expected.check is not None and refused.check != expected.check:
        return f"expected check `{expected.check}` to decide, but `{refused.check}` did{reason}"
    rule = refused.rule or verdict.transition
    if expected.rule is not None and rule != expected.rule:
        return f"expected rule `{expected.rule}` to decide, but `{rule}` did{reason}"
    return None


def _state(rules: Rules, case: Case, principal: Principal) -> Run:
    given = case.given
    who = Who(tenant=principal.tenant, id=principal.id, roles=tuple(sorted(principal.roles)))
    opened = RunOpened(principal=who, workflow=rules.policy.workflow, policy=rules.digest, phase=rules.policy.initial)
    run = reduce(Run("run_case"), Record(run="run_case", seq=1, at=utc(_START), previous="", event=opened), "")
    evidence: HashTrieMap[str, Evidence] = HashTrieMap()
    for name, verdict in given.evidence.items():
        event = EvidenceRecorded(verifier=name, verdict=verdict, says="as the case says", started_at=utc(_START))
        evidence = evidence.insert(name, Evidence(1, event, fresh=name not in given.stale))
    spent = Charge(calls=given.calls, mutations=given.mutations)
    return run._replace(phase=given.phase or run.phase, spent=spent, evidence=evidence)


def _outcome(verdict: Verdict) -> str:
    match verdict:
        case IntentRecorded():
            return "allowed"
        case ApprovalRequested():
            return "needs_approval"
        case Denied():
            return str(verdict.outcome)
        case _:
            return str(getattr(verdict, "outcome", "replayed"))
