"""(run, rules, now) -> why nothing more may be done in a run that has not ended, whatever is asked of it."""

from datetime import datetime

from gateway.kernel.case import Refuse
from gateway.kernel.rules import Rules
from gateway.kernel.soonest import too_late
from gateway.model.events import Outcome
from gateway.model.run import Run


def unauthorized(run: Run, now: datetime, *, parent_over: bool) -> Refuse | None:
    """The run that it was opened from is over, or its own authorization has expired; None while neither is so."""
    if parent_over:
        return Refuse(f"the run `{run.parent}`, from which this one was opened, is over", rule="run.parent")
    if run.expires_at is not None and now >= run.expires_at:
        return Refuse(f"the run's authorization expired at {run.expires_at.isoformat(timespec='seconds')}")
    return None


def out_of_time(run: Run, rules: Rules, now: datetime) -> Refuse | None:
    """Its deadline is over, or success cannot be met any more; None while it may."""
    deadline_s, shared = rules.policy.stops.deadline_s, run.origin == "default"
    elapsed_s = 0.0 if run.opened_at is None else (now - run.opened_at).total_seconds()
    if deadline_s is not None and elapsed_s >= deadline_s:
        return Refuse(
            f"the run had {deadline_s:g} s and is {elapsed_s:.0f} s old",
            outcome=Outcome.DENIED if shared else Outcome.DEADLINE_MISSED,
            rule="stops.deadline_s",
            final=not shared,
        )
    late = None if shared else too_late(run, rules, now)
    return None if late is None else Refuse(late.says, outcome=Outcome.DEADLINE_MISSED, rule=late.rule, final=True)
