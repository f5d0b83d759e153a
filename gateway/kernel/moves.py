"""Every legal move of a run and of an attempt; what is not in these two tables is a corrupt ledger.

Both are small machines, driven by the kinds of the events. The diagram in ARCHITECTURE.md is drawn from here.
"""

from collections.abc import Mapping

from gateway.model.run import AttemptState, RunState

_SETTLING: Mapping[str, RunState] = {
    "receipt.recorded": RunState.RUNNING,
    "attempt.unsent": RunState.RUNNING,
    "attempt.suspended": RunState.RUNNING,
    "attempt.unknown": RunState.RUNNING,
    "attempt.queried": RunState.RUNNING,
    "attempt.abandoned": RunState.RUNNING,
    "attempt.refuted": RunState.RUNNING,
    "outcome.delivered": RunState.RUNNING,
    "evidence.recorded": RunState.RUNNING,
    "compensation.failed": RunState.RUNNING,
}

NEXT: Mapping[RunState, Mapping[str, RunState]] = {
    RunState.UNOPENED: {"run.opened": RunState.RUNNING, "switch.thrown": RunState.CONTROL},
    RunState.RUNNING: {
        "proposal.denied": RunState.RUNNING,
        "proposal.replayed": RunState.RUNNING,
        "proposal.held": RunState.RUNNING,
        "approval.requested": RunState.RUNNING,
        "approval.seen": RunState.RUNNING,
        "approval.decided": RunState.RUNNING,
        "approval.withdrawn": RunState.RUNNING,
        "approval.expired": RunState.RUNNING,
        "intent.recorded": RunState.RUNNING,
        "attempt.resumed": RunState.RUNNING,
        "attempt.resent": RunState.RUNNING,
        **_SETTLING,
        "compensation.owed": RunState.RUNNING,
        "phase.moved": RunState.RUNNING,
        "run.migrated": RunState.RUNNING,
        "plan.recorded": RunState.RUNNING,
        "plan.invalidated": RunState.RUNNING,
        "note.recorded": RunState.RUNNING,
        "finish.claimed": RunState.RUNNING,
        "finish.refused": RunState.RUNNING,
        "notice.sent": RunState.RUNNING,
        "payloads.erased": RunState.RUNNING,
        "run.stopped": RunState.STOPPED,
    },
    # A stopped run stays stopped: nothing new is asked, intended or moved, but what was under way is settled.
    RunState.STOPPED: {
        "proposal.denied": RunState.STOPPED,
        "proposal.replayed": RunState.STOPPED,
        "proposal.held": RunState.STOPPED,
        **dict.fromkeys(_SETTLING, RunState.STOPPED),
        "escalation.acknowledged": RunState.STOPPED,
        "notice.sent": RunState.STOPPED,
        "payloads.erased": RunState.STOPPED,
    },
    # No agent asks anything of it, and it is never over.
    RunState.CONTROL: {"switch.thrown": RunState.CONTROL, "switch.lifted": RunState.CONTROL},
}
"""Run state, kind of event -> run state."""

NEXT_ATTEMPT: Mapping[AttemptState, Mapping[str, AttemptState]] = {
    AttemptState.OPEN: {
        "receipt.recorded": AttemptState.ANSWERED,
        "attempt.unsent": AttemptState.UNSENT,
        "attempt.suspended": AttemptState.SUSPENDED,
        "attempt.unknown": AttemptState.UNKNOWN,
        "attempt.abandoned": AttemptState.ABANDONED,
    },
    AttemptState.SUSPENDED: {
        "receipt.recorded": AttemptState.ANSWERED,
        "attempt.suspended": AttemptState.SUSPENDED,
        "attempt.resumed": AttemptState.OPEN,
        "attempt.unknown": AttemptState.UNKNOWN,
        "attempt.abandoned": AttemptState.ABANDONED,
    },
    # A late answer is always accepted as the receipt of its attempt, whatever was believed until then.
    AttemptState.UNKNOWN: {
        "attempt.queried": AttemptState.UNKNOWN,
        "attempt.resent": AttemptState.OPEN,
        "receipt.recorded": AttemptState.ANSWERED,
        "attempt.refuted": AttemptState.REFUTED,
        "compensation.owed": AttemptState.UNKNOWN,  # a person says so, and then that it happened
    },
    AttemptState.REFUTED: {"receipt.recorded": AttemptState.ANSWERED},
    AttemptState.ABANDONED: {"receipt.recorded": AttemptState.ANSWERED},
    AttemptState.ANSWERED: {
        "evidence.recorded": AttemptState.ANSWERED,
        "outcome.delivered": AttemptState.ANSWERED,
        "compensation.owed": AttemptState.ANSWERED,
        "compensation.failed": AttemptState.ANSWERED,
    },
    AttemptState.UNSENT: {},
}
"""Attempt state, kind of event -> attempt state. An attempt begins as `open` with its intent."""
