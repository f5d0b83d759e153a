"""(verdict, the checks that were made) -> each check in order, with what it looked at, and the whole in a sentence.

It decides nothing; what there is to explain is what `decide` did.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, assert_never

from gateway.kernel.case import Case, Check
from gateway.kernel.checks import listed
from gateway.kernel.decide import CHECKS, RESENDING, RESUMING, Taken
from gateway.kernel.looks import Look, clauses, looks
from gateway.kernel.values import values_of
from gateway.model.events import (
    ApprovalRequested,
    AttemptResent,
    AttemptResumed,
    Denied,
    Finding,
    Held,
    IntentRecorded,
    Outcome,
    Replayed,
    Verdict,
)
from gateway.model.policy import Transition

Result: TypeAlias = Literal["passed", "refused", "waits", "asks", "replayed", "waived", "unreached"]
"""`waived`: it refused, and only observes."""


@dataclass(frozen=True, slots=True)
class Line:
    """One check, in the order of `CHECKS`."""

    check: str
    result: Result
    finding: Finding | None
    """As the verdict has it; None where it was not reached."""
    looks: tuple[Look, ...] = ()


def lines(verdict: Verdict, taken: Sequence[Taken]) -> tuple[Line, ...]:
    """Every check of the verdict and what it looked at, then those that it did not come to."""
    first = verdict.checks[0].check if verdict.checks else ""
    order = _ORDERS.get(first, CHECKS)
    made = {one.check: one for one in taken}
    found = [
        Line(finding.check, result, finding, looks(made[finding.check]) if finding.check in made else ())
        for finding, result in zip(verdict.checks, results(verdict), strict=True)
    ]
    reached = {line.check for line in found}
    return (*found, *(Line(name, "unreached", None) for name in order if name not in reached))


_ORDERS: Mapping[str, Mapping[str, Check]] = {next(iter(one)): one for one in (RESUMING, RESENDING)}
"""By the check that comes first."""


def results(verdict: Verdict) -> tuple[Result, ...]:
    """How each check of the verdict ended."""
    last = len(verdict.checks) - 1
    ends: Mapping[str, Result] = {"proposal.held": "waits", "approval.requested": "asks", "proposal.denied": "refused"}
    found: list[Result] = []
    for place, finding in enumerate(verdict.checks):
        if place == last and isinstance(verdict, Replayed):
            found.append("replayed")
        elif finding.passed:
            found.append("passed")
        else:
            found.append(ends.get(verdict.kind, "waived") if place == last else "waived")
    return tuple(found)


# --- the whole, in a sentence ---------------------------------------------------------------------------------------


def conclusion(verdict: Verdict) -> str:
    """What became of the call, in one sentence."""
    whose = f"to undo attempt `{verdict.compensates}`: " if verdict.compensates is not None else ""
    return whose + _concluded(verdict)


def _concluded(verdict: Verdict) -> str:
    last = verdict.checks[-1].check if verdict.checks else "?"
    match verdict:
        case Denied():
            rule = f" by rule `{verdict.rule}`" if verdict.rule else ""
            said = "denied" if verdict.outcome is Outcome.DENIED else f"refused as {verdict.outcome}"
            return f"{said}{rule} at check `{last}`: {verdict.reason}"
        case Held():
            return f"{_WAITS[verdict.outcome]} at check `{last}`: {verdict.reason}"
        case ApprovalRequested():
            return f"a person is asked by rule `{verdict.rule}` at check `{last}`: {verdict.reason}"
        case Replayed():
            return f"answered at check `{last}` from the record of attempt `{verdict.attempt}`; nothing is sent"
        case AttemptResent():
            return f"allowed: attempt `{verdict.attempt}` is sent again under its key"
        case AttemptResumed():
            return f"allowed: attempt `{verdict.attempt}` goes on with the client's input"
        case IntentRecorded():
            by = f"by transition `{verdict.transition}`" if verdict.transition else "though no transition allows it"
            would = f"; the mode `observe` waived {listed(verdict.waived)}" if verdict.waived else ""
            return f"allowed {by}{_moves(verdict)}{would}"
        case _:
            assert_never(verdict)


_WAITS: Mapping[Outcome, str] = {
    Outcome.HELD: "held",
    Outcome.IN_FLIGHT: "told to wait",
    Outcome.NEEDS_APPROVAL: "waits for a person",
}


def _moves(intent: IntentRecorded) -> str:
    asked = [intent.verifier, *intent.verifiers] if intent.verifier else []
    plural = len(asked) > 1
    after = f"once {listed(asked)} {'pass' if plural else 'passes'}" if asked else "by its receipt"
    if intent.target is None:
        return f", and {listed(asked)} {'are' if plural else 'is'} asked" if asked else ""
    return f"; the run comes to phase `{intent.target}` {after}"


def reading(verdict: Verdict, taken: Sequence[Taken]) -> tuple[str, ...]:
    """Of a refusal: what the policy says would have to be otherwise. A reading, and no advice."""
    if not isinstance(verdict, Denied) or not taken:
        return ()
    case, last = taken[0].case, verdict.checks[-1]
    if last.check == "schema":
        return tuple(
            f"the argument {one['path'] or '/'}: {one['expected']}" for one in last.inputs.get("violations", ())
        )
    if case.ruled is None or last.check not in {"tool", "phase", "authority", "conditions"}:
        return ()
    forbidden = next((one for one in case.ruled.forbids if one.name == verdict.rule), None)
    if forbidden is not None:
        holding = f" while {_spelled(forbidden.when)}" if forbidden.when else ", whatever its arguments and state"
        return (f"the forbid rule `{forbidden.name}` refuses it{holding}; no transition can allow it",)
    if not case.ruled.transitions:
        return (f"no transition names `{case.proposal.tool}` as a {case.known.effect} tool",)
    lacking = {one.name: _lacking(case, one) for one in case.ruled.transitions}
    nearest = min(lacking, key=lambda name: len(lacking[name]))
    return (f"the transition that is nearest to allowing it is `{nearest}`; what it lacks:", *lacking[nearest])


def _lacking(case: Case, transition: Transition) -> list[str]:
    """What this transition wants and the call has not."""
    parts: list[str] = []
    if transition.sources and case.run.phase not in transition.sources:
        parts.append(f"a phase of {listed(transition.sources)}; the run is in `{case.run.phase}`")
    needed = set(case.known.rule.permissions) | set(transition.authority)
    if lacks := sorted(needed - case.authority):
        parts.append(f"the authority {listed(lacks)}")
    values = values_of(case)
    unmet = (one for one in clauses(case, transition.when, values) if one.holds is not True)
    return parts + [f"`{one.expression}`" if one.why is None else f"`{one.expression}`: {one.why}" for one in unmet]


def _spelled(when: tuple[str, ...]) -> str:
    return " and ".join(f"`{one}`" for one in when)
