"""(run, rules, now) -> whether success can still be reached in time.

Along the quickest way over the phases, as if every condition held and every call succeeded at once, or as soon as
policy says that it can (`takes_s`). A way that is too slow even so cannot be taken in time.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.quickest import quickest
from gateway.kernel.rules import Rules, held_by
from gateway.model.policy import Policy
from gateway.model.run import Run


def facts_of(rules: Rules) -> Facts:
    """What follows from the policy without any call; found out once."""
    return rules.once("facts", lambda: Facts(rules.policy))


class Late(NamedTuple):
    """Why there is not time enough."""

    rule: str
    """What ends the time: `stops.deadline_s`, `budgets.elapsed_s`, or `run.expires_at`."""
    says: str
    """One sentence."""


def too_late(run: Run, rules: Rules, now: datetime) -> Late | None:
    """Why no way to success fits into the time that is left; None while one may.

    While something is unsettled, nobody knows how soon it ends; while a claim of success is checked, the time that its
    verifiers take has begun with it.
    """
    stops, budgets = rules.policy.stops, rules.policy.budgets
    if stops.deadline_s is None and budgets.elapsed_s is None and run.expires_at is None:
        return None  # as in most runs, and this is asked at every call
    if run.unsettled or not rules.once("takes", lambda: (_takes_time(rules.policy),))[0]:
        return None
    ends = min(_ends(run, rules.policy), default=None)
    if ends is None:
        return None
    least_s, left_s = least(run, rules), (ends[0] - _counted(run, rules.policy, now)).total_seconds()
    if least_s is None or least_s <= left_s:
        return None
    says = f"success cannot be met any more: it takes at least {least_s:g} s, and {max(0.0, left_s):.0f} s are left"
    return Late(ends[1], says)


def _counted(run: Run, policy: Policy, now: datetime) -> datetime:
    """From when on the least seconds count: a claim whose verifiers may be at work, or now."""
    if run.claimed is None or policy.success is None:
        return now
    most_s = sum(policy.verifiers[name].timeout_s for name in policy.success.evidence)
    return run.claimed.at if now <= run.claimed.at + timedelta(seconds=most_s) else now


def _takes_time(policy: Policy) -> bool:
    takes = [rule.takes_s for rule in policy.tools.values()] + [one.takes_s for one in policy.verifiers.values()]
    return policy.success is not None and any((*takes, *(one.takes_s for one in policy.transitions)))


def _ends(run: Run, policy: Policy) -> Iterator[tuple[datetime, str]]:
    """When the time of the run is over, and by what."""
    if run.expires_at is not None:
        yield run.expires_at, "run.expires_at"
    if run.opened_at is None:
        return
    if policy.stops.deadline_s is not None:
        yield run.opened_at + timedelta(seconds=policy.stops.deadline_s), "stops.deadline_s"
    if policy.budgets.elapsed_s is not None and policy.mode == "enforce":
        yield run.opened_at + timedelta(seconds=policy.budgets.elapsed_s), "budgets.elapsed_s"


def least(run: Run, rules: Rules) -> float | None:
    """The least seconds to success from where the run stands; None if there is no way, or no success."""
    success = rules.policy.success
    if success is None:
        return None
    held = [run.evidence.get(name) for name in success.evidence]
    proven = frozenset(one.event.verifier for one in held if one is not None and one.holds)

    def found() -> tuple[float | None]:
        authority = held_by(rules.policy, run.principal, run.delegated) if run.principal is not None else None
        return (quickest(facts_of(rules), run.phase, proven, authority),)

    return rules.once(("least_s", run.phase, proven, run.principal, run.delegated), found)[0]
