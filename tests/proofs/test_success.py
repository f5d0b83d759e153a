"""No sequence of events that the kernel can produce is a success without all of its evidence, fresh and of its kind."""

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.model.events import RunStopped
from tests.kernel.made import MANY
from tests.proofs.driven import Driven
from tests.proofs.mutants import MUTANTS, NATURE, in_force
from tests.proofs.oracle import unproven

STEPS = 100
SEEDS = 1_000
"""Runs in which a mutant may hide at most; most are found within the first fifty."""


@MANY
@given(data=st.data())
def test_whoever_succeeds_has_all_that_success_asks_for(data: Any) -> None:
    driven = Driven(lambda of: data.draw(st.sampled_from(of)))
    driven.lives(STEPS)
    assert unproven(driven) == []


def lived(seed: int, **nature: Any) -> Driven:
    """The same run for the same seed."""
    driven = Driven(random.Random(seed).choice, **nature)  # noqa: S311 - no secret
    driven.lives(STEPS)
    return driven


def test_the_same_holds_of_runs_by_their_seeds_and_many_of_them_succeed() -> None:
    ends = []
    for seed in range(150):
        driven = lived(seed)
        assert unproven(driven) == [], seed
        ends += [event.outcome for _, event in driven.life.events if isinstance(event, RunStopped)]
    assert len(ends) > 20
    assert set(ends) == {"verified_success"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
def test_the_same_holds_of_thousands_of_runs(part: int) -> None:
    for seed in range(part * 2_000, (part + 1) * 2_000):
        assert unproven(lived(seed)) == [], seed


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_kernel_that_breaks_one_rule_of_evidence_is_seen(name: str) -> None:
    with in_force(name):
        for seed in range(SEEDS):
            if unproven(lived(seed, **NATURE.get(name, {}))):
                return
    pytest.fail(f"{SEEDS} runs went on as if nothing were wrong")
