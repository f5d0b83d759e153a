"""case -> what its conditions may read."""

from functools import cache
from typing import Any

from gateway.kernel.accounts import shown
from gateway.kernel.case import Case
from gateway.kernel.conditions import ROOTS, Activation, activation
from gateway.model.events import Effect
from gateway.model.flaws import account_rule
from gateway.model.policy import UNITS
from gateway.model.run import Run


def values_of(case: Case) -> Activation:
    """What the conditions that can be asked of this tool may read; where none reads anything, nothing."""
    if case.ruled is not None and not case.ruled.reads:
        return _nothing()
    run, principal, known = case.run, case.proposal.principal, case.registered
    values: dict[str, Any] = {}
    reads = ROOTS["transition"] if case.ruled is None else case.ruled.reads
    if "args" in reads:
        values["args"] = dict(case.proposal.arguments)
    if "run" in reads:
        values |= {
            "run.id": run.id,
            "run.phase": run.phase,
            "run.workflow": run.workflow,
            "run.calls": run.spent.calls,
            "run.mutations": run.spent.mutations,
            "run.elapsed_s": case.elapsed_s,
            "run.tokens": run.spent.tokens,
            "run.cost": run.spent.cost / 1_000_000,
            "run.reviews": run.spent.reviews,
            "run.origin": run.origin,
            "run.parent": run.parent or "",
            "run.data": sorted(run.data),
        }
    if "principal" in reads:
        values |= {
            "principal.id": principal.id,
            "principal.tenant": principal.tenant,
            "principal.roles": sorted(principal.roles),
            "principal.scopes": sorted(principal.scopes),
            "principal.authority": sorted(case.authority),
        }
    if "tool" in reads:
        values |= {
            "tool.name": case.proposal.tool,
            "tool.upstream": known.tool.upstream if known else "",
            "tool.effect": str(known.effect if known else Effect.WRITE),
            "tool.data_class": (known.rule.data_class if known else None) or "",
        }
    if "evidence" in reads:
        values["evidence"] = proven(run)
    if "accounts" in reads:
        values["accounts"] = _levels(case)
    if "values" in reads:
        values["values"] = case.rules.policy.values
    if "now" in reads:
        values["now"] = case.now
    return activation("transition", values)


@cache
def _nothing() -> Activation:
    return activation("transition", {})


def proven(run: Run) -> dict[str, Any]:
    """The evidence of the run, by verifier, as expressions read it."""
    return {
        name: {
            "verdict": held.event.verdict,
            "fresh": held.fresh,
            "at": held.event.started_at.isoformat(),
            "says": held.event.says,
            "signature": held.event.signature or "",
            "scope": dict(held.event.scope),
        }
        for name, held in run.evidence.items()
    }


def _levels(case: Case) -> dict[str, Any]:
    """What stands on each account before this call; those that the call does not fall under are not there."""
    levels, told = case.observed.levels or {}, {}
    for shared, account in case.accounts:
        if shared.rule == account_rule(shared.name):  # a rate has no name that a condition could say
            stands = {unit: levels.get((account, unit), 0) for unit in UNITS}
            left = {f"{unit}_left": shown(unit, max(0, limit - stands[unit])) for unit, limit in shared.limited}
            told[shared.name] = {unit: shown(unit, level) for unit, level in stands.items()} | left
    return told
