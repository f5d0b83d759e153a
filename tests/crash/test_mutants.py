"""Every rule of the commit path and of recovery is needed: a gateway that breaks it is caught within a few worlds."""

import logging

import pytest

from tests.crash.mutants import MUTANTS
from tests.crash.worlds import live

WORLDS = 250
"""Seeds that a mutant may need at most; most are caught by the first."""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
def test_a_gateway_that_is_wrong_is_caught(name: str) -> None:
    mutant = MUTANTS[name]
    logging.disable(logging.CRITICAL)
    try:
        with mutant.in_force():
            for seed in range(WORLDS):
                if mutant.caught_by & {one.invariant for one in live(seed, **mutant.nature).found}:
                    return
    finally:
        logging.disable(logging.NOTSET)
    pytest.fail(f"{WORLDS} worlds went on as if nothing were wrong")
