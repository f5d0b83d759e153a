"""A process of its own over one ledger: `python -m tests.ledger.child VERB URL ...`. Told to go on stdin."""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine

from gateway.model.record import link
from gateway.outbound.ledger import open_ledger
from gateway.ports import Conflict, Exhausted, Ledger, Occupied
from tests.ledger.making import T0, Line, attempt, opened, posting


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def wait_for_go() -> None:
    say("ready")
    sys.stdin.readline()


async def make(url: str) -> None:
    """Opens the ledger at the word, makes it if nobody was faster, and leaves a record in it; says its salt."""
    wait_for_go()
    ledger = await open_ledger(url)
    await ledger.append(Line(f"run_{os.getpid()}").step(opened()))
    say(ledger.salt.hex())
    await ledger.close()


async def append(url: str, run: str) -> None:
    """Appends to one run for ever, saying each version once it was acknowledged."""
    ledger = await open_ledger(url)
    wait_for_go()
    line = Line(run)
    while True:
        await ledger.append(line.step())
        say(line.expected[0])


async def contend(url: str, who: str, count: str) -> None:
    """Appends to the run that all append to, so many times, reading again after each conflict."""
    ledger = await open_ledger(url)
    wait_for_go()
    conflicts = 0
    for number in range(int(count)):
        conflicts += await _append_somehow(ledger, f"{who} {number}")
    say(conflicts)
    await ledger.close()


async def _append_somehow(ledger: Ledger, goal: str) -> int:
    conflicts = 0
    while True:
        stored = await ledger.read("run_1")
        line = Line("run_1", (len(stored), link(stored[-1][1]))) if stored else Line("run_1")
        try:
            await ledger.append(line.step(opened(goal)))
        except Conflict:
            conflicts += 1
        else:
            return conflicts


async def claim(url: str, who: str) -> None:
    """Claims every attempt, all at once; says which it won."""
    ledger = await open_ledger(url)
    found = await ledger.tracked()
    wait_for_go()
    won = await asyncio.gather(*(ledger.claim(seen, who, T0 + 60) for seen in found))
    say(*(seen.attempt for seen, mine in zip(found, won, strict=True) if mine))
    await ledger.close()


async def hold(url: str, who: str, count: str) -> None:
    """Records so many effects, each in a run of its own, that equal the effects of its twins; says which it has."""
    ledger = await open_ledger(url)
    wait_for_go()
    got = []
    for number in range(int(count)):
        run = f"run_{who}_{number}"
        try:
            await ledger.append(Line(run).tracking(attempt(f"att_{who}_{number}", run, hold=f"effect {number}")))
        except Occupied:
            continue
        got.append(number)
    say(*got)
    await ledger.close()


async def charge(url: str, who: str, count: str, limit: str) -> None:
    """Charges the account that all charge, so many times at once, each in a run of its own; says which landed."""
    ledger = await open_ledger(url)
    wait_for_go()
    steps = [Line(f"run_{who}_{n}").step(postings=[posting("a", 1, limit=int(limit))]) for n in range(int(count))]
    came = await asyncio.gather(*(ledger.append(step) for step in steps), return_exceptions=True)
    for one in came:
        if not isinstance(one, Exhausted | None):
            raise one
    say(*(number for number, one in enumerate(came) if one is None))
    await ledger.close()


async def spend(url: str, run: str) -> None:
    """Charges 3 and then gives back 2, for ever, saying each version once it was acknowledged."""
    ledger = await open_ledger(url)
    wait_for_go()
    line = Line(run)
    while True:
        steps = [line.step(postings=[posting("a", amount), posting(run, amount)]) for amount in (3, -2)]
        await asyncio.gather(*(ledger.append(step) for step in steps))
        say(line.expected[0])


async def forget(url: str) -> None:
    """Opens the ledger, uses it, and ends without a word of goodbye."""
    ledger = await open_ledger(url)
    await ledger.append(Line("run_1").step())
    say(len(await ledger.read("run_1")))


VERBS: dict[str, Callable[..., Coroutine[None, None, None]]] = {
    verb.__name__: verb for verb in (make, append, contend, claim, hold, charge, spend, forget)
}

if __name__ == "__main__":
    asyncio.run(VERBS[sys.argv[1]](*sys.argv[2:]))
