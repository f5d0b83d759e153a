"""The power goes at any moment: what was acknowledged is there, and no effect is without its intent."""

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from gateway.kernel.reduce import fold
from gateway.model.canonical import digest
from gateway.model.record import link
from gateway.model.run import AttemptState, Run
from gateway.outbound.ledger import SqliteLedger, open_sqlite
from tests.ledger.power import DARK, Disk, Life, Lived, NoCompiler, Worker, compiled, scratch, worker
from tests.runtime.house import House, house, outcome
from tests.world import ToldClock

RUNS = ("run_a", "run_b")

ROUNDS = int(os.environ.get("POWER_ROUNDS", "30"))
"""Cuts at random passages, each looked at in four ways."""

WAYS = [(eager, torn) for eager in (False, True) for torn in (False, True)]
"""How much more than it had to the system has stored: names, and blocks."""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk that forgets."""
    try:
        return compiled(tmp_path_factory.mktemp("power"))
    except NoCompiler as error:
        if os.environ.get("CI"):
            pytest.fail(f"power loss cannot be tested: {error}")
        pytest.skip(f"POWER LOSS NOT TESTED: {error}")


@pytest.fixture
async def under(shim: Path) -> AsyncIterator[Worker]:
    async with worker(shim) as made:
        yield made


async def losses(lived: Lived, ledger: SqliteLedger) -> list[str]:
    """What was acknowledged or done, and is not in the ledger; and what in it is no chain."""
    answered: set[str] = set()
    intended: set[str] = set()
    for run_id in RUNS:
        stored = await ledger.read(run_id)
        run = fold([(record, link(body)) for record, body in stored], Run(run_id))
        for number in range(20):
            name = f"{run_id}.{number}"
            cited = digest({"text": name}, ledger.salt)
            states = {attempt.state for attempt in run.attempts.values() if attempt.intent.arguments == cited}
            intended |= {name} if states else set()
            answered |= {name} if AttemptState.ANSWERED in states else set()
    return [
        *(f"the receipt of {name}" for name in lived.all("answered") if name not in answered),
        *(f"the intent of {name}" for name in lived.all("effect") if name not in intended),
    ]


async def found(lived: Lived, folder: Path) -> list[str]:
    """What is lost when the light is back; and the ledger serves a gateway, which settles what was open."""
    path = folder / "ledger.db"
    if not path.exists():
        return [f"the ledger, with {line}" for line in lived.said if line.startswith(("answered", "effect", "opened"))]
    clock = ToldClock()
    ledger = await open_sqlite(path)
    ((intact,),) = await ledger._rows("PRAGMA integrity_check")
    lost = [] if intact == "ok" else [str(intact)]
    lost += await losses(lived, ledger)
    async with house(ledger, "next", clock=clock) as it:
        lost += await goes_on(it, lived)
    await ledger.close()
    return lost


async def goes_on(it: House, lived: Lived) -> list[str]:
    """After recovery nothing is open, what happened is not done again, and the next call is made."""
    for _ in range(2):
        await it.recovery.sweep()
        it.clock.tell(60)
    wrong = [f"{one.attempt} is still open" for one in await it.ledger.tracked(states={"open"})]
    for name in set(lived.all("effect")) - set(lived.all("answered")):  # its client was never told, and asks again
        await it.open(name[:5])
        await it.call("write", {"text": name}, run=name[:5], deliver=False)
    wrong += [f"{one.arguments['text']} was done twice" for one in it.upstreams.sent]
    await it.open("run_c")
    return wrong + ([] if outcome(await it.call("write", {"n": 1}, run="run_c")) == "result" else ["the next call"])


async def cut(by: Worker, life: Life, folder: Path, ways: list[tuple[bool, bool]] = WAYS) -> tuple[Lived, list[str]]:
    """A life, and all that is lost after it, however much the system has stored."""
    with scratch(folder) as there:
        disk = Disk(there)
        lived = await by.live(life, disk)
        assert lived.code in {0, DARK}, lived
        lost = []
        for number, (eager, torn) in enumerate(ways):
            chance = random.Random(life.cut_at) if torn else None  # noqa: S311 - a seed is there to be repeated
            after = disk.after(there / str(number), eager=eager, torn=chance)
            lost += [f"{what} (eager {eager}, torn {torn})" for what in await found(lived, after)]
    return lived, lost


async def whole(by: Worker, life: Life, folder: Path) -> Lived:
    """The same life without a cut."""
    lived, lost = await cut(by, life, folder)
    assert lost == []
    assert lived.said[-3] == "closed"
    assert len(lived.all("answered")) == 2 * life.calls
    return lived


async def test_a_life_without_a_cut_loses_nothing_and_syncs_each_step(under: Worker, tmp_path: Path) -> None:
    lived = await whole(under, Life(calls=3), tmp_path)
    assert int(lived.all("syncs")[0]) > 9


async def test_the_power_goes_at_any_moment(under: Worker, tmp_path: Path) -> None:
    life = Life(calls=3)
    passages = int((await whole(under, life, tmp_path)).all("passages")[0])
    for number in range(6):
        at = 1 + passages * (2 * number + 1) // 12
        _, lost = await cut(under, Life(cut_at=at, calls=3), tmp_path)
        assert lost == [], at


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("pages", [1000, 8])
async def test_the_power_goes_at_any_moment_many_times(under: Worker, tmp_path: Path, pages: int) -> None:
    """With a log that is moved into the file at the end, and one that is moved every other commit."""
    passages = int((await whole(under, Life(pages=pages), tmp_path)).all("passages")[0])
    chance = random.Random(pages)  # noqa: S311 - as above
    dark = 0
    with anyio.fail_after(300):
        for at in sorted(chance.sample(range(1, passages), min(ROUNDS, passages - 1))):
            lived, lost = await cut(under, Life(cut_at=at, pages=pages), tmp_path)
            assert lost == [], at
            dark += lived.code == DARK
    assert (
        dark >= ROUNDS / 2
    )  # how steps are grouped differs from life to life, and so does how many passages there are


@pytest.mark.slow
@pytest.mark.parametrize("pages", [pytest.param(1000, marks=pytest.mark.long), 8])
async def test_whichever_sync_fails_nothing_is_sent_after_it_and_nothing_is_lost(
    under: Worker, tmp_path: Path, pages: int
) -> None:
    syncs = int((await whole(under, Life(pages=pages, calls=3), tmp_path)).all("syncs")[0])
    refused = 0
    with anyio.fail_after(300):
        for at in range(1, syncs + 1):
            lived, lost = await cut(under, Life(fail_at=at, pages=pages, calls=3), tmp_path, WAYS[:2])
            assert lost == [], at
            reasons = lived.all("refused")
            if reasons:
                refused += 1
                first = next(number for number, line in enumerate(lived.said) if line.startswith("refused"))
                # What was under way when it failed is answered; nothing is begun after it.
                assert sum(line.startswith("effect") for line in lived.said[first:]) == 0, lived
                assert all("check the disk, then restart the gateway" in reason for reason in reasons), reasons
    assert refused >= 6


@pytest.mark.slow
async def test_with_less_than_full_synchronous_acknowledged_steps_are_lost(under: Worker, tmp_path: Path) -> None:
    """That this page can fail."""
    life = Life(normal=True)
    passages = int((await whole(under, life, tmp_path)).all("passages")[0])
    lost: list[str] = []
    for number in range(6):
        at = 1 + passages * (2 * number + 1) // 12
        lost += (await cut(under, Life(normal=True, cut_at=at), tmp_path, [(False, False)]))[1]
    assert any(what.startswith("the receipt of") for what in lost)
    assert any(what.startswith("the intent of") for what in lost)
