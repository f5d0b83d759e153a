"""What can happen next in a world, each chosen and carried out by a seed alone."""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gateway.model.events import ApprovalRequested
from gateway.model.run import AttemptState
from tests.crash.ground import TOOLS
from tests.crash.outside import FAULTS
from tests.crash.world import RUNS, Call, Waiting, World, texts

SPANS_S = (0.5, 6.0, 11.0, 16.0, 45.0, 150.0)
"""Steps of time: a moment, within a timeout, beyond one, beyond a lease, beyond all that a tool may still do; and
beyond approvals, and towards the end of keys."""
JUMPS_S = (-3600.0, -90.0, -20.0, 20.0, 90.0, 3600.0)


@dataclass(frozen=True)
class Nature:
    """What kind of world a seed makes: all that is derived from it once, printed with every failure."""

    seed: int
    gateways: int
    """How many are up at most."""
    weights: Mapping[str, float]
    """How often each action comes; an action of weight 0 never does."""
    faults: tuple[str, ...]
    tools: tuple[str, ...]
    refs: int
    """Of how many things a call may be; the fewer, the more calls are equal."""
    skew_s: float
    """How far gateways' wall clocks are from the true time at most, at their start and after a jump."""
    scarce: bool = False
    """Whether budgets and accounts are soon used up."""

    @classmethod
    def of(cls, seed: int, *, skewed: bool = True) -> "Nature":
        """The nature that the seed gives."""
        chance = random.Random(seed)  # noqa: S311 - to be seen again is the point
        weights = {name: base * chance.choice((0.0, 1.0, 1.0, 3.0)) for name, base in RARE.items()}
        skew = chance.choice((0.0, 0.0, 5.0, 120.0))
        return cls(
            seed=seed,
            gateways=chance.randint(1, 3),
            weights={**COMMON, **weights, "jump": weights["jump"] if skewed and skew else 0.0},
            faults=("none", *sorted(chance.sample([one for one in FAULTS if one != "none"], chance.randint(0, 5)))),
            tools=tuple(sorted(chance.sample(list(TOOLS), chance.randint(2, len(TOOLS))))),
            refs=chance.randint(1, 4),
            skew_s=skew if skewed else 0.0,
            scarce=chance.random() < 0.25,
        )

    def but(self, weights: Mapping[str, float] | None = None, **fields: Any) -> "Nature":
        """The same nature, but for these."""
        return replace(self, weights={**self.weights, **(weights or {})}, **fields)


@dataclass
class Driver:
    """Takes one step after the other."""

    world: World
    nature: Nature
    chance: random.Random = field(init=False)
    taken: list[str] = field(default_factory=list)
    """What was done, in words; enough to follow it."""
    _ids: int = 0

    def __post_init__(self) -> None:
        self.chance = random.Random(self.nature.seed + 1)  # noqa: S311 - as above
        self.world.ground.outside.fault = lambda _: self.chance.choice(self.nature.faults)

    async def step(self) -> None:
        """One more thing has happened."""
        if not self.world.lives:
            await self.start()
            return
        names = list(ACTIONS)
        name = self.chance.choices(names, [self.nature.weights[one] for one in names])[0]
        await ACTIONS[name](self)

    def _say(self, *words: object) -> None:
        self.taken.append(" ".join(map(str, words)))

    def _waiting(self) -> Waiting | None:
        return self.chance.choice(self.world.waiting) if self.world.waiting else None

    # --- gateways ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        if len(self.world.lives) < self.nature.gateways:
            ahead_s = self.chance.uniform(-self.nature.skew_s, self.nature.skew_s)
            life = await self.world.start(ahead_s)
            self._say("start", life.owner, round(ahead_s, 1))

    async def go(self) -> None:
        if (one := self._waiting()) is not None:
            self._say("go", one.life.owner, one.passage)
            await self.world.decide(one, "on")

    async def die(self) -> None:
        if (one := self._waiting()) is not None:
            self._say("die", one.life.owner, one.passage)
            await self.world.decide(one, "die")

    async def fail(self) -> None:
        ledgers = [one for one in self.world.waiting if one.passage.port == "ledger"]
        if ledgers:
            one = self.chance.choice(ledgers)
            self._say("fail", one.life.owner, one.passage)
            await self.world.decide(one, "fail")

    async def time(self) -> None:
        seconds = self.chance.choice(SPANS_S)
        self._say("time", seconds)
        await self.world.pass_time(seconds)

    async def jump(self) -> None:
        life = self.chance.choice(self.world.lives)
        wanted = self.chance.choice(JUMPS_S)
        life.machine.ahead_s = max(-self.nature.skew_s, min(self.nature.skew_s, wanted))
        self._say("jump", life.owner, round(life.machine.ahead_s, 1))

    # --- agents -----------------------------------------------------------------------------------------------------

    async def ask(self) -> None:
        """A new call, with an id of its client's or without one."""
        run, tool = self.chance.choice(RUNS), self.chance.choice(self.nature.tools)
        ref = (
            f"{run}-{self.chance.randrange(1000)}"
            if tool == "queried"
            else f"r{self.chance.randrange(self.nature.refs)}"
        )
        source = self.chance.choices(["call_id", "caller", ""], [5, 1, 4])[0]
        self._ids += 1
        key = (source, f"id-{self._ids}") if source else None
        await self._call(run, tool, ref, key)

    async def again(self) -> None:
        """An earlier call once more: the same, or with its id and other arguments, through whichever gateway."""
        earlier = self._earlier()
        if earlier is not None:
            asked = earlier.proposal
            key = None if asked.key is None else (str(asked.key.source), asked.key.value)
            ref = "another" if key is not None and self.chance.random() < 0.1 else asked.arguments["ref"]
            await self._call(asked.run, asked.tool, ref, key)

    async def _call(self, run: str, tool: str, ref: str, key: tuple[str, str] | None) -> None:
        life = self.chance.choice(self.world.lives)
        if run not in life.ready:
            return
        deliver = self.chance.random() < 0.7
        self._say("call", life.owner, run, tool, ref, key, "heard" if deliver else "unheard")
        await self.world.call(life, self.world.proposal(run, tool, ref, key), deliver=deliver)

    def _earlier(self) -> Call | None:
        return self.chance.choice(self.world.calls[-30:]) if self.world.calls else None

    async def bring(self) -> None:
        """What an upstream asked for is brought, or the task that it made of a call has ended."""
        asked = [one for one in self.world.calls[-30:] if one.shown is not None and one.shown.awaits is not None]
        if asked:
            one, life = self.chance.choice(asked), self.chance.choice(self.world.lives)
            self._say("bring", life.owner, one.shown.awaits if one.shown else "")
            await self.world.bring_input(life, one)
            await self.world.end_task(life, one)

    # --- people -----------------------------------------------------------------------------------------------------

    async def review(self) -> None:
        asked = [
            (record.run, event.approval) for record, event in self._records() if isinstance(event, ApprovalRequested)
        ]
        if asked:
            run, approval = self.chance.choice(asked[-4:])
            life, yes = self.chance.choice(self.world.lives), self.chance.random() < 0.8
            self._say("review", life.owner, approval, yes)
            await self.world.review(life, run, approval, yes=yes)

    def _records(self) -> list[tuple[Any, Any]]:
        return [(record, record.event) for record, _ in self.world.ground.records]

    async def person(self) -> None:
        life, run = self.chance.choice(self.world.lives), self.chance.choice(RUNS)
        state = life.book._heads.kept(run)
        unsettled = sorted(state.unsettled.values(), key=lambda one: one.seq) if state is not None else []
        unknown = [one.id for one in unsettled if one.state is AttemptState.UNKNOWN]
        if unknown:
            attempt = self.chance.choice(unknown)
            self._say("person", life.owner, attempt)
            await self.world.resolve(life, run, attempt)

    # --- what surrounds them ----------------------------------------------------------------------------------------

    async def reload(self) -> None:
        known = texts(scarce=self.nature.scarce)
        name = self.chance.choice(sorted(known))
        self._say("reload", name)
        self.world.ground.take([known[name]])
        for life in self.world.lives:
            life.book.policies.replace(self.world.ground.policies)

    async def swap(self) -> None:
        tool, version = self.chance.choice(self.nature.tools), self.chance.randint(1, 3)
        self._say("swap", tool, version)
        self.world.ground.outside.swap(tool, version)

    async def lie(self) -> None:
        outside = self.world.ground.outside
        outside.lying = not outside.lying
        self._say("lie", outside.lying)


Action = Callable[[Driver], Awaitable[None]]

COMMON: Mapping[str, float] = {"go": 30.0, "ask": 3.0, "again": 1.5, "time": 1.0, "start": 0.5, "bring": 0.7}
RARE: Mapping[str, float] = {
    "die": 0.7,
    "fail": 0.4,
    "jump": 0.3,
    "review": 0.8,
    "person": 0.4,
    "reload": 0.1,
    "swap": 0.1,
    "lie": 0.15,
}
"""Those that a world may do without, or be full of."""

ACTIONS: Mapping[str, Action] = {name: getattr(Driver, name) for name in (*COMMON, *RARE)}
