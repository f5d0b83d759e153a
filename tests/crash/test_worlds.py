"""Random worlds: agents, reviewers, gateways that die, servers that lie, and clocks that jump, over one ledger.

The driven ones come from seeds and are the same on every machine; Hypothesis drives the same world by its own choices
and looks at every invariant after each of them.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.crash.actions import Driver, Nature
from tests.crash.ground import TOOLS
from tests.crash.invariants import violations
from tests.crash.outside import FAULTS
from tests.crash.world import RUNS, World, texts
from tests.crash.worlds import live, told_loop, told_of

ROOT = Path(__file__).parents[2]
SEEDS = int(os.environ.get("CRASH_SEEDS", "120"))
"""Worlds of 300 steps each: 36,000 steps in a quarter of a minute. `poe worlds` makes a thousand."""


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """A gateway whose ledger fails says so, thousands of times."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_and_nothing_is_done_twice(seed: int) -> None:
    lived = live(seed, look=5)
    assert not lived.found, told_of(lived)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_nothing_is_lost_and_nothing_is_done_twice_in_tens_of_thousands_of_steps(part: int) -> None:
    for seed in range(part * SEEDS // 4, (part + 1) * SEEDS // 4):
        lived = live(seed)
        assert not lived.found, told_of(lived)


def test_a_seed_makes_the_same_world_again() -> None:
    first, again = live(3), live(3)
    assert (first.trace, first.taken, first.counts) == (again.trace, again.taken, again.counts)
    assert live(4).trace != first.trace


@pytest.mark.slow
def test_a_seed_makes_the_same_world_in_any_process() -> None:
    def traced(hashes: str) -> str:
        command = [sys.executable, "-m", "tests.crash.worlds", "--seed", "11"]
        env = {**os.environ, "PYTHONHASHSEED": hashes}
        said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True, timeout=60)
        return next(line for line in said.stdout.splitlines() if line.startswith("trace "))

    assert traced("1") == traced("2") == f"trace {live(11).trace}"


class Worlds(RuleBasedStateMachine):
    """One world; Hypothesis chooses what happens, and makes what it finds as short as it can."""

    def __init__(self) -> None:
        super().__init__()
        self._told = told_loop()
        self.runner, clock = self._told.__enter__()
        loop: Any = self.runner.get_loop()
        self.world = World.new(loop, clock, texts(scarce=True)["first"])
        self.driver = Driver(self.world, Nature.of(0))
        self.fault = "none"
        self.world.ground.outside.fault = lambda _: self.fault
        self._run(self.world.start())
        self._run(self.world.drain())

    def _run(self, work: Any) -> Any:
        return self.runner.run(work)

    @rule(ahead_s=st.sampled_from([0.0, 0.0, -90.0, 90.0]))
    def a_gateway_starts(self, ahead_s: float) -> None:
        if len(self.world.lives) < 3:
            self._run(self.world.start(ahead_s))

    @precondition(lambda self: self.world.waiting)
    @rule(nth=st.integers(0, 40), fate=st.sampled_from(["on", "on", "on", "on", "on", "die", "fail"]))
    def a_passage_is_decided(self, nth: int, fate: Any) -> None:
        self._run(self.world.decide(self.world.waiting[nth % len(self.world.waiting)], fate))

    @precondition(lambda self: self.world.waiting)
    @rule()
    def all_go_on(self) -> None:
        self._run(self.world.drain())

    @precondition(lambda self: self.world.lives)
    @rule(
        gateway=st.integers(0, 2),
        run=st.sampled_from(RUNS),
        tool=st.sampled_from(sorted(set(TOOLS) - {"queried"})),
        key=st.sampled_from([None, ("call_id", "a"), ("call_id", "b"), ("caller", "c")]),
        fault=st.sampled_from(sorted(FAULTS)),
        ref=st.sampled_from(["x", "y"]),
        heard=st.booleans(),
    )
    def an_agent_calls(self, *, gateway: int, run: str, tool: str, key: Any, fault: str, ref: str, heard: bool) -> None:
        life = self.world.lives[gateway % len(self.world.lives)]
        if run in life.ready:
            self.fault = fault
            self._run(self.world.call(life, self.world.proposal(run, tool, ref, key), deliver=heard))

    @precondition(lambda self: self.world.lives)
    @rule(name=st.sampled_from(["again", "bring", "review", "person", "reload", "swap", "lie", "time", "jump"]))
    def something_else_happens(self, name: str) -> None:
        self._run(getattr(self.driver, name)())

    @invariant()
    def nothing_is_wrong(self) -> None:
        assert violations(self._run(self.world.history())) == []

    def teardown(self) -> None:
        try:
            self._run(self.world.come_to_rest())
            assert violations(self._run(self.world.history(at_rest=True))) == []
        finally:
            for life in list(self.world.lives):
                self._run(self.world.bury(life))
            self._told.__exit__(None, None, None)


@pytest.mark.slow
@pytest.mark.long
def test_whatever_hypothesis_thinks_of_nothing_is_lost_and_nothing_is_done_twice() -> None:
    quick = settings(
        max_examples=settings().max_examples,
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Worlds, settings=quick)
