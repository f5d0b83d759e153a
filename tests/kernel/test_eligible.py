"""What is said to be eligible is what `decide` lets pass, as far as it can be told before there is a call."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.kernel.eligible import MAX_TOOLS, eligible
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import digest
from gateway.model.events import Denied, Effect, IntentRecorded, RunStopped
from gateway.model.principal import Principal
from gateway.model.run import Run
from gateway.model.status import Eligible
from gateway.model.tool import Tool
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import WRITE, intended

READ, PAY = world.tool("read", read=True), world.tool("pay")
OFFERED = (world.tool("write"), READ, PAY)


def ways(run: Run, rules: Rules, *tools: Tool, by: Principal = world.USER) -> dict[str, tuple[str, ...]]:
    """The tools under each transition."""
    return {one.transition: one.tools for one in eligible(run, by, rules, tools or OFFERED)[0]}


def told(**fields: Any) -> tuple[tuple[Eligible, ...], dict[str, tuple[str, ...]]]:
    """What is eligible at the beginning, and what lacks authority."""
    rules = world.rules(**fields)
    able, barred = eligible(world.opened(rules), world.USER, rules, OFFERED)
    return able, {one.transition: one.lacking for one in barred}


@made.MANY
@given(data=st.data(), fields=made.policies())
def test_what_passes_was_eligible_and_what_hangs_on_nothing_passes(data: Any, fields: dict[str, Any]) -> None:
    rules = compile_rules(world.policy(**fields), digest("policy", world.SALT))
    life = data.draw(made.lives(rules))
    proposed = data.draw(made.proposals())
    verdict = made.judge(life.run, proposed, rules, data.draw(made.seen()), life.at)
    tool = made.TOOLS[proposed.tool]
    able, _ = eligible(life.run, proposed.principal, rules, [tool])
    if isinstance(verdict, IntentRecorded) and not verdict.waived:
        assert verdict.transition in {one.transition for one in able}
    if able and not able[0].depends_on and isinstance(verdict, Denied):
        refused_by = verdict.checks[-1].check
        assert refused_by not in {"tool", "phase", "authority", "conditions", "preconditions"}, verdict
        assert refused_by != "budget" or able[0].over_budget, verdict


def test_only_what_starts_from_this_phase_is_listed_in_the_order_of_the_policy() -> None:
    rules = world.rules(
        phases={"one": {}, "two": {}},
        transitions=[
            {"name": "later", "tools": ["*"], "from": ["two"]},
            {"name": "change", "tools": ["write"], "from": ["one"], "to": "two"},
            {"name": "look", "tools": ["read"]},
        ],
    )
    assert ways(world.opened(rules), rules) == {"change": ("write",), "look": ("read",)}


def test_a_tool_stands_under_no_transition_behind_one_that_always_applies() -> None:
    some = [{"name": "first", "tools": ["write"], "when": ["args.n > 1"]}, {"name": "all", "tools": ["*"]}]
    able, _ = told(transitions=[*some, {"name": "never", "tools": ["*"]}])
    assert [(one.transition, one.tools, one.depends_on) for one in able] == [
        ("first", ("write",), ("`args.n > 1`",)),
        ("all", ("write",), ("no earlier transition applies, as `first`",)),
        ("all", ("read",), ()),
        ("all", ("pay",), ()),
    ]


def test_what_lacks_authority_is_told_apart_and_opens_no_laxer_way() -> None:
    strict = {"name": "strict", "tools": ["pay"], "authority": ["money"], "approval": {}}
    able, barred = told(transitions=[strict, {"name": "lax", "tools": ["pay"]}, {"name": "look", "tools": ["read"]}])
    assert ([one.transition for one in able], barred) == (["look"], {"strict": ("money",)})
    able, _ = told(transitions=[strict | {"when": ["args.n > 1"]}, {"name": "lax", "tools": ["pay"]}])
    assert able[0].depends_on == ("`strict`, for which authority is lacking, does not apply",)


def test_what_is_never_allowed_or_cannot_be_called_is_not_listed() -> None:
    rules = world.rules(
        forbid=[{"name": "no", "tools": ["pay"]}, {"name": "some", "tools": ["read"], "when": ["args.x == 1"]}]
    )
    dead = Tool("dead", "fake", "dead", {"inputSchema": {}}, healthy=False)
    able, _ = eligible(world.opened(rules), world.USER, rules, [*OFFERED, dead])
    assert {one.tools: one.depends_on for one in able} == {
        ("read",): ("the rule `some` does not forbid it",),
        ("write",): (),
    }


def test_what_a_call_needs_is_named() -> None:
    rules = world.rules(
        grants=[{"authority": ["pay"]}],
        budgets={"calls": 5, "mutations": 0},
        accounts={"daily": {"tools": ["pay"], "window": "day", "limit": {"calls": 1}}},
        verifiers={"t": made.VERIFIER},
        phases={"one": {}, "two": {}},
        transitions=[
            {"name": "p", "tools": ["pay"], "authority": ["pay"], "preconditions": ["t"], "verify": "t", "to": "two",
             "max_attempts": 2, "charge": {"cost_from": "1.0"}, "approval": {"when": ["args.n > 1"]}},
            {"name": "w", "tools": ["write"], "approval": {}, "retry": "never"},
        ],
    )  # fmt: skip
    pay, write = eligible(world.opened(rules), world.USER, rules, OFFERED)[0]
    assert pay.model_dump(exclude={"charge"}) == {
        "transition": "p", "tools": ("pay",), "more_tools": 0, "over_budget": ("mutations",), "authority": ("pay",),
        "approval": "perhaps", "verifiers": ("t",), "target": "two",
        "depends_on": (
            "`t` passes when it is asked", "what is left on `accounts.daily`", "its cost, `1.0`",
            "an equal call may be sent 2 times in a run",
        ),
    }  # fmt: skip
    assert (write.approval, write.depends_on) == ("always", ("an equal call may be sent 1 time in a run",))


def test_a_change_waits_for_what_moves_the_phase() -> None:
    rules = world.rules(phases={"one": {}, "two": {}}, transitions=[{"name": "any", "tools": ["*"], "to": "two"}])
    run = intended(world.opened(rules), rules, WRITE)
    able, _ = eligible(run, world.USER, rules, OFFERED)
    assert {one.tools: one.depends_on for one in able} == {
        ("read",): (),
        ("pay", "write"): ("`run_1.2` is settled first",),
    }


def test_nothing_is_eligible_once_the_run_is_over() -> None:
    rules = world.rules()
    over = RunStopped.model_validate({"outcome": "infeasible", "reason": "so"})
    assert ways(world.after(world.opened(rules), over), rules) == {}


def test_many_tools_are_counted() -> None:
    rules = world.rules(tools={"*": {"effect": Effect.READ}})
    [one] = eligible(world.opened(rules), world.USER, rules, [world.tool(f"t{n:03}") for n in range(MAX_TOOLS + 2)])[0]
    assert (len(one.tools), one.more_tools) == (MAX_TOOLS, 2)
