"""(what policy asks people, the tool) -> the terms of the question, as they are recorded."""

from gateway.kernel.registry import Registered
from gateway.model.asked import Load, Offer, Risk, Stage, Terms
from gateway.model.events import Effect
from gateway.model.policy import ApprovalRule


def terms_of(rule: ApprovalRule, known: Registered) -> Terms:
    """What the question says of how it is to be answered."""
    reuse, load = rule.reuse, rule.load
    return Terms(
        risk=rule.risk or risk_of(known),
        consequence=would(known.effect, known),
        stages=stages_of(rule) if rule.stages else (),
        reasons=rule.reasons,
        valid_s=rule.valid_s,
        reuse=None if reuse is None else Offer(**reuse.model_dump()),
        caller=rule.caller,
        hold_s=rule.hold_s,
        load=None if load is None else Load(**load.model_dump()),
    )


def stages_of(rule: ApprovalRule) -> tuple[Stage, ...]:
    """The answers that it wants, in order."""
    if not rule.stages:
        return (Stage(role=rule.role, quorum=rule.quorum),)
    return tuple(Stage(role=one.role, quorum=one.quorum) for one in rule.stages)


def risk_of(known: Registered) -> Risk:
    """How much hangs on a call of the tool, where policy does not say."""
    if known.effect is Effect.READ:
        return "low"
    if known.effect is Effect.DESTRUCTIVE or known.rule.reversible == "no":
        return "high"
    return "medium"


def would(effect: Effect | None, known: Registered | None) -> str:
    """What a call of the tool would do, in half a sentence."""
    if effect is Effect.READ:
        return "it only reads"
    undone = {"yes": "can be undone", "compensate": "can be compensated", "no": "cannot be undone"}
    reversible = "" if known is None else f" that {undone[known.reversible]}"
    data = "" if known is None or known.rule.data_class is None else f", of {known.rule.data_class} data"
    return f"a {effect or 'write'} call{reversible}{data}"
