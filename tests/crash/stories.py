"""One agent, one tool, one fault, one death: what a client does before the gateway dies, and what follows.

The same story is told again and again, and dies each time one passage later.
"""

from dataclasses import dataclass, field
from typing import Literal

from gateway.kernel.verify import SUSPENDED_S
from gateway.model.answer import Shown
from gateway.model.canonical import canonical, digest
from gateway.model.proposal import Resume
from gateway.model.review import Refused
from gateway.model.run import AttemptState
from tests.crash.ground import AGENT, Ground, approving, resolving
from tests.crash.history import History
from tests.crash.invariants import Violation, violations
from tests.crash.mortal import Died, Life, Passage

RUN = "run_1"
CALL_ID = "call-1"
LEASE_S = 16.0
"""A moment more than a lease lasts."""
SETTLED_S = 40.0
"""Longer than any of the tools, its grace included, can still act."""


@dataclass
class Counted:
    """Goes on at every passage but one."""

    dies_at: int | None = None
    """The number of the passage, from 0; None: it lives."""
    seen: list[Passage] = field(default_factory=list)

    async def __call__(self, _life: Life, passage: Passage) -> Literal["on", "die", "fail"]:
        self.seen.append(passage)
        return "die" if len(self.seen) - 1 == self.dies_at else "on"


async def ask(life: Life, tool: str, ref: str, call_id: str | None, run: str = RUN) -> Shown:
    """What an agent is told in the end: it has people asked, brings what it is asked for, and awaits tasks.

    Raises: Died.
    """
    ground = life.ground
    proposal = ground.proposal(run, tool, ref, call_id)
    shown = await life.done(life.call(proposal))
    if shown.refusal is not None and shown.refusal.outcome == "needs_approval" and shown.refusal.approval is not None:
        state = await life.done(life.book.fresh_state_of(run))
        await life.done(life.book.say(run, approving(state, shown.refusal.approval.id)))
        shown = await life.done(life.call(proposal))
    if shown.awaits == "input" and shown.attempt is not None and shown.round is not None:
        more = {"inputResponses": {"q": {"n": 1}}, "requestState": "r"}
        resumes = Resume(shown.attempt, shown.round, digest(more, ground.ledger.salt))
        assert canonical(more)
        shown = await life.done(life.call(proposal.within(run, more, resumes)))
    if shown.awaits == "task" and shown.attempt is not None:
        shown = await life.done(life.engine.ended(shown.attempt, AGENT, ground.outside.end(shown.attempt)))
        ground.told(proposal, shown, ground.place)
    await life.quiet()
    return shown


async def before(ground: Ground, life: Life, tool: str, fault: str) -> None:
    """What happens while the first gateway lives.

    Raises: Died.
    """
    faults = iter([fault])
    ground.outside.fault = lambda _: next(faults, "none") if not fault.startswith("asks") else fault
    await life.done(life.engine.open_run(run=RUN, principal=AGENT, origin="token", attribution={}))
    await ask(life, tool, "a", CALL_ID)
    await ask(life, tool, "a", CALL_ID)
    waited = [*life.engine.carrier.open, *life.engine.carrier.kept]
    await life.done(life.engine.carrier._ledger.renew(life.owner, waited, life.clock.now() + LEASE_S))
    ground.clock.reach(ground.clock.seconds + SETTLED_S)
    await life.done(life.recovery.sweep())
    await life.quiet()


async def after(ground: Ground, life: Life, tool: str) -> None:
    """What happens once another gateway is there: recovery, the agent that asks again, and a person for the rest.

    Raises: Died.
    """
    ground.outside.fault = lambda _: "none"
    await swept(life)
    ground.clock.reach(ground.clock.seconds + SETTLED_S)
    await swept(life)
    await life.done(life.engine.open_run(run=RUN, principal=AGENT, origin="token", attribution={}))
    await ask(life, tool, "a", CALL_ID)
    await settled_by_people(life)
    await ask(life, tool, "a", CALL_ID)
    await ask(life, tool, "a", None)
    await ask(life, tool, "a", None)
    ground.clock.reach(ground.clock.seconds + SUSPENDED_S)
    await swept(life)


async def swept(life: Life) -> None:
    """It has looked twice, a lease apart, at what others left.

    Raises: Died.
    """
    for _ in range(2):
        await life.done(life.recovery.sweep())
        await life.quiet()
        life.ground.clock.reach(life.ground.clock.seconds + LEASE_S)


async def settled_by_people(life: Life) -> None:
    """A person looks at the world and tells the truth about each attempt that is unknown.

    Raises: Died.
    """
    state = await life.done(life.book.fresh_state_of(RUN))
    for attempt in list(state.unsettled.values()):
        if attempt.state is AttemptState.UNKNOWN:
            await life.done(_said(life, attempt.id))
    await life.quiet()


async def _said(life: Life, attempt: str) -> None:
    try:
        await life.book.say(RUN, resolving(life.ground, attempt))
    except Refused:
        return  # recovery was quicker


async def told(ground: Ground, tool: str, fault: str, *deaths: int) -> tuple[History, list[list[Passage]]]:
    """The whole story, in which the first gateways die at these passages of theirs; and the passages that each saw."""
    seen: list[list[Passage]] = []
    for number in range(len(deaths) + 1):
        fate = Counted(deaths[number] if number < len(deaths) else None)
        life = Life(ground, f"gw_{number}", fate)
        seen.append(fate.seen)
        try:
            if number == 0:
                await before(ground, life, tool, fault)
            await after(ground, life, tool)
        except Died:
            pass
        finally:
            await life.bury()
    return await ground.history(at_rest=True), seen


async def wrong_with(ground: Ground, tool: str, fault: str, *deaths: int) -> list[Violation]:
    """All that the story breaks."""
    return violations((await told(ground, tool, fault, *deaths))[0])
