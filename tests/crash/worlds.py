"""Random worlds, each made by a seed: `python -m tests.crash.worlds --seed 7 --steps 300`, or `--seeds 1000`.

The same seed gives the same world, step for step, on any machine: the loop is told the time, one thread runs, and
what is chosen is chosen by the seed. A world is first driven, with everything that may go wrong, and then comes to rest
with nothing wrong any more: all that was begun must end.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from tests.crash.actions import Driver, Nature
from tests.crash.clocks import ToldLoop, TrueClock
from tests.crash.history import History
from tests.crash.invariants import Violation, violations
from tests.crash.world import World, texts

STEPS = 300
LOOK = 25
"""Steps between two looks; what a look finds is found again, to the step, by looking after each."""


@dataclass
class Lived:
    """What came of one world."""

    nature: Nature
    steps: int
    found: list[Violation]
    taken: list[str]
    counts: Counter[str] = field(default_factory=Counter)
    trace: str = ""
    """Of every stored record, effect and reply, in order."""


@contextmanager
def told_loop() -> Iterator[tuple[asyncio.Runner, TrueClock]]:
    """A runner whose loop goes by a clock that is told."""
    clock = TrueClock()
    with asyncio.Runner(loop_factory=lambda: ToldLoop(clock)) as runner:
        yield runner, clock


def live(seed: int, steps: int = STEPS, look: int = LOOK, *, skewed: bool = True, **but: Any) -> Lived:
    """The world of that seed, up to its first violation, or to its rest; of its own nature `but` for these."""
    with told_loop() as (runner, clock):
        return runner.run(_live(Nature.of(seed, skewed=skewed).but(**but), steps, look, clock))


async def _live(nature: Nature, steps: int, look: int, clock: TrueClock) -> Lived:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ToldLoop)
    world = World.new(loop, clock, texts(scarce=nature.scarce)["first"])
    driver = Driver(world, nature)
    found: list[Violation] = []
    number = 0
    while number < steps and not found:
        await driver.step()
        number += 1
        await world.ground.read_on()
        if number % look == 0:
            found = violations(await world.history())
    if not found:
        await world.come_to_rest()
        found = violations(await world.history(at_rest=True))
    history = await world.history()
    for life in list(world.lives):
        await world.bury(life)
    counts = Counter(steps=number, calls=len(world.calls), gateways=world.started, deaths=world.deaths)
    counts |= Counter(records=len(history.records), effects=len(history.effects), received=len(history.received))
    return Lived(nature, number, found, driver.taken, counts, _trace(history))


def _trace(history: History) -> str:
    made = sha256()
    for _, body in history.records:
        made.update(body)
    for what in (*history.received, *history.effects, *history.replies):
        made.update(repr(what).encode())
    return made.hexdigest()[:16]


def told_of(lived: Lived, last: int = 60) -> str:
    """What it takes to understand a world that went wrong."""
    lines = [f"seed {lived.nature.seed} after {lived.steps} steps; {lived.nature}"]
    lines += [f"  {line}" for line in lived.taken[-last:]]
    lines += [f"{one.invariant}: {one.says}" for one in lived.found]
    return "\n".join(lines)


def main() -> None:
    """Print figures, and each world that went wrong; exit code 1 if any did."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--seed", type=int, default=0, help="of the first world")
    asked.add_argument("--seeds", type=int, default=1, help="how many worlds, one seed after the other")
    asked.add_argument("--steps", type=int, default=STEPS, help="of each world")
    asked.add_argument("--look", type=int, default=LOOK, help="steps between two looks at the invariants")
    asked.add_argument("--straight", action="store_true", help="all clocks are right")
    said = asked.parse_args()
    begun, totals, wrong = time.monotonic(), Counter[str](), 0
    for seed in range(said.seed, said.seed + said.seeds):
        lived = live(seed, said.steps, said.look, skewed=not said.straight)
        totals.update(lived.counts)
        if lived.found:
            wrong += 1
            print(told_of(lived))
        elif said.seeds == 1:
            print(f"{lived.nature}\ntrace {lived.trace}")
    figures = ", ".join(f"{name} {count}" for name, count in totals.items())
    took_s = time.monotonic() - begun
    print(f"worlds {said.seeds} from seed {said.seed}, {figures}; worlds gone wrong {wrong}; {took_s:.1f} s")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
