"""The cheapest way to success, against every way that is short enough to be tried."""

from itertools import product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.walk import cheapest
from gateway.model.policy import Policy
from tests.kernel.analysis.written import verifier

PHASES = ("a", "b", "c")
PHASE = st.sampled_from(PHASES)
STEPS = 5
"""Three phases and one proof: no cheapest way is longer."""

TRANSITIONS = st.lists(
    st.fixed_dictionaries(
        {"charge": st.fixed_dictionaries({"calls": st.integers(0, 4), "tokens": st.integers(0, 4)})},
        optional={
            "from": st.lists(PHASE, min_size=1, max_size=2),
            "to": PHASE,
            "verify": st.just("v"),
            "on": st.dictionaries(st.just("error"), PHASE, max_size=1),
        },
    ),
    min_size=1,
    max_size=3,
)


def workflow(transitions: list[dict[str, Any]], phase: str | None) -> Policy:
    """Every transition is about a tool of its own, so that none hides another."""
    return Policy.model_validate(
        {
            "workflow": "w",
            "phases": {name: {} for name in PHASES},
            "transitions": [{"name": f"t{at}", "tools": [f"tool{at}"], **one} for at, one in enumerate(transitions)],
            "verifiers": {"v": verifier()},
            "success": {"evidence": ["v"], "phase": phase},
        }
    )


def walked(policy: Policy, steps: tuple[tuple[int, str], ...]) -> tuple[list[int], list[int]] | None:
    """What each of these steps takes, of calls and of tokens; None if they are no way to success."""
    phase, proven = policy.initial, False
    calls, tokens = list[int](), list[int]()
    for at, end in steps:
        transition = policy.transitions[at]
        if transition.sources and phase not in transition.sources:
            return None
        calls.append(transition.charge.calls)
        tokens.append(transition.charge.tokens or 0)
        if end == "error":
            if "error" not in transition.on:
                return None
            phase = transition.on["error"]
        else:
            phase, proven = transition.target or phase, proven or bool(transition.verify)
    goal = policy.success.phase if policy.success else None
    return (calls, tokens) if proven and goal in {None, phase} else None


@settings(max_examples=60, deadline=None)
@given(TRANSITIONS, st.one_of(st.none(), PHASE))
def test_no_way_is_cheaper_than_the_cheapest(transitions: list[dict[str, Any]], phase: str | None) -> None:
    policy = workflow(transitions, phase)
    moves = list(product(range(len(transitions)), ("well", "error")))
    ways = [walked(policy, steps) for length in range(1, STEPS + 1) for steps in product(moves, repeat=length)]
    found = [way for way in ways if way is not None]
    facts = Facts(policy)
    calls, tokens = cheapest(facts, "calls"), cheapest(facts, "tokens")
    assert (calls is None) == (tokens is None) == (not found)
    if calls is not None and tokens is not None:
        assert calls.price == min(sum(taken) for taken, _ in found)
        assert tokens.price == min(max(taken) for _, taken in found)
        assert set(calls.steps) <= {one.name for one in policy.transitions}
