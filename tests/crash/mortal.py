"""A gateway process that can die: the real engine, book and recovery, over ports that know when they are passed.

A passage is the moment before or after a call through a port. There somebody decides what happens: it goes on, the
process dies, or the ledger fails. What is dead runs no further: it waits at its passage until it is buried.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar, cast

from gateway.kernel.reduce import CorruptLedger
from gateway.model.answer import Shown
from gateway.model.party import Party
from gateway.model.proposal import Proposal
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, Tool, ToolResult
from gateway.outbound.clock import LedgerClock
from gateway.ports import Append, Dispatch, Ledger, LedgerUnavailable, Tracked
from gateway.runtime.book import Book, Options
from gateway.runtime.engine import Engine
from gateway.runtime.policies import Policies, PolicyMissing
from gateway.runtime.recover import Recovery
from tests.crash.clocks import OwnClock
from tests.crash.ground import PROBE, Ground
from tests.crash.history import Claim
from tests.world import PatientCaller

T = TypeVar("T")

SENDING = frozenset({"intent.recorded", "attempt.resumed", "attempt.resent"})
"""Kinds of event after which something is sent."""

_SENT: ContextVar[str | None] = ContextVar("_SENT", default=None)
"""The attempt that this task has last intended."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One moment at a port."""

    port: str
    verb: str
    when: Literal["before", "after"]

    def __str__(self) -> str:
        return f"{self.when} {self.port}.{self.verb}"


Fate: TypeAlias = Callable[["Life", Passage], Awaitable[Literal["on", "die", "fail"]]]


class Died(Exception):
    """The process died under what was waited for."""


class StrictRecovery(Recovery):
    """A recovery that passes over nothing which nobody foresaw: that is a bug, and fails the test."""

    def _stuck(self, seen: Tracked, why: BaseException) -> None:
        if not isinstance(why, CorruptLedger | PolicyMissing | LedgerUnavailable):
            raise why
        super()._stuck(seen, why)


class Life:
    """One gateway process."""

    def __init__(self, ground: Ground, owner: str, fate: Fate, ahead_s: float = 0.0, *, keepers: bool = False) -> None:
        """`ahead_s` is how far its machine's wall clock is ahead; `keepers`: what runs for ever is running."""
        self.ground = ground
        self.owner = owner
        self.fate = fate
        self.machine = OwnClock(ground.clock, ahead_s, ground.clock.seconds - 1000.0)
        self.clock = LedgerClock(self.machine, ground.clock.seconds, ground.latest)
        ground.clocks[owner] = self.clock
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ledger = cast("Ledger", MortalLedger(self, ground.ledger))
        policies = Policies(ledger, ground.policies, ground.workflow)
        self.book = Book(ledger, policies, self.clock, Options(owner=owner, drain_s=0.1))
        upstreams = MortalUpstreams(self)
        self.engine = Engine(self.book, upstreams)
        self.recovery = StrictRecovery(self.book, self.engine, upstreams)
        self.ready: set[str] = set()
        """Runs that agents may use through it."""
        self._tasks: list[asyncio.Task[Any]] = []
        if keepers:
            for keeper in (self.engine.carrier.keep_leases(), self.recovery.keep(), self.clock.keep(ledger)):
                _ = self.do(keeper)

    @property
    def dead(self) -> bool:
        """Whether it died."""
        return self.ended.done()

    def do(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """It works on that, and no further than its death."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.append(task)
        return task

    async def done(self, work: Coroutine[Any, Any, T]) -> T:
        """What came of that work.

        Raises: Died, and what the work raises.
        """
        task = self.do(work)
        waited: list[asyncio.Future[Any]] = [task, self.ended]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if self.dead:
            raise Died(self.owner)
        return task.result()

    async def quiet(self) -> None:
        """All that it spawned is done.

        Raises: Died.
        """
        while tasks := list(self.engine.carrier._tasks):
            await asyncio.wait({tasks[0], self.ended}, return_when=asyncio.FIRST_COMPLETED)
            if self.dead:
                raise Died(self.owner)

    async def call(self, proposal: Proposal, *, deliver: bool = True) -> Shown:
        """What the client is told, and whether it was written to it before it left.

        Raises: Died.
        """
        caller = PatientCaller(waits_since=asyncio.get_running_loop().time())
        asked = self.ground.place
        shown = await self.engine.call(proposal, caller)
        if not self.dead:
            self.ground.told(proposal, shown, asked)
            if deliver:
                self.engine.delivered(shown)
        return shown

    async def passes(self, passage: Passage) -> None:
        """It is past this passage.

        Raises: LedgerUnavailable.
        """
        fate = "die" if self.dead else await self.fate(self, passage)
        if self.dead or fate == "die":
            if not self.dead:
                self.ended.set_result(None)
            await asyncio.get_running_loop().create_future()
        if fate == "fail" and passage.port == "ledger":
            raise LedgerUnavailable(f"{passage} it failed")

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All that it works on, in the order in which it began: a set of tasks has none that can be seen again."""
        return sorted(
            {*self._tasks, *self.engine.carrier._tasks}, key=lambda task: int(task.get_name().rpartition("-")[2])
        )

    def kill(self) -> None:
        """It dies where it stands."""
        if not self.dead:
            self.ended.set_result(None)

    async def bury(self) -> None:
        """Nothing of it is left, and nothing of it ran on."""
        self.kill()
        while left := [task for task in self.tasks() if not task.done()]:
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)
        for task in self._tasks:
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error


class Mortal:
    """Any port: each of its coroutines is passed before and after, also one that nobody has thought of yet."""

    def __init__(self, life: Life, port: str, inner: object) -> None:
        self._life = life
        self._port = port
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def passed(*args: Any, **kwargs: Any) -> Any:
            await self._life.passes(Passage(self._port, name, "before"))
            try:
                came = await found(*args, **kwargs)
            finally:
                await self._life.passes(Passage(self._port, name, "after"))
            return came

        return passed


class MortalLedger(Mortal):
    """The ledger's own words, and a note of what became durable and when."""

    def __init__(self, life: Life, inner: Ledger) -> None:
        super().__init__(life, "ledger", inner)

    async def append(self, step: Append) -> None:
        ground, life = self._life.ground, self._life
        decided = ground.clock.seconds
        await life.passes(Passage("ledger", "append", "before"))
        try:
            await ground.ledger.append(step)
        except Exception:
            await life.passes(Passage("ledger", "append", "after"))
            raise
        ground.became_durable(step, decided)
        for record in step.records:
            if record.event.kind in SENDING:
                _SENT.set(getattr(record.event, "attempt", None))
        await life.passes(Passage("ledger", "append", "after"))
        ground.acknowledged.append((step.run, step.records[-1].seq, step.records[-1].sealed[1]))

    async def claim(self, seen: Tracked, owner: str, lease_until: float) -> bool:
        ground, life = self._life.ground, self._life
        await life.passes(Passage("ledger", "claim", "before"))
        won = await ground.ledger.claim(seen, owner, lease_until)
        if won and seen.owner != owner and seen.owner in ground.clocks:
            ground.claims.append(Claim(seen.attempt, owner, seen.lease_until - ground.clocks[seen.owner].now()))
        await life.passes(Passage("ledger", "claim", "after"))
        return won

    async def now(self) -> float:
        return self._life.ground.clock.seconds


class MortalUpstreams:
    """The servers, as this process reaches them."""

    def __init__(self, life: Life) -> None:
        self._life = life

    async def tool(self, name: str, party: Party | None = None) -> Tool | None:  # noqa: ARG002 - all see the same
        return self._life.ground.outside.tools.get(name)

    async def offered(self, party: Party | None = None) -> tuple[Sequence[Tool], bool]:  # noqa: ARG002
        return [*self._life.ground.outside.tools.values()], True

    async def call(self, dispatch: Dispatch) -> Answer:
        life, outside = self._life, self._life.ground.outside
        late = _Late(life, dispatch)
        port = "probe" if dispatch.tool.name == PROBE else "upstream"
        deadline = life.ground.clock.seconds + dispatch.timeout_s
        await life.passes(Passage(port, "call", "before"))
        if port == "probe":
            answer, until = outside.probed(dispatch), life.ground.clock.seconds
        else:
            intended = await life.ground.intended(_SENT.get())
            answer, until = outside.take(dispatch, _SENT.get(), intended=intended, deadline=deadline, late=late.heard)
        await life.passes(Passage(port, "call", "after"))
        life.ground.clock.reach(until)
        if life.ground.clock.seconds > deadline and not isinstance(answer, Silence | NotSent):
            late.kept.insert(0, answer)  # it came, but nobody waits any more
            answer = Silence(f"no answer came in {dispatch.timeout_s:g} s")
        if isinstance(answer, Silence):
            late.tell_from_now_on()
        return answer


class _Late:
    """What is heard of a call after its caller was told that it is silent: the first of it, once, as the port says."""

    def __init__(self, life: Life, dispatch: Dispatch) -> None:
        self._life = life
        self._dispatch = dispatch
        self._attempt = _SENT.get()
        self._silent = False
        self.kept: list[Answer] = []

    def heard(self, answer: Answer) -> None:
        self.kept.append(answer)
        if self._silent and len(self.kept) == 1:
            self._tell()

    def tell_from_now_on(self) -> None:
        self._silent = True
        if self.kept:
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        if not self._life.dead and self._dispatch.late is not None:
            if isinstance(self.kept[0], ToolResult | ProtocolError):  # a question that comes too late is no answer
                self._life.ground.heard[self._attempt or ""] = self._life.owner
            self._dispatch.late(self.kept[0])
