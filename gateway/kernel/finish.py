"""(run, rules, now) -> what a run still needs for its success, and which verifiers can be asked for it now."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from gateway.kernel.owing import is_undone, undone_by_nobody
from gateway.kernel.rules import Rules
from gateway.kernel.stop import proves
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.status import Missing

AGAIN_S = 10.0
"""A verifier whose word still counts is not asked again sooner, however often an agent says that it is done."""


class Askable(NamedTuple):
    """A verifier that can be asked about the run as it is."""

    verifier: str
    attempt: Attempt | None
    """Whose arguments it is asked with: the last that it was to speak about, without an error if there is one."""


def missing(run: Run, rules: Rules) -> Iterator[Missing]:
    """What success still needs; nothing where policy does not say what success is."""
    success = rules.policy.success
    if success is None:
        return
    for name in success.evidence:
        held = run.evidence.get(name)
        if held is None:
            yield Missing(what=name, says="it has not been asked yet")
        elif held.event.verdict != "pass":
            yield Missing(what=name, says=f"its last word is {held.event.verdict}: {held.event.says}")
        elif not held.fresh:
            yield Missing(what=name, says="what it passed was changed since")
        elif not proves(held, success.accept):
            grade = "self-reported" if held.event.self_reported else "an opinion"
            yield Missing(what=name, says=f"its evidence is {grade}, and does not count here")
    if success.phase is not None and run.phase != success.phase:
        yield Missing(what=success.phase, says=f"the run must be in this phase, and is in `{run.phase}`")
    yield from _unended(run)


def _unended(run: Run) -> Iterator[Missing]:
    for name in sorted(run.unsettled):
        yield Missing(what=name, says="it is not known yet what came of this attempt")
    for name in sorted(run.owed):
        yield Missing(what=name, says="the effect of this attempt is still to be undone")
    for name in undone_by_nobody(run):
        yield Missing(what=name, says="the effect of this attempt must not stay, and only a person can undo it")


def askable(run: Run, rules: Rules, now: datetime) -> Iterator[Askable]:
    """The verifiers that success still needs and that can be asked now, in the order of the policy."""
    return (Askable(name, _last_of(run, name)) for name, rest_s in _needed(run, rules, now) if rest_s <= 0)


def rest_of(run: Run, rules: Rules, now: datetime) -> float | None:
    """The seconds until a verifier that success needs is asked again, which is not asked now; None if there is none."""
    return min((rest_s for _, rest_s in _needed(run, rules, now) if rest_s > 0), default=None)


def _needed(run: Run, rules: Rules, now: datetime) -> Iterator[tuple[str, float]]:
    """The verifiers that success still needs, each with the seconds for which it is not asked."""
    success = rules.policy.success
    if success is None or run.unsettled or run.owed:
        return  # what is under way would overtake it
    for name in success.evidence:
        held, rule = run.evidence.get(name), rules.policy.verifiers[name]
        if rule.source == "result" or (held is not None and proves(held, success.accept)):
            continue
        rests = held is not None and held.fresh
        yield name, AGAIN_S - (now - held.event.started_at).total_seconds() if held is not None and rests else 0.0


def _last_of(run: Run, verifier: str) -> Attempt | None:
    """The last that is not undone. One that ended with an error may have done its work, but counts only where there is
    no other.
    """
    answered = (one for one in run.attempts.values() if one.state is AttemptState.ANSWERED)
    mine = (one for one in answered if verifier in one.intent.verifiers and not is_undone(run, one.id))
    return max(mine, key=lambda one: (not one.is_error, one.seq), default=None)
