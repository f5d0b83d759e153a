"""Whatever one does to them, the ledgers say the same."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.model.canonical import Digest
from gateway.outbound.ledger import MemoryLedger, open_ledger
from gateway.ports import Conflict, Exhausted, Ledger, Occupied
from tests.ledger.conftest import addresses
from tests.ledger.making import T0, Line, asked, attempt, opened, posting, small

Op: TypeAlias = tuple[Any, ...]

RUNS = ["run_1", "run_2", "run_3"]
ATTEMPTS = {run: [f"{run}_att_{number}" for number in range(2)] for run in RUNS}

ACCOUNTS = ["a", "b", "c"]

run = st.sampled_from(RUNS)
name = run.flatmap(lambda chosen: st.sampled_from(ATTEMPTS[chosen]))
time = st.floats(0, 100)
owner = st.sampled_from(["gw_1", "gw_2"])


@st.composite
def tracked(draw: st.DrawFn, of: str) -> Any:
    return attempt(
        draw(st.sampled_from(ATTEMPTS[of])),
        of,
        state=draw(st.sampled_from(["open", "unknown", "unverified"])),
        hold=draw(st.sampled_from([None, "h1", "h2"])),
        owner=draw(owner),
        lease_until=draw(time),
    )


postings = st.lists(
    st.builds(
        posting,
        st.sampled_from(ACCOUNTS),
        st.integers(-3, 5),
        unit=st.sampled_from(["calls", "cost"]),
        limit=st.sampled_from([None, 0, 4, 6]),
        # Past before the test begins, while it goes on, never.
        until=st.sampled_from([T0 - 172_801, T0 - 172_800, T0 - 172_798, T0, None]),
    ),
    max_size=3,
)


@st.composite
def appends(draw: st.DrawFn) -> Op:
    of = draw(run)
    events = draw(st.lists(st.sampled_from([opened(), asked(), small()]), min_size=1, max_size=3))
    payloads = draw(st.dictionaries(st.sampled_from([Digest("c1:a"), Digest("c1:b")]), st.binary(max_size=8)))
    track = draw(st.lists(tracked(of), max_size=2))
    untrack = draw(st.lists(st.sampled_from(ATTEMPTS[of]), max_size=1))
    fields = {"payloads": payloads, "track": track, "untrack": untrack, "postings": draw(postings)}
    return "append", of, events, fields, draw(st.integers(0, 9)) == 0


ops = st.one_of(
    appends(),
    st.tuples(st.just("claim"), st.integers(0, 3), st.booleans(), owner, time),
    st.tuples(st.just("erase"), st.sampled_from(["c1:a", "c1:b"]), time),
    st.tuples(st.just("renew"), owner, st.sets(name), time),
)


async def told(ledger: Ledger, op: Op, lines: dict[str, Line]) -> object:
    """What the ledger says to the operation."""
    match op:
        case ("append", of, events, fields, stale):
            line = Line(of) if stale else lines[of]
            before = line.expected
            step = line.step(*events, **fields)
            try:
                await ledger.append(step)
            except (Conflict, Exhausted) as error:
                line.expected = before
                return type(error), str(error)
            except Occupied as error:
                line.expected = before
                return error.held
            lines[of] = line
            return None
        case ("claim", number, stale, *values):
            found = await ledger.tracked()
            if number >= len(found):
                return None
            seen = replace(found[number], lease_until=-1.0) if stale else found[number]
            return await ledger.claim(seen, *values)
        case ("erase", cited, at):
            return await ledger.erase([Digest(cited)], at, await ledger.closed())
        case (_, *values):
            await ledger.renew(*values)
            return None
        case _:
            raise AssertionError(op)


async def shown(ledger: Ledger) -> object:
    """All that the ledger holds, as far as the port shows it."""
    return (
        [await ledger.read(name, after) for name in RUNS for after in (0, 1)],
        [await ledger.find(kinds, limit=4) for kinds in (["run.opened", "approval.requested"], ["outcome.delivered"])],
        [await ledger.find(["run.opened", "small"], before=(name, seq)) for name in RUNS for seq in (0, 1, 2)],
        await ledger.levels(ACCOUNTS),
        await ledger.accounts(limit=9),
        await ledger.tracked(),
        await ledger.tracked(states=["open", "unverified"]),
        [(one.place, one.run, one.seq, one.kind, one.link, one.body) for one in await ledger.log(limit=9)],
        await ledger.links(1, limit=9),
        await ledger.closed(),
        await ledger.payloads(),
        await ledger.erased([Digest("c1:a"), Digest("c1:b")]),
    )


async def run_both(url: str, operations: list[Op]) -> None:
    other, memory = await open_ledger(url), MemoryLedger()
    theirs, ours = ({one: Line(one) for one in RUNS} for _ in range(2))
    try:
        for op in operations:
            assert await told(other, op, theirs) == await told(memory, op, ours), op
        assert await shown(other) == await shown(memory)
    finally:
        await other.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_ledgers_agree_on_every_answer(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    new = addresses(kind, tmp_path, request)

    @settings(max_examples=60 if kind == "sqlite" else 25, deadline=None)
    @given(st.lists(ops, max_size=12))
    def agree(operations: list[Op]) -> None:
        asyncio.run(run_both(next(new), operations))

    agree()
