"""A call under way: who waits for it, when it was decided, and its answer until that is recorded."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.kernel.rules import Rules
from gateway.model.answer import Shown
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.run import Run, RunState
from gateway.model.tool import Answer, Tool
from gateway.ports import Caller, LedgerUnavailable, NoSuchRun, Withdrawal


@dataclass(slots=True, eq=False)
class Flight:
    """A call under way here."""

    run: str
    principal: Principal
    withdrawal: Withdrawal
    attempt: str | None = None
    """None until its intent is on disk."""
    ended: "asyncio.Task[Shown] | None" = field(default=None, repr=False)


class Moment(NamedTuple):
    """A time by this process's own clocks: of which none alone counts a machine that slept, and a clock set back."""

    monotonic: float
    now: float

    def since(self, earlier: "Moment") -> float:
        """Seconds from the earlier one on, by whichever clock counts more."""
        return max(self.monotonic - earlier.monotonic, self.now - earlier.now, 0.0)


@dataclass(frozen=True, slots=True)
class Answered:
    """An answer in hand, with what is needed to record it."""

    run: str
    attempt: str
    answer: Answer
    tool: Tool
    arguments: Mapping[str, Any]
    elapsed_s: float


class LeftAlone(Exception):
    """The client of a call that waited for a person is gone, so that nothing is decided for it."""

    def __init__(self, run: Run, rules: Rules) -> None:
        super().__init__(f"nobody waits for this call of run `{run.id}` any more")
        self.run = run
        self.rules = rules


class Unrecorded(LedgerUnavailable):
    """The call was sent and has its answer, which the ledger does not take now; it is kept until it does."""


def check_claimed(run: Run, rules: Rules, proposal: Proposal, caller: Caller | None) -> None:
    """The run is there, and whoever was kept waiting for a person is so too: nothing is decided for nobody."""
    if run.state in {RunState.UNOPENED, RunState.CONTROL}:
        raise NoSuchRun(f"run `{run.id}` was never opened")
    if proposal.waited and caller is not None and caller.withdrawal.gone:
        raise LeftAlone(run, rules)
