"""(run, rules, now) -> RunStopped | None. `STOPS` in order: a proven success is one, whatever else ran out.

A default run has none: it is shared, and a shared run that stopped would lock its user out.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from gateway.kernel.owing import keeps_going
from gateway.kernel.rules import Rules
from gateway.model.events import Outcome, RunStopped
from gateway.model.policy import Accept
from gateway.model.run import Evidence, Run, RunState

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
    if len(proofs) != len(held) or run.unsettled:
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
    if not held.fresh or event.verdict != "pass":
        return False
    return not (event.self_reported and accept != "self_reported") and not (event.opinion and accept == "independent")


def _final_denial(run: Run, _rules: Rules, _now: datetime) -> RunStopped | None:
    """Denials that end a run: policy's final ones, a budget that is spent with nothing open, a missed deadline."""
    denial = run.final
    if denial is None:
        return None
    outcome = Outcome.POLICY_DENIED if denial.outcome is Outcome.DENIED else denial.outcome
    place = run.final_seq or run.version
    return RunStopped(outcome=outcome, reason=denial.reason, rule=denial.rule, evidence=(place,))


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
    deadline_s = rules.policy.stops.deadline_s
    if deadline_s is None or run.opened_at is None or run.unsettled:
        return None
    if now < run.opened_at + timedelta(seconds=deadline_s):
        return None
    return RunStopped(
        outcome=Outcome.DEADLINE_MISSED,
        reason=f"the run had {deadline_s:g} s from its start and did not succeed in them",
        rule="stops.deadline_s",
    )


def _repeated_state(run: Run, rules: Rules, _now: datetime) -> RunStopped | None:
    limit = rules.policy.stops.repeated_state
    if limit is None or not run.failures:
        return None
    worst = max(run.failures.items(), key=lambda item: item[1], default=None)
    if worst is None or worst[1] < limit.after:
        return None
    what, *which = worst[0].split("\0")
    return RunStopped(
        outcome=Outcome.REPEATED_STATE,
        reason=f"the same failure came {worst[1]} times without new evidence: {_FAILURES[what]} `{which[0]}`",
        rule="stops.repeated_state",
        evidence=(run.version,),
    )


_FAILURES = {"denied": "a refused call of", "error": "an error of", "verifier": "verifier"}

STOPS: tuple[Stop, ...] = (_verified_success, _final_denial, _phase_ends, _deadline_missed, _repeated_state)
"""In order; the first that speaks ends the run."""
