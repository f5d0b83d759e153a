"""What is left of a run's budgets, and what a call takes of them, as people read amounts."""

from datetime import datetime

from gateway.kernel.accounts import limits_of, shown
from gateway.model.events import Charge
from gateway.model.policy import Policy
from gateway.model.run import Run


def left(run: Run, policy: Policy, now: datetime | None) -> dict[str, float]:
    """What the run has left of each budget that policy limits; of its time as of `now`, None where nobody tells it."""
    budgets, spent = policy.budgets, vars(run.spent)
    limited = {unit: limit for unit, limit in limits_of(budgets).items() if limit is not None}
    told = {unit: float(shown(unit, max(0, limit - spent[unit]))) for unit, limit in limited.items()}
    if budgets.reported_tokens is not None:
        told["reported_tokens"] = float(max(0, budgets.reported_tokens - run.reported_tokens))
    if budgets.elapsed_s is not None and run.opened_at is not None and now is not None:
        told["elapsed_s"] = round(max(0.0, budgets.elapsed_s - (now - run.opened_at).total_seconds()), 1)
    return told


def charged(charge: Charge) -> dict[str, float]:
    """What a call takes, unit by unit; what every call takes is there even if it is nothing."""
    taken = vars(charge)
    return {unit: shown(unit, amount) for unit, amount in taken.items() if amount or unit in {"calls", "mutations"}}
