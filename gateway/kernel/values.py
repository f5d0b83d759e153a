"""case -> what its conditions may read."""

from functools import cache
from typing import Any

from gateway.kernel.case import Case
from gateway.kernel.conditions import ROOTS, Activation, activation
from gateway.model.events import Effect
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
        }
    if "principal" in reads:
        values |= {
            "principal.id": principal.id,
            "principal.tenant": principal.tenant,
            "principal.roles": sorted(principal.roles),
        }
    if "tool" in reads:
        values |= {
            "tool.name": case.proposal.tool,
            "tool.upstream": known.tool.upstream if known else "",
            "tool.effect": str(known.effect if known else Effect.WRITE),
        }
    if "evidence" in reads:
        values["evidence"] = _proven(run)
    if "now" in reads:
        values["now"] = case.now
    return activation("transition", values)


@cache
def _nothing() -> Activation:
    return activation("transition", {})


def _proven(run: Run) -> dict[str, Any]:
    return {
        name: {
            "verdict": held.event.verdict,
            "fresh": held.fresh,
            "at": held.event.started_at.isoformat(),
            "scope": dict(held.event.scope),
        }
        for name, held in run.evidence.items()
    }
