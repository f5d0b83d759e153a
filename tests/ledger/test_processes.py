"""Several processes on one ledger: each agent window, or each machine, runs a gateway of its own over it."""

import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream

from gateway.model.record import GENESIS, Record, link
from gateway.outbound.ledger import open_ledger
from gateway.ports import Ledger
from tests.ledger.making import Line, attempt

ROOT = Path(__file__).parents[2]

PATIENCE_S = 30
"""Several interpreters start at once, on machines with little to spare."""


class Child:
    """One process, and what it says, line by line."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.process = process
        self._stdin = process.stdin
        self._stdout = BufferedByteReceiveStream(process.stdout)

    async def says(self) -> str:
        return (await self._stdout.receive_until(b"\n", 65536)).decode()

    async def go(self) -> None:
        await self._stdin.send(b"go\n")


@asynccontextmanager
async def children(*commands: tuple[object, ...]) -> AsyncIterator[list[Child]]:
    """Processes that are all ready; those that still run at the end are killed."""
    async with AsyncExitStack() as stack:
        started = []
        with anyio.fail_after(PATIENCE_S):
            for command in commands:
                words = [sys.executable, "-m", "tests.ledger.child", *map(str, command)]
                process = await anyio.open_process(words, cwd=ROOT, stderr=None)
                started.append(Child(await stack.enter_async_context(process)))
                stack.callback(kill, process)
            for child in started:
                assert await child.says() == "ready"
            yield started


def kill(process: Process) -> None:
    if process.returncode is None:
        process.kill()


async def all_say(*commands: tuple[object, ...]) -> list[str]:
    """What each process says, all having been told to go at once."""
    async with children(*commands) as started:
        for child in started:
            await child.go()
        said = [await child.says() for child in started]
        assert [await child.process.wait() for child in started] == [0] * len(started)
    return said


async def at_rest(ledger: Ledger, run: str) -> Sequence[tuple[Record, bytes]]:
    """The records of a run whose writer was killed: a database may still write what it had been sent by then."""
    found = await ledger.read(run)
    while True:
        await anyio.sleep(0.1)
        again = await ledger.read(run)
        if len(again) == len(found):
            return again
        found = again


async def test_of_several_that_make_the_same_ledger_one_makes_it(url: str) -> None:
    salts = await all_say(*[("make", url)] * 4)
    assert len(set(salts)) == 1
    ledger = await open_ledger(url)
    assert ledger.salt.hex() == salts[0]
    assert len(await ledger.find(["run.opened"])) == 4
    await ledger.close()


async def test_of_several_that_make_the_same_file_one_makes_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "ledger.db"
    salts = await all_say(*[("make", f"sqlite:///{path}")] * 4)
    assert len(set(salts)) == 1
    await (await open_ledger(f"sqlite:///{path}")).close()  # two that close at once may both leave the log to the other
    assert [part.name for part in path.parent.iterdir()] == ["ledger.db"]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


async def test_processes_that_contend_for_one_run_make_one_chain(shared: Ledger, url: str) -> None:
    conflicts = await all_say(("contend", url, "a", 40), ("contend", url, "b", 40))
    stored = await shared.read("run_1")
    assert [record.seq for record, _ in stored] == list(range(1, 81))
    links = [GENESIS, *(link(body) for _, body in stored)]
    assert [record.previous for record, _ in stored] == links[:-1]
    goals = sorted(record.event.goal for record, _ in stored if record.event.kind == "run.opened")
    assert goals == sorted(f"{who} {number}" for who in "ab" for number in range(40))
    assert sum(map(int, conflicts)) > 0


async def test_a_claim_has_one_winner_among_processes(shared: Ledger, url: str) -> None:
    names = [f"att_{number:02}" for number in range(40)]
    await shared.append(Line("run_1").tracking(*(attempt(name, lease_until=0.0) for name in names)))
    first, second = await all_say(("claim", url, "gw_a"), ("claim", url, "gw_b"))
    assert sorted(first.split() + second.split()) == names
    owners = {tracked.attempt: tracked.owner for tracked in await shared.tracked()}
    assert owners == dict.fromkeys(first.split(), "gw_a") | dict.fromkeys(second.split(), "gw_b")


async def test_an_effect_has_one_holder_among_processes(shared: Ledger, url: str) -> None:
    first, second = await all_say(("hold", url, "a", 40), ("hold", url, "b", 40))
    assert sorted(map(int, first.split() + second.split())) == list(range(40))
    holders = {tracked.hold: tracked.attempt for tracked in await shared.tracked()}
    assert holders == {
        f"effect {number}": f"att_{who}_{number}"
        for who, numbers in (("a", first), ("b", second))
        for number in numbers.split()
    }


async def test_a_limit_holds_among_processes_to_the_last_unit(shared: Ledger, url: str) -> None:
    landed = await all_say(*[("charge", url, who, 50, 50) for who in "abcd"])
    assert sum(len(numbers.split()) for numbers in landed) == 50
    assert await shared.levels(["a"]) == {("a", "calls"): 50}
    recorded = [
        " ".join([str(number) for number in range(50) if await shared.read(f"run_{who}_{number}")]) for who in "abcd"
    ]
    assert recorded == [numbers.strip() for numbers in landed]


async def test_what_a_killed_process_left_of_an_account_is_what_its_records_say(url: str) -> None:
    total = 0
    for life in range(3):
        run, acknowledged = f"run_{life}", 0
        async with children(("spend", url, run)) as (child,):
            await child.go()
            while acknowledged < 50:
                acknowledged = int(await child.says())
            child.process.send_signal(signal.SIGKILL)
            assert await child.process.wait() == -signal.SIGKILL
        ledger = await open_ledger(url)
        recorded = len(await at_rest(ledger, run))
        assert recorded >= acknowledged
        spent = recorded // 2 + 3 * (recorded % 2)
        total += spent
        assert await ledger.levels(["a", run]) == {("a", "calls"): total, (run, "calls"): spent}
        await ledger.close()


async def test_a_killed_process_loses_nothing_that_it_had_acknowledged(url: str) -> None:
    for life in range(3):
        acknowledged = 0
        async with children(("append", url, f"run_{life}")) as (child,):
            await child.go()
            while acknowledged < 50:
                acknowledged = int(await child.says())
            child.process.send_signal(signal.SIGKILL)
            assert await child.process.wait() == -signal.SIGKILL
            with suppress(anyio.EndOfStream, anyio.IncompleteRead):
                while True:  # it went on for a moment
                    acknowledged = int(await child.says())
        ledger = await open_ledger(url)
        stored = await at_rest(ledger, f"run_{life}")
        # One more may have been on its way.
        assert len(stored) >= acknowledged
        links = [GENESIS, *(link(body) for _, body in stored)]
        assert [record.previous for record, _ in stored] == links[:-1]
        await ledger.append(Line(f"run_{life}", (len(stored), links[-1])).step())
        await ledger.close()


async def test_a_process_that_forgot_to_close_ends_and_has_lost_nothing(url: str) -> None:
    with anyio.fail_after(PATIENCE_S):
        words = [sys.executable, "-m", "tests.ledger.child", "forget", url]
        ended = await anyio.run_process(words, cwd=ROOT, stderr=None)
    assert ended.stdout == b"1\n"
    ledger = await open_ledger(url)
    assert len(await ledger.read("run_1")) == 1
    await ledger.close()
