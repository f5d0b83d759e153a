"""(run, attempt) -> what the client is told of the call that undoes it, and what it may do then."""

from collections.abc import Iterable
from typing import Literal

from gateway.model.answer import Undone
from gateway.model.events import Outcome
from gateway.model.run import Attempt, AttemptState, Run, Undoing

MAX_TOLD = 20
"""Of what was undone in a run; the newest count."""


def undone(run: Run, attempt: Attempt) -> Undone | None:
    """How it stands with the compensation of this attempt; None if none was ever owed."""
    undoing = run.undo.get(attempt.id)
    if undoing is None or undoing.state == "set_aside":
        return None
    tool = attempt.intent.undo.tool if attempt.intent.undo is not None else ""
    state, says = _standing(run, undoing, tool)
    by = None if undoing.state == "owed" else undoing.by  # what was not sent, or did not happen, is not the call
    return Undone(attempt=attempt.id, state=state, tool=tool, by=by, says=says)


def all_undone(run: Run, transitions: Iterable[str] | None = None) -> tuple[Undone, ...] | None:
    """As `undone`, of all attempts under these transitions, the newest first; None if there is nothing to tell."""
    wanted = None if transitions is None else frozenset(transitions)
    mine = [run.attempts[name] for name in run.undo]
    mine = [one for one in mine if wanted is None or one.intent.transition in wanted]
    told = [undone(run, one) for one in sorted(mine, key=lambda one: -one.seq)]
    return tuple([one for one in told if one is not None][:MAX_TOLD]) or None


State = Literal["undone", "under_way", "waits", "failed"]


def _standing(run: Run, undoing: Undoing, tool: str) -> tuple[State, str]:
    by = run.attempts.get(undoing.by or "")
    match undoing.state:
        case "undone":
            return "undone", f"`{tool}` undid it"
        case "failed":
            return "failed", f"a person must undo it: {undoing.reason}"
        case "running" if by is not None and by.state is AttemptState.UNKNOWN:
            return "waits", f"whether `{tool}` undid it is not known; a person must settle `{by.id}`"
        case "running":
            return "under_way", f"`{tool}` is under way"
        case _ if undoing.approval is not None:
            return "waits", f"a person must agree to `{tool}` first"
        case _ if undoing.waits is not None:
            return "waits", f"`{tool}` waits: {undoing.waits[1]}"
        case _ if by is not None and by.state is AttemptState.UNSENT:
            return "waits", f"`{tool}` could not be sent, and is tried again"
        case _ if by is not None:
            return "waits", f"`{tool}` was sent and did not happen; it is made again"
        case _:
            return "under_way", f"`{tool}` is about to be called"


def advice(run: Run, told: Undone) -> str:
    """What the client may do about a call whose postcondition failed."""
    undoing = run.undo[told.attempt]
    match told.state:
        case "undone":
            return f"{_MADE}, and `{told.tool}` undid it. Find out why before you make a new call."
        case "failed":
            return (
                f"{_MADE}, and it is not undone for certain. Tell the user that a person must undo it; do not try to."
            )
        case "waits" if undoing.waits is not None and undoing.waits[0] is Outcome.NEEDS_APPROVAL:
            return f"{_MADE}. Tell the user that a person must agree to `{told.tool}`, which undoes it. {_LOOK}"
        case _:
            return f"{_MADE}. It is being undone by `{told.tool}`: change nothing else meanwhile. {_LOOK}"


_MADE = "The effect was made and its postcondition does not hold"
_LOOK = "What came of it, `gateway__result` tells with this attempt's id."
