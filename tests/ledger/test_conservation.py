"""Whatever is taken and given back, at once or one after another: a level is what the landed steps posted to it."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.outbound.ledger import open_ledger
from gateway.ports import Exhausted, Posting
from tests.ledger.conftest import addresses
from tests.ledger.making import Line, posting

Account: TypeAlias = tuple[str, str]
Step: TypeAlias = Sequence[Posting]

ACCOUNTS = ["a", "b"]

postings = st.lists(
    st.builds(
        posting,
        st.sampled_from(ACCOUNTS),
        st.integers(-5, 5) | st.sampled_from([10**6, -(10**6)]),
        unit=st.sampled_from(["calls", "cost"]),
        limit=st.none() | st.integers(-1, 10),
    ),
    min_size=1,
    max_size=4,
)

groups = st.lists(st.lists(postings, min_size=1, max_size=5), min_size=1, max_size=5)
"""Steps that are appended at once, and again, and again."""


def expected(levels: Counter[Account], step: Step) -> Account | None:
    """Which account refuses the step; else the levels are those after it. Said as the port says it, one by one."""
    after = Counter(levels)
    for one in step:
        key = one.account, one.unit
        after[key] += one.amount
        if one.amount > 0 and one.limit is not None and after[key] > one.limit:
            return key
    levels.clear()
    levels.update(after)
    return None


def refusals(came: Sequence[BaseException | None]) -> Iterator[Account | None]:
    for error in came:
        if error is None:
            yield None
        else:
            assert isinstance(error, Exhausted), error
            yield error.account, error.unit


async def conserve(url: str, operations: Sequence[Sequence[Step]]) -> None:
    levels: Counter[Account] = Counter()
    ledger = await open_ledger(url)
    try:
        for turn, group in enumerate(operations):
            steps = [Line(f"run_{turn}_{number}").step(postings=step) for number, step in enumerate(group)]
            came = await asyncio.gather(*(ledger.append(step) for step in steps), return_exceptions=True)
            assert list(refusals(came)) == [expected(levels, step) for step in group]
            assert [len(await ledger.read(step.run)) for step in steps] == [int(one is None) for one in came]
            found = await ledger.levels(ACCOUNTS)
            # An account that nothing was posted to is absent, or at 0; one that was never is neither.
            assert {key: found.get(key, 0) for key in levels} == levels
            assert set(found) <= set(levels)
    finally:
        await ledger.close()


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_level_is_the_sum_of_what_landed_and_what_is_refused_is_what_goes_beyond(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    new = addresses(kind, tmp_path, request)

    @settings(max_examples=25 if kind == "postgres" else 60, deadline=None)
    @given(groups)
    def hold(operations: Sequence[Sequence[Step]]) -> None:
        asyncio.run(conserve(next(new), operations))

    hold()
