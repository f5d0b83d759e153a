"""A policy's own tests: state and call, judged by the very `decide` of a running gateway."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from rpds import HashTrieMap

from gateway.kernel.accounts import limits_of
from gateway.kernel.approve import action_digest
from gateway.kernel.case import Gather, Observed, Probed
from gateway.kernel.decide import Taken, decide
from gateway.kernel.reduce import reduce
from gateway.kernel.rules import Rules
from gateway.kernel.stop import stop
from gateway.kernel.ways import ASSUMED
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
from gateway.model.flaws import account_rule
from gateway.model.policy import Case, Given, Limits, micro
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import Record, utc
from gateway.model.run import Approval, Evidence, Run
from gateway.model.tool import Tool

_START = 1_800_000_000.0
"""When every case's run was opened; cases have no clock of their own."""


@dataclass(frozen=True, slots=True)
class Judged:
    """A call that was judged, with the state around it."""

    run: Run
    """Before the verdict."""
    proposal: Proposal
    rules: Rules
    now: datetime
    verdict: Verdict
    after: Run
    """The run after the verdict, and after the stop that follows from it."""
    taken: tuple[Taken, ...]
    """The checks that were made."""
    assumed: tuple[str, ...] = ()
    """What nobody has looked at, and how it was taken to be."""


def judge(rules: Rules, case: Case) -> tuple[Verdict, str]:
    """The verdict on the case's call in its state, and the outcome in the words of `expect`."""
    found = judged(rules, case)
    over = found.after.stopped
    return found.verdict, str(over.outcome) if over is not None else _outcome(found.verdict)


def judged(rules: Rules, case: Case) -> Judged:
    """The case's call, judged in its state.

    As if the policy enforced, where the case does not say what would be refused: turning a policy to `observe` breaks
    no case. Rules that only observe of themselves do so here too.
    """
    given = case.given
    if rules.policy.mode == "observe" and case.expect.would_refuse is None:
        rules = rules.once("enforced", lambda: enforced(rules))
    principal = Principal(given.principal, given.tenant, frozenset(given.roles), frozenset(given.scopes))
    run = _state(rules, case, principal)
    tool = _tool(rules, case)
    arguments = case.call.arguments
    proposal = Proposal(run.id, principal, case.call.tool, arguments, digest(arguments, b""))
    now = given.now or utc(_START + given.elapsed_s)
    if given.approved:
        run = _approved(rules, run, proposal, now)
    verdict, taken = _decided(rules, run, proposal, tool, given, now)
    return Judged(run, proposal, rules, now, verdict, after(run, verdict, rules, now), taken)


def enforced(rules: Rules) -> Rules:
    """The same rules, as they are when the policy enforces."""
    policy = rules.policy.model_copy(update={"mode": "enforce"})
    return Rules(policy, rules.digest, rules.conditions, rules.values, rules.limited)


def _tool(rules: Rules, case: Case) -> Tool:
    """The called tool: as the case says, else as it is pinned, else one of which nothing is known."""
    given, own_name = case.given.tool, case.call.tool.rpartition("__")[2]
    pinned = rules.policy.pins.get(case.call.tool)
    if pinned is not None and "tool" not in case.given.model_fields_set:
        return Tool(case.call.tool, "case", own_name, pinned.definition)
    definition = {"name": own_name, "inputSchema": given.input_schema, "annotations": given.annotations}
    return Tool(case.call.tool, "case", own_name, definition)


def after(run: Run, verdict: Verdict, rules: Rules, now: datetime) -> Run:
    """The run as it would be after this verdict, and after the stop that follows from it."""
    run = reduce(run, Record(run=run.id, seq=run.version + 1, at=now, previous=run.head, event=verdict), "")
    over = stop(run, rules, now)
    if over is None:
        return run
    return reduce(run, Record(run=run.id, seq=run.version + 1, at=now, previous=run.head, event=over), "")


def _decided(
    rules: Rules, run: Run, proposal: Proposal, tool: Tool, given: Given, now: datetime
) -> tuple[Verdict, tuple[Taken, ...]]:
    """As `decide`, with the world as the case imagines it; and the checks that were made."""
    observed = Observed(tool, parent="running" if run.parent is not None else None)
    while True:  # ends: each round answers what the one before wanted to know, once
        taken: list[Taken] = []
        found = decide(run, proposal, rules, observed, now, taken)
        if not isinstance(found, Gather):
            return found, tuple(taken)
        if found.accounts:
            stands = ((account, limits_of(_stands(given, account))) for account in found.accounts)
            levels = {(account, unit): level or 0 for account, units in stands for unit, level in units.items()}
            observed = replace(observed, levels=levels)
        if found.offered:
            observed = replace(observed, offered=ASSUMED)
        probes = {name: _probed(name, given, now) for name in found.probes}
        observed = replace(observed, probes={**observed.probes, **probes})


def _stands(given: Given, account: str) -> Limits:
    """What the case says of an account, which it knows by the rule's name."""
    mine = (stands for name, stands in given.accounts.items() if account.startswith(f"{account_rule(name)} "))
    return next(mine, Limits())


def _probed(name: str, given: Given, now: datetime) -> Probed:
    verdict = given.probes.get(name, "pass")
    return Probed(verdict, f"`{name}` says {verdict}, as the case says", now, stands=digest({"case": name}, b""))


def wrong_cases(rules: Rules) -> dict[str, str]:
    """The cases of the policy that do not hold, each with what came instead."""
    found = ((case.name, mismatch(rules, case)) for case in rules.policy.cases)
    return {name: why for name, why in found if why is not None}


def broken_promises(rules: Rules) -> Iterator[str]:
    """What whoever starts a gateway under this policy must know of its cases, if not all of them hold."""
    if wrong := wrong_cases(rules):
        yield f"{len(wrong)} of its {len(rules.policy.cases)} cases do not hold; `counterfoil check` tells which"


def mismatch(rules: Rules, case: Case) -> str | None:
    """What came instead of what the case expects, in one sentence; None if it came."""
    verdict, outcome = judge(rules, case)
    expected = case.expect
    refused = verdict.checks[-1]
    reason = f": {refused.reason}" if not refused.passed and refused.reason else ""
    if outcome != expected.outcome:
        allowed = outcome == "allowed" and verdict.transition
        by = f"`{verdict.transition}`" if allowed else f"check `{refused.check}`{reason}"
        return f"expected {expected.outcome}, but it is {outcome} by {by}"
    if expected.check is not None and refused.check != expected.check:
        return f"expected check `{expected.check}` to decide, but `{refused.check}` did{reason}"
    would = tuple(verdict.waived) if isinstance(verdict, IntentRecorded) else ()
    if expected.would_refuse is not None and would != expected.would_refuse:
        listed = ", ".join(f"`{one}`" for one in would) or "none"
        return f"expected other checks to be waived; it is {listed}"
    rule = refused.rule or verdict.transition
    if expected.rule is not None and rule != expected.rule:
        return f"expected rule `{expected.rule}` to decide, but `{rule}` did{reason}"
    return None


def _state(rules: Rules, case: Case, principal: Principal) -> Run:
    given, opened_at = case.given, utc(_START)
    if given.now is not None:
        opened_at = given.now - timedelta(seconds=given.elapsed_s)
    opened = RunOpened(
        principal=Who.of(principal),
        workflow=rules.policy.workflow,
        policy=rules.digest,
        phase=rules.policy.initial,
        parent=None if given.delegated is None else "run_parent",
        delegated=given.delegated,
    )
    run = reduce(Run("run_case"), Record(run="run_case", seq=1, at=opened_at, previous="", event=opened), "")
    evidence: HashTrieMap[str, Evidence] = HashTrieMap()
    for name, verdict in given.evidence.items():
        scope = {**rules.policy.verifiers[name].scope, **given.scope.get(name, {})}
        event = EvidenceRecorded(
            verifier=name, verdict=verdict, says="as the case says", scope=scope, started_at=opened_at
        )
        evidence = evidence.insert(name, Evidence(1, event, fresh=name not in given.stale))
    spent = Charge(
        calls=given.calls,
        mutations=given.mutations,
        tokens=given.tokens,
        cost=micro(given.cost),
        reviews=given.reviews,
    )
    phase, data = given.phase or run.phase, frozenset(given.data)
    return run._replace(phase=phase, spent=spent, evidence=evidence, data=data)


def _approved(rules: Rules, run: Run, proposal: Proposal, now: datetime) -> Run:
    """The run in which a person has said yes to this very call."""
    approval = Approval(
        id="ap_case",
        action=action_digest(proposal, None, rules.digest),
        tool=proposal.tool,
        rule="",
        role=None,
        quorum=1,
        self_review=True,
        requested_at=now,
        expires_at=now + timedelta(days=1),
        seq=1,
        decision="approved",
        by="as the case says",
    )
    return run._replace(
        approvals=run.approvals.insert(approval.id, approval), actions=run.actions.insert(approval.action, approval.id)
    )


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
