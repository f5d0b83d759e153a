"""(run, rules, now) -> what a run still needs for its success, and which verifiers can be asked for it now."""

from collections.abc import Iterator
from datetime import datetime, timedelta
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
    """Whose arguments it is asked with: the last without an error that it was to speak about, and that is not undone."""


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
    success = rules.policy.success
    if success is None or run.unsettled or run.owed:
        return  # what is under way would overtake it
    for name in success.evidence:
        held, rule = run.evidence.get(name), rules.policy.verifiers[name]
        if rule.source == "result" or (held is not None and proves(held, success.accept)):
            continue
        spoke_s = None if held is None or not held.fresh else now - held.event.started_at
        if spoke_s is None or spoke_s >= timedelta(seconds=AGAIN_S):
            yield Askable(name, _last_of(run, name))


def _last_of(run: Run, verifier: str) -> Attempt | None:
    """The last that ended without an error, and is not undone."""
    answered = (one for one in run.attempts.values() if one.state is AttemptState.ANSWERED and not one.is_error)
    mine = (one for one in answered if verifier in one.intent.verifiers and not is_undone(run, one.id))
    return max(mine, key=lambda one: one.seq, default=None)
