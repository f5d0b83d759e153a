"""(run, rules, now) -> RunStopped | None. `STOPS` in order: a proven success is one, whatever else ran out.

A default run has none: it is shared, and a shared run that stopped would lock its user out.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from gateway.kernel.owing import keeps_going, undone_by_nobody
from gateway.kernel.rules import Rules
from gateway.kernel.soonest import too_late
from gateway.kernel.steps import FAILURES, circling
from gateway.model.event_parts import Lack
from gateway.model.events import Outcome, RunStopped
from gateway.model.policy import Accept
from gateway.model.run import Evidence, Run, RunState
from gateway.model.steps import Kind, Peak

Stop = Callable[[Run, Rules, datetime], RunStopped | None]


def stop(run: Run, rules: Rules, now: datetime) -> RunStopped | None:
    """Why the run is over as of its last event, or None while it goes on; also while something may have to be undone,
    for afterwards nothing could be.
    """
    if (run.set_aside or run.owed) and keeps_going(run):
        return None
    return due(run, rules, now)


def due(run: Run, rules: Rules, now: datetime) -> RunStopped | None:
    """As `stop`, whatever is still to be undone."""
    if run.state is not RunState.RUNNING or run.origin == "default":
        return None
    for rule in STOPS:
        stopped = rule(run, rules, now)
        if stopped is not None:
            return stopped
    return None


def _verified_success(run: Run, rules: Rules, _now: datetime) -> RunStopped | None:
    success = rules.policy.success
    if success is None or (success.phase is not None and run.phase != success.phase):
        return None
    held = [run.evidence.get(name) for name in success.evidence]
    proofs = [proof for proof in held if proof is not None and proves(proof, success.accept)]
    if len(proofs) != len(held) or run.unsettled or any(undone_by_nobody(run)):
        return None
    return RunStopped(
        outcome=Outcome.VERIFIED_SUCCESS,
        reason="; ".join(proof.event.says for proof in proofs),
        rule="success",
        evidence=tuple(proof.seq for proof in proofs),
    )


def proves(held: Evidence, accept: Accept) -> bool:
    """Whether it is a pass, still fresh, and of a kind that the gate accepts."""
    event = held.event
    if not held.holds:
        return False
    return not (event.self_reported and accept != "self_reported") and not (event.opinion and accept == "independent")


def _final_denial(run: Run, _rules: Rules, _now: datetime) -> RunStopped | None:
    """Denials that end a run: policy's final ones, a budget that is spent with nothing open, a missed deadline."""
    denial = run.final
    if denial is None or denial.lacking:
        return None
    outcome = Outcome.POLICY_DENIED if denial.outcome is Outcome.DENIED else denial.outcome
    place = run.final_seq or run.version
    return RunStopped(outcome=outcome, reason=denial.reason, rule=denial.rule, evidence=(place,))


def _infeasible(run: Run, _rules: Rules, _now: datetime) -> RunStopped | None:
    """A call was refused, and it was found then that nothing leads to success any more."""
    denial = run.final
    if denial is None or not denial.lacking:
        return None
    return infeasible(denial.lacking, run.final_seq or run.version)


def infeasible(lacks: Sequence[Lack], place: int) -> RunStopped:
    """The end of a run that cannot have these, found at that place of it."""
    said = "; ".join(lack.says for lack in lacks[:MAX_SAID])
    more = f"; and {len(lacks) - MAX_SAID} more" if len(lacks) > MAX_SAID else ""
    reason = f"nothing leads to success any more: {said}{more}"
    return RunStopped(outcome=Outcome.INFEASIBLE, reason=reason, rule="stops.infeasible", evidence=(place,))


MAX_SAID = 5
"""Of what is lacking, in the reason of a stop; the record that it cites has all."""


def _phase_ends(run: Run, rules: Rules, _now: datetime) -> RunStopped | None:
    phase = rules.policy.phases.get(run.phase)
    if phase is None or phase.outcome is None or run.unsettled:
        return None
    why = f": {phase.description}" if phase.description else ""
    return RunStopped(
        outcome=phase.outcome,
        reason=f"the run came to the phase `{run.phase}`, where it ends{why}",
        rule=f"phases.{run.phase}",
        evidence=(run.version,),
    )


def _deadline_missed(run: Run, rules: Rules, now: datetime) -> RunStopped | None:
    """The deadline is over, or no way to success fits into what is left of the run's time."""
    deadline_s = rules.policy.stops.deadline_s
    if run.opened_at is None or run.unsettled:
        return None
    if deadline_s is not None and now >= run.opened_at + timedelta(seconds=deadline_s):
        reason = f"the run had {deadline_s:g} s from its start and did not succeed in them"
        return _missed(reason, "stops.deadline_s")
    late = too_late(run, rules, now)
    return None if late is None else _missed(late.says, late.rule)


def _missed(reason: str, rule: str) -> RunStopped:
    """What ends it was said when it was opened."""
    return RunStopped(outcome=Outcome.DEADLINE_MISSED, reason=reason, rule=rule, evidence=(1,))


def _repeated_state(run: Run, rules: Rules, _now: datetime) -> RunStopped | None:
    limits = rules.policy.stops.repeated_state
    worst = circling(run.steps, limits) if limits is not None else None
    if worst is None:
        return None
    return RunStopped(
        outcome=Outcome.REPEATED_STATE, reason=_came(worst), rule="stops.repeated_state", evidence=(worst.seq,)
    )


def warning(run: Run, rules: Rules, *places: int | None) -> str | None:
    """What the client is told with the records at these places of the run: that the same step once more ends it. It is
    told once, until something new comes.
    """
    limits = rules.policy.stops.repeated_state
    if limits is None or run.origin == "default" or run.state is not RunState.RUNNING:
        return None
    nearest = circling(run.steps, limits, margin=1)
    if nearest is None or nearest.seq not in places:
        return None
    return f"stops.repeated_state: {_came(nearest)}; once more ends the run"


def _came(peak: Peak) -> str:
    which, times = peak.step.split("\0")[1], "once" if peak.times == 1 else f"{peak.times} times"
    same = "failure" if peak.kind in FAILURES else "answer"
    return f"the same {same} came {times} without new evidence: {_STEPS[peak.kind]} `{which}`"


_STEPS: Mapping[Kind, str] = {
    "denied": "a refused call of",
    "error": "an error of",
    "verifier": "verifier",
    "read": "a read by",
    "write": "a call of",
}

STOPS: tuple[Stop, ...] = (
    _verified_success,
    _final_denial,
    _infeasible,
    _phase_ends,
    _deadline_missed,
    _repeated_state,
)
"""In order; the first that speaks ends the run."""
