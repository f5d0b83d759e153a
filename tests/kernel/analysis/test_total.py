"""Analysis has an answer to every policy that loads, and has it soon."""

import time
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.kernel.analysis import CODES, findings
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.case import Case, Observed, Pass
from gateway.kernel.decide import CHECKS
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import digest
from gateway.model.flaws import Place
from gateway.model.policy import Policy
from gateway.model.principal import Principal
from gateway.model.record import utc
from tests import world
from tests.kernel.analysis.written import rule, verifier

NAMES = ("a", "b", "c")
TOOLS = st.sampled_from(["*", "a", "b", "a*", "*b", "a*b", "delete_a", "send_b", "*a*b*"])
EFFECTS = st.lists(st.sampled_from(["read", "write", "destructive"]), max_size=2)
RIGHT = (
    "true",
    "1 > 2",
    "1 / 0 == 1",
    "args.x == 1",
    'evidence.a.verdict == "pass"',
    'evidence["b"].fresh && args.x == 1',
    'run.phase == "a" || run.phase in ["b", "z"]',
)
WRONG = ("not CEL at all", "nobody.knows == this", "values[args.x] == 1", "(", '"')
AMOUNT = st.one_of(st.none(), st.integers(0, 3))
AUTHORITY = st.lists(st.sampled_from(["p", "q"]), max_size=2, unique=True)
LIMITS = st.fixed_dictionaries(
    {}, optional={unit: st.integers(0, 4) for unit in ("calls", "mutations", "tokens", "cost", "reviews")}
)
PHASE = st.sampled_from(NAMES)
EDGES = ("error", "conflict", "invalid", "denied", "timeout_unknown")


@st.composite
def policies(draw: st.DrawFn, expressions: tuple[str, ...] = RIGHT + WRONG) -> Policy:
    """Any policy of a few names, all of whose parts fit together."""
    conditions = st.lists(st.sampled_from(expressions), max_size=2)
    verifiers = draw(
        st.dictionaries(st.sampled_from(NAMES), st.just(verifier("look", "result.ok == true")), max_size=2)
    )
    known = st.sampled_from(sorted(verifiers)) if verifiers else st.nothing()
    transition = st.fixed_dictionaries(
        {"tools": st.lists(TOOLS, min_size=1, max_size=2)},
        optional={
            "effect": EFFECTS,
            "from": st.lists(PHASE, max_size=2),
            "when": conditions,
            "authority": AUTHORITY,
            "charge": st.fixed_dictionaries({"calls": st.integers(0, 3), "mutations": AMOUNT, "tokens": AMOUNT}),
            "to": PHASE,
            "on": st.dictionaries(st.sampled_from(EDGES), PHASE, max_size=2),
            "approval": st.fixed_dictionaries(
                {"when": conditions, "quorum": st.integers(1, 2), "self_review": st.booleans()}
            ),
            "compensation": st.just({"tool": "undo"}),
            "mode": st.sampled_from(["observe", "enforce"]),
            **({"verify": known, "preconditions": st.lists(known, max_size=1)} if verifiers else {}),
        },
    )
    forbid = st.fixed_dictionaries(
        {"tools": st.lists(TOOLS, max_size=2)}, optional={"effect": EFFECTS, "when": conditions}
    )
    ended = draw(st.sets(PHASE, max_size=1))
    whole: dict[str, Any] = {
        "workflow": "w",
        "mode": draw(st.sampled_from(["observe", "enforce"])),
        "annotations": draw(st.sampled_from(["trust", "tighten"])),
        "grants": draw(st.lists(st.fixed_dictionaries({"principal": TOOLS, "authority": AUTHORITY}), max_size=3)),
        "tools": draw(
            st.dictionaries(
                TOOLS,
                st.fixed_dictionaries(
                    {},
                    optional={
                        "effect": st.sampled_from(["read", "write", "destructive"]),
                        "permissions": AUTHORITY,
                        "repeat": st.sampled_from(["hold", "replay", "new"]),
                        "cost": st.integers(0, 3),
                        "failures": st.just({"conflict": ["result.code == 409"]}),
                        "compensation": st.just({"tool": "undo"}),
                    },
                ),
                max_size=4,
            )
        ),
        "phases": {name: {"ends": "infeasible"} if name in ended else {} for name in NAMES},
        "transitions": [
            {"name": f"t{at}", **one} for at, one in enumerate(draw(st.lists(transition, min_size=1, max_size=5)))
        ],
        "forbid": [{"name": f"f{at}", **one} for at, one in enumerate(draw(st.lists(forbid, max_size=3)))],
        "verifiers": verifiers,
        "accounts": draw(
            st.dictionaries(
                st.sampled_from(NAMES),
                st.fixed_dictionaries({}, optional={"tools": st.lists(TOOLS, max_size=2), "limit": LIMITS}),
                max_size=2,
            )
        ),
        "values": draw(st.dictionaries(st.sampled_from(NAMES), st.integers(), max_size=2)),
        "budgets": draw(LIMITS),
    }
    succeeds: bool = draw(st.booleans())
    if verifiers and succeeds:
        whole["success"] = {"evidence": draw(st.lists(known, min_size=1, max_size=2)), "phase": draw(PHASE)}
    return Policy.model_validate(whole)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policies())
def test_every_policy_has_an_answer_about_places_that_it_has(policy: Policy) -> None:
    written = policy.model_dump(mode="json", by_alias=True)
    found = findings(policy)
    for it in found:
        assert it.code in CODES
        assert it.message[0] not in " .", it
        assert not it.message.endswith("."), it
        for place in (it.place, *it.related):
            _at(written, place)
    assert len(set(found)) == len(found)
    assert found == findings(policy)


def _at(written: Any, place: Place) -> Any:
    for step in place:
        written = written[step]
    return written


def taken(policy: Policy, name: str, phase: str, principal: str, args: dict[str, Any]) -> int | None:
    """The transition under which the call would be made, as the kernel's own checks choose it."""
    rules = compile_rules(policy, digest(policy.workflow, b""))
    run = world.opened(rules)._replace(phase=phase, principal=Principal(principal))
    proposal = replace(world.proposal(name, args), principal=Principal(principal))
    tool = world.tool(name, read=True)
    case = Case(run, proposal, rules, Observed(tool), utc(world.T0), rules.ruled(tool))
    for check in ("tool", "schema", "phase", "authority", "conditions"):
        step = CHECKS[check](case)
        if not isinstance(step, Pass):
            return None
        case = case._replace(candidates=case.candidates if step.candidates is None else step.candidates)
    return policy.transitions.index(case.candidates[0])


def agrees(policy: Policy, phase: str, at: int | None) -> None:
    """What is taken was said to be possible."""
    facts = Facts(policy)
    if at is not None and policy.phases[phase].ends is None:  # elsewhere the run is over
        assert facts.why.get(at) is None
        if phase in facts.reached:
            assert at in dict(facts.live)


ARGS = st.sampled_from([{}, {"x": 1}, {"x": 2}])


@settings(max_examples=75, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(policies(expressions=RIGHT), st.sampled_from(["a", "b", "axb", "delete_a"]), PHASE, TOOLS, ARGS)
def test_what_is_said_never_to_be_taken_is_taken_by_no_call(
    policy: Policy, name: str, phase: str, principal: str, args: dict[str, Any]
) -> None:
    agrees(policy, phase, taken(policy, name, phase, principal, args))


CLOSE = st.fixed_dictionaries(
    {"tools": st.sampled_from([["a"], ["a*"], ["b"]]), "authority": AUTHORITY},
    optional={
        "when": st.sampled_from(
            [["args.x == 1"], ["args.x == 2"], ["1 > 2"], ["true"], ["args.x == 2", "args.x == 1"]]
        ),
        "effect": EFFECTS,
        "from": st.lists(PHASE, max_size=2),
        "to": PHASE,
    },
)


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(CLOSE, min_size=2, max_size=4),
    st.lists(st.fixed_dictionaries({"principal": st.just("a*"), "authority": AUTHORITY}), max_size=1),
    PHASE,
    ARGS,
)
def test_rules_that_are_close_to_one_another_hide_no_other_one_that_is_taken(
    transitions: list[dict[str, Any]], grants: list[dict[str, Any]], phase: str, args: dict[str, Any]
) -> None:
    policy = Policy.model_validate(
        {
            "workflow": "w",
            "phases": {name: {} for name in NAMES},
            "grants": grants,
            "transitions": [{"name": f"t{at}", **one} for at, one in enumerate(transitions)],
        }
    )
    agrees(policy, phase, taken(policy, "a", phase, "ab", args))


def test_a_large_policy_is_looked_at_in_seconds() -> None:
    phases = [f"p{at}" for at in range(50)]
    verifiers = {f"v{at}": verifier("look_*", "result.ok == true") for at in range(6)}
    rules = [
        rule(
            f"t{at}",
            f"server{at % 7}__*_{at % 11}",
            f"server{at % 5}__tool_{at}",
            **{"from": [phases[at % 50], phases[(at * 7) % 50]]} if at % 3 else {},
            to=phases[(at * 3 + 1) % 50],
            when=[f"args.x == {at % 20}"] if at % 2 else [],
            authority=[f"a{at % 9}"],
            **({"verify": f"v{at % 6}"} if at % 4 == 0 else {}),
        )
        for at in range(200)
    ]
    policy = Policy.model_validate(
        {
            "workflow": "large",
            "grants": [{"principal": f"p{at}*", "authority": [f"a{at % 9}", f"a{(at + 1) % 9}"]} for at in range(50)],
            "tools": {f"server{at % 7}__*{at}": {"cost": 1, "permissions": [f"a{at % 9}"]} for at in range(200)},
            "phases": {name: {} for name in phases},
            "transitions": rules,
            "forbid": [rule(f"f{at}", f"server{at % 7}__tool_{at}*", when=["args.y == 1"]) for at in range(50)],
            "verifiers": verifiers,
            "success": {"evidence": list(verifiers), "phase": "p49"},
            "budgets": {"calls": 1000, "mutations": 1000, "tokens": 1000, "cost": 1000, "reviews": 1000},
        }
    )
    started = time.process_time()
    assert findings(policy)
    assert time.process_time() - started < 20  # CPU seconds; one or two of them here
