"""A world that is driven step by step: agents, reviewers, several gateways over one ledger, and everything that can go
wrong. Whoever drives it chooses each step; nothing in it happens by itself, and nothing depends on anything else.

Each passage of each gateway through a port waits until it is let through, so that every order of events can come.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from gateway.model.answer import Shown
from gateway.model.canonical import digest
from gateway.model.policy import Policy
from gateway.model.proposal import Key, KeySource, Proposal, Resume
from gateway.model.review import Refused
from gateway.model.run import AttemptState
from gateway.outbound.ledger import MemoryLedger
from gateway.ports import LedgerUnavailable
from tests.crash.clocks import ToldLoop, TrueClock
from tests.crash.ground import AGENT, Ground, approving, policy, resolving
from tests.crash.history import History
from tests.crash.mortal import Life, Passage

Fate: TypeAlias = Literal["on", "die", "fail"]
RUNS = ("run_1", "run_2")
SALT = b"\0" * 32


@dataclass(eq=False)
class Waiting:
    """A gateway at a passage."""

    life: Life
    passage: Passage
    fate: "asyncio.Future[Fate]"


@dataclass(eq=False)
class Call:
    """One call of an agent, and what it was told."""

    life: Life
    proposal: Proposal
    task: "asyncio.Task[Shown]"

    @property
    def shown(self) -> Shown | None:
        """None while it waits, and for ever if its gateway died."""
        return self.task.result() if self.task.done() and not self.task.cancelled() else None


@dataclass
class World:
    """Made inside its loop. After each step everything that could run has run."""

    clock: TrueClock
    loop: ToldLoop
    ground: Ground
    lives: list[Life] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    started: int = 0
    deaths: int = 0

    @classmethod
    def new(cls, loop: ToldLoop, clock: TrueClock, *policies: Policy) -> "World":
        """Nobody is there yet."""
        return cls(clock, loop, Ground.new(MemoryLedger(SALT), clock, *policies))

    async def settle(self) -> None:
        """Whatever can run without a decision has run."""
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        while not self.loop.idle:
            await asyncio.sleep(0)

    # --- gateways ---------------------------------------------------------------------------------------------------

    async def _fate(self, life: Life, passage: Passage) -> Fate:
        one = Waiting(life, passage, self.loop.create_future())
        self.waiting.append(one)
        return await one.fate

    async def start(self, ahead_s: float = 0.0) -> Life:
        """Another gateway process is up."""
        self.started += 1
        life = Life(self.ground, f"gw_{self.started}", self._fate, ahead_s, keepers=True)
        self.lives.append(life)
        for run in RUNS:
            _ = life.do(_opened(life, run))
        await self.settle()
        return life

    async def decide(self, one: Waiting, fate: Fate) -> None:
        """That gateway goes on, dies where it stands, or finds that the ledger has failed it."""
        self.waiting.remove(one)
        if not one.fate.done():  # whoever waited was cancelled
            one.fate.set_result(fate)
        await self.settle()
        if one.life.dead:
            await self.bury(one.life)

    async def bury(self, life: Life) -> None:
        """The process is gone with all that it waited for."""
        if life not in self.lives:
            return
        life.kill()
        self.lives.remove(life)
        self.deaths += 1
        while left := [task for task in life.tasks() if not task.done()]:
            for task in left:
                task.cancel()
            await self.settle()
        self.waiting = [one for one in self.waiting if one.life is not life]

    async def pass_time(self, seconds: float) -> None:
        """It is later, and what is due has happened in its order."""
        end = self.clock.seconds + seconds
        while (due := self.clock.next_due) is not None and due <= end:
            self.clock.reach(due)
            await self.settle()
        self.clock.reach(end)
        await self.settle()

    # --- agents -----------------------------------------------------------------------------------------------------

    async def call(self, life: Life, proposal: Proposal, *, deliver: bool = True) -> Call:
        """An agent asks that gateway."""
        made = Call(life, proposal, life.do(life.call(proposal, deliver=deliver)))
        self.calls.append(made)
        await self.settle()
        return made

    def proposal(self, run: str, tool: str, ref: str, key: tuple[str, str] | None) -> Proposal:
        """A call with that key, given as its source and its value."""
        made = self.ground.proposal(run, tool, ref)
        return Proposal(
            run,
            made.principal,
            tool,
            made.arguments,
            made.arguments_digest,
            made.alike,
            None if key is None else Key(KeySource(key[0]), key[1]),
            made.meta,
        )

    async def bring_input(self, life: Life, asked: Call) -> None:
        """The agent brings what the upstream asked for; perhaps to another gateway, perhaps not for the first time."""
        shown = asked.shown
        if shown is not None and shown.attempt is not None and shown.round is not None:
            more = {"inputResponses": {"q": {"n": 1}}, "requestState": "r"}
            resumes = Resume(shown.attempt, shown.round, digest(more, SALT))
            await self.call(life, asked.proposal.within(asked.proposal.run, more, resumes))

    async def end_task(self, life: Life, asked: Call) -> None:
        """The upstream's task has ended, and the agent hears of it through that gateway."""
        shown = asked.shown
        if shown is None or shown.attempt not in self.ground.outside.tasks:
            return
        attempt = str(shown.attempt)

        async def heard() -> Shown:
            place = self.ground.place
            ended = await life.engine.ended(attempt, AGENT, self.ground.outside.end(attempt))
            if not life.dead:
                self.ground.told(asked.proposal, ended, place)
            return ended

        self.calls.append(Call(life, asked.proposal, life.do(heard())))
        await self.settle()

    # --- people -----------------------------------------------------------------------------------------------------

    async def review(self, life: Life, run: str, approval: str, *, yes: bool) -> None:
        """A reviewer answers, through that gateway."""
        _ = life.do(_reviewed(life, run, approval, yes=yes))
        await self.settle()

    async def resolve(self, life: Life, run: str, attempt: str) -> None:
        """A person looks at the world, and says through that gateway what became of the attempt."""
        _ = life.do(_resolved(life, run, attempt))
        await self.settle()

    def unanswered(self) -> list[Call]:
        """Calls that living gateways have not answered."""
        return [one for one in self.calls if not one.life.dead and not one.task.done()]

    # --- at rest ----------------------------------------------------------------------------------------------------

    async def history(self, *, at_rest: bool = False) -> History:
        """All that happened so far."""
        views = [head.run for life in self.lives for head in life.book._heads._heads.values()]
        waits = [f"{one.proposal.tool} of {one.proposal.run}" for one in self.unanswered()]
        alive = [life.owner for life in self.lives]
        return await self.ground.history(views, alive=alive, unanswered=waits, at_rest=at_rest)

    async def come_to_rest(self) -> None:
        """Nothing goes wrong any more, and everybody has the time that they may need."""
        outside = self.ground.outside
        outside.fault, outside.lying = (lambda _: "none"), False
        if not self.lives:
            await self.start()
        for _ in range(60):
            await self.drain()
            for life in self.lives[:1]:
                await self._people(life)
            await self.drain()
            await self.pass_time(16.0)
        await self.drain()

    async def drain(self) -> None:
        """Everybody who waits goes on, until nobody does."""
        while self.waiting:
            await self.decide(self.waiting[0], "on")

    async def _people(self, life: Life) -> None:
        for run in RUNS:
            state = life.book._heads.kept(run)
            for attempt in sorted(state.unsettled.values(), key=lambda one: one.seq) if state is not None else ():
                if attempt.state is AttemptState.UNKNOWN:
                    await self.resolve(life, run, attempt.id)


async def _opened(life: Life, run: str) -> None:
    while True:
        try:
            await life.engine.open_run(run=run, principal=AGENT, origin="token", attribution={})
        except LedgerUnavailable:
            await life.clock.sleep(1.0)
        else:
            life.ready.add(run)
            return


async def _reviewed(life: Life, run: str, approval: str, *, yes: bool) -> None:
    with suppress(Refused, LedgerUnavailable, KeyError):
        state = await life.book.fresh_state_of(run)
        await life.book.say(run, approving(state, approval, yes=yes))


async def _resolved(life: Life, run: str, attempt: str) -> None:
    with suppress(Refused, LedgerUnavailable):
        await life.book.say(run, resolving(life.ground, attempt))


def texts(*, scarce: bool = False) -> Mapping[str, Policy]:
    """Policies that take turns in being in force: one that takes over running runs, and one that does not."""
    limits: dict[str, Any] = {}
    if scarce:
        account = {"per": ["tenant"], "window": "ever", "limit": {"calls": 7}}
        limits = {"budgets": {"calls": 5, "mutations": 4}, "accounts": {"all": account}}
    return {
        "first": policy(**limits),
        "second": policy(description="takes over", migrate=True, **limits),
        "third": policy(description="is for new runs", **limits),
    }
