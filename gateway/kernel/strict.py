"""(transition, other, tool) -> whether the one asks no less of a call than the other."""

from collections.abc import Sequence

from gateway.kernel.risk import stages_of
from gateway.kernel.rules import Ruled, Rules
from gateway.kernel.undo import compensation
from gateway.model.asked import RISKS, Stage
from gateway.model.policy import ApprovalRule, Transition

_REASONS = ("never", "rejection", "always")
"""From the laxest on."""

_RETRY = ("any", "unsent", "never")
"""From the laxest on."""


def as_strict(one: Transition, other: Transition, tool: Ruled, rules: Rules) -> bool:
    """Whether whatever may be done under the one might be done under the other, by whoever has the authority for both.

    Its conditions are not compared: they are judged before this is asked. What is set aside for a compensation must be
    paid as well.
    """
    taken, other_taken = vars(tool.charge(one)), vars(tool.charge(other))
    other_undone = compensation(tool, other, rules)
    return (
        (one.mode != "observe" or other.mode == "observe")
        and set(one.preconditions) >= set(other.preconditions)
        and all(taken[unit] >= amount for unit, amount in other_taken.items())
        and (other_undone is None or compensation(tool, one, rules) == other_undone)
        and _RETRY.index(one.retry) >= _RETRY.index(other.retry)
        and (other.max_attempts is None or (one.max_attempts is not None and one.max_attempts <= other.max_attempts))
        and (other.approval is None or (one.approval is not None and _asks_no_less(one.approval, other.approval)))
    )


def _asks_no_less(one: ApprovalRule, other: ApprovalRule) -> bool:
    return (
        (not one.when or one.when == other.when)
        and _stages_no_less(stages_of(one), stages_of(other))
        and (other.self_review or not one.self_review)
        and (other.caller or not one.caller)
        and set(one.unchanged) >= set(other.unchanged)
        and _REASONS.index(one.reasons) >= _REASONS.index(other.reasons)
        and (other.risk is None or (one.risk is not None and RISKS.index(one.risk) >= RISKS.index(other.risk)))
        and (other.load is None or one.load == other.load)
        and (one.reuse is None or one.reuse == other.reuse)
        and (one.valid_s or one.expires_s) <= (other.valid_s or other.expires_s)
    )


def _stages_no_less(one: Sequence[Stage], other: Sequence[Stage]) -> bool:
    """One answer or several, each stage of the other's is met by one in the same place."""
    return len(one) >= len(other) and all(
        mine.quorum >= theirs.quorum and (theirs.role is None or mine.role == theirs.role)
        for mine, theirs in zip(one, other, strict=False)
    )
