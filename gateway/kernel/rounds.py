"""The checks of a call that goes on: the next round of an attempt, or one more sending of it under its key.

As in `checks.py`, each is case -> step. What a call costs and holds was settled with its intent.
"""

from gateway.kernel.case import Case, Refuse, Replay, Step, Wait, always, passed
from gateway.kernel.checks import RETRY_S, authority_of
from gateway.kernel.people import is_for, looked_again, moved
from gateway.kernel.recover import honours_key, key_lives
from gateway.model.events import Outcome
from gateway.model.run import AttemptState


def open_round(case: Case) -> Step:
    """The attempt waits for exactly this input, about exactly this call."""
    resumes = case.proposal.resumes
    attempt = case.run.attempts.get(resumes.attempt) if resumes is not None else None
    if resumes is None or attempt is None:
        return Refuse("this run knows no such attempt", outcome=Outcome.CONFLICT)
    same = (attempt.intent.tool, attempt.intent.arguments) == (case.proposal.tool, case.proposal.arguments_digest)
    if not same:
        return Refuse("the input belongs to a call with another tool or other arguments", outcome=Outcome.CONFLICT)
    match attempt.state:
        case AttemptState.SUSPENDED if attempt.awaits == "input" and attempt.asked == resumes.round:
            return passed("round", {"attempt": attempt.id, "round": resumes.round})
        case AttemptState.ANSWERED if not attempt.unverified:
            return Replay(attempt.id)
        case AttemptState.OPEN | AttemptState.SUSPENDED | AttemptState.ANSWERED:
            return Wait(Outcome.IN_FLIGHT, "this call is under way", attempt.id, retry_after_s=RETRY_S)
        case AttemptState.UNKNOWN:
            return Wait(Outcome.HELD, "the input came too late: whether this call happened is not known", attempt.id)
        case _:
            return Refuse("the input came too late: that attempt is over", outcome=Outcome.CONFLICT)


def resendable(case: Case) -> Step:
    """The attempt is unknown, and its upstream still knows it by its key from a second one."""
    attempt = case.run.attempts.get(case.proposal.resends or "")
    if attempt is None or attempt.state is not AttemptState.UNKNOWN:
        return Refuse("only an attempt whose outcome is unknown is sent again", outcome=Outcome.CONFLICT)
    if case.known.tool.upstream != attempt.intent.upstream:
        return Refuse(f"`{attempt.intent.tool}` is offered by another server than the one that it was sent to")
    if not honours_key(case.known):
        return Refuse("policy does not say that the upstream honours a key, and for how long")
    if not key_lives(attempt, case.known, case.now):
        return Refuse("the upstream may have forgotten its key by now")
    # By name: it was legal in the phase in which it was intended, whatever the phase is now.
    mine = tuple(one for one in case.candidates if one.name == attempt.intent.transition)
    if not mine:
        return Refuse(f"policy has no transition `{attempt.intent.transition}` for it any more")
    return passed("resend", {"attempt": attempt.id, "sent": attempt.sent})._replace(candidates=mine)


def authority_now(case: Case) -> Step:
    """As `authority`, where the candidates were chosen otherwise than by the phase."""
    return authority_of(case)


_UNATTENDED = always("approval")


def approval_lives(case: Case) -> Step:
    """The yes under which the attempt was sent first still stands, to the tool and the policy as they are now, and what
    named verifiers see is as it was. Evidence is not asked for again: the attempt itself may have made it stale.
    """
    resumes = case.proposal.resumes
    attempt = case.proposal.resends if resumes is None else resumes.attempt
    found = next((one for one in case.run.approvals.values() if attempt in one.uses), None)
    if found is None:
        return _UNATTENDED
    inputs = {"approval": found.id}
    if case.now >= found.until:
        return Refuse("the approval under which it was sent has expired", rule=found.rule, inputs=inputs)
    if not is_for(case, found):
        return Refuse("what was approved is another action by now", rule=found.rule, inputs=inputs)
    if (looked := looked_again(case, found.rule, found)) is not None:
        return looked
    if (void := next(moved(case, found), None)) is not None:
        return Refuse(f"{void} since a person agreed to it", rule=found.rule, inputs=inputs)
    return passed("approval", inputs)
