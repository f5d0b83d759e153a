"""(run, attempt) -> how far its effect is known to be there: attempted is not committed."""

from collections.abc import Iterator
from enum import StrEnum

from gateway.model.events import Effect
from gateway.model.run import UNSETTLED, Attempt, AttemptState, Run


class Standing(StrEnum):
    """What is known of an effect on the world."""

    ATTEMPTED = "attempted"
    """It was sent, and nothing shows yet that it did its work: no answer, an error, or nobody could look."""
    UNKNOWN = "unknown"
    """Whether anything happened is not known."""
    REPORTED = "reported"
    """Its own server says so, and nobody else has looked."""
    COMMITTED = "committed"
    """Its postcondition held, by a look from outside."""
    FAILED = "failed"
    """Its postcondition does not hold. The effect, whatever it was, may be there."""
    UNDONE = "undone"
    """Another call undid it."""
    NOTHING = "nothing"
    """It is known that nothing happened."""


def standing(run: Run, attempt: Attempt) -> Standing | None:
    """None for a read, which has no effect."""
    if attempt.intent.effect is Effect.READ:
        return None
    undoing = run.undo.get(attempt.id)
    if undoing is not None and undoing.state == "undone":
        return Standing.UNDONE
    if attempt.state is AttemptState.UNKNOWN:
        return Standing.UNKNOWN
    if attempt.state not in {*UNSETTLED, AttemptState.ANSWERED}:
        return Standing.NOTHING
    if attempt.verdict == "fail":
        return Standing.FAILED
    if attempt.state in UNSETTLED or attempt.is_error or attempt.unverified or attempt.verdict == "inconclusive":
        return Standing.ATTEMPTED
    if attempt.verdict is None and attempt.schema_valid is False:
        return Standing.ATTEMPTED
    return Standing.COMMITTED if attempt.looked else Standing.REPORTED


CHANGED = frozenset(Standing) - {Standing.NOTHING}
"""What did change the world, or may have: an error is no proof that nothing happened."""


def effects(run: Run) -> Iterator[tuple[Attempt, Standing]]:
    """Every attempt that is no read, the oldest first."""
    for attempt in sorted(run.attempts.values(), key=lambda one: one.seq):
        stands = standing(run, attempt)
        if stands is not None:
            yield attempt, stands
