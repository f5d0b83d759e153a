"""What a policy and a definition together say of a tool, what may be done with it, and what conditions may read."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel import rules as kept
from gateway.kernel.case import Case, Observed
from gateway.kernel.globs import names
from gateway.kernel.registry import changed_parts, is_pinned, pin, registered
from gateway.kernel.rules import Rules, authority_of, forbids_for, held_by, transitions_for
from gateway.kernel.values import values_of
from gateway.model.canonical import digest
from gateway.model.events import Charge, Effect, EvidenceRecorded
from gateway.model.principal import Principal
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import Tool
from tests import world
from tests.kernel.test_decide import TOOLS, WRITE

BARE = Tool("s__look", "s", "look", {"name": "look"})


def annotated(name: str = "look", schema: Any = None, **hints: Any) -> Tool:
    return Tool(f"s__{name}", "s", name, {"name": name, "annotations": hints, "inputSchema": schema})


GUESSES: dict[str, tuple[Tool, dict[str, Any], tuple[str, str, str], dict[str, str]]] = {
    "nothing": (
        BARE, {}, ("write", "none", "no"),
        {"effect": "nothing says that it only reads", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "a name": (
        annotated("drop_table"), {}, ("destructive", "none", "no"),
        {"effect": "its name says `drop`", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "a claim to destroy": (
        annotated(destructiveHint=True, readOnlyHint=True), {}, ("destructive", "none", "no"),
        {"effect": "the server claims destructiveHint", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "claims that are trusted": (
        annotated(readOnlyHint=True), {"annotations": "trust"}, ("read", "natural", "yes"),
        {"effect": "the server claims readOnlyHint", "idempotency": "it only reads", "reversible": "it only reads"}),
    "claims that are not": (
        annotated(readOnlyHint=True, idempotentHint=True), {}, ("write", "none", "no"),
        {"effect": "the server claims readOnlyHint, and `annotations: tighten` does not believe it",
         "idempotency": "the server claims idempotentHint, and `annotations: tighten` does not believe it",
         "reversible": "nothing says how to undo it"}),
    "a repetition that is trusted": (
        annotated(idempotentHint=True), {"annotations": "trust"}, ("write", "natural", "no"),
        {"effect": "nothing says that it only reads", "idempotency": "the server claims idempotentHint",
         "reversible": "nothing says how to undo it"}),
    "claims that are no booleans": (
        annotated(readOnlyHint="yes", idempotentHint=1, destructiveHint=1), {"annotations": "trust"},
        ("write", "none", "no"),
        {"effect": "nothing says that it only reads", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "a program": (
        annotated(schema={"properties": {"x": {}, "SQL": {}}}), {}, ("destructive", "none", "no"),
        {"effect": "its argument `SQL` may say anything", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "arguments that are no program": (
        annotated(schema={"properties": {"path": {}, "SQLs": {}}}), {}, ("write", "none", "no"),
        {"effect": "nothing says that it only reads", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "a schema that is none": (
        annotated(schema={"properties": ["sql"]}), {}, ("write", "none", "no"),
        {"effect": "nothing says that it only reads", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "a name that looks like another": (
        annotated("l\u043eok"), {}, ("destructive", "none", "no"),
        {"effect": "its name may look like another one", "idempotency": "nothing says that twice is as once",
         "reversible": "nothing says how to undo it"}),
    "all that policy says": (
        annotated("drop_table"),
        {"tools": {"s__*": {"effect": "write", "idempotency": {"kind": "natural"}, "reversible": "yes"}}},
        ("write", "natural", "yes"), {}),
    "a compensation": (
        annotated("drop_table"), {"tools": {"s__*": {"effect": "write", "compensation": {"tool": "undo"}}}},
        ("write", "none", "compensate"),
        {"idempotency": "nothing says that twice is as once", "reversible": "policy names a compensation"}),
    "a read of policy's": (
        BARE, {"tools": {"s__*": {"effect": "read"}}}, ("read", "natural", "yes"),
        {"idempotency": "it only reads", "reversible": "it only reads"}),
}  # fmt: skip


@pytest.mark.parametrize("row", GUESSES)
def test_what_policy_does_not_say_is_inferred_with_its_reason(row: str) -> None:
    tool, fields, (effect, idempotency, reversible), guesses = GUESSES[row]
    found = registered(tool, world.policy(**{"tools": {}} | fields))
    assert (found.effect, found.idempotency, found.reversible) == (Effect(effect), idempotency, reversible)
    assert found.guesses == guesses
    assert found.inferred == guesses.get("effect")
    assert found.pattern == next(iter(fields.get("tools", {})), None)


def test_the_first_entry_that_names_a_tool_counts() -> None:
    policy = world.policy(tools={"x": {"cost": 1}, "s__*": {"cost": 2}, "*": {"cost": 3}})
    found = registered(BARE, policy)
    assert (found.rule.cost, found.pattern) == (2, "s__*")


def test_a_tool_is_as_pinned_if_all_that_is_pinned_is_the_same() -> None:
    pinned: dict[str, Any] = {"name": "look", "description": "a", "inputSchema": {"n": 1}}
    pins = {"pins": {"s__look": {"digest": pin(pinned), "definition": pinned}}}
    policy = world.policy(**pins)
    for changes, parts in (
        ({}, ()),
        ({"_meta": 1, "icons": []}, ()),
        ({"description": "b"}, ("description",)),
        ({"inputSchema": {"n": 1.0}}, ("inputSchema",)),
        ({"title": None}, ("title",)),
        ({"annotations": {}, "outputSchema": {}}, ("outputSchema", "annotations")),
    ):
        tool = replace(BARE, definition=pinned | changes)
        assert changed_parts(tool, policy) == parts
        assert is_pinned(tool, policy) is (not parts)
    gone = replace(BARE, definition={"name": "look", "inputSchema": {"n": 1}})
    assert changed_parts(gone, policy) == ("description",)
    assert changed_parts(replace(BARE, name="other"), policy) == ()
    for unpinned, allowed in (("allow", True), ("withhold", False)):
        assert is_pinned(replace(BARE, name="other"), world.policy(**pins, unpinned=unpinned)) is allowed


@pytest.mark.parametrize(
    ("pattern", "name", "fits"),
    [
        ("a", "a", True), ("a", "b", False), ("a", "aa", False), ("*", "", True), ("a*", "a", True),
        ("a*", "ba", False), ("*a", "ba", True), ("*a", "ab", False), ("a*a", "a", False), ("a*a", "aa", True),
        ("a*b*c", "a1b2c", True), ("a*b*c", "acb", False), ("a*b*c", "abc", True), ("*ab*ab*", "xxab", False),
        ("*ab*ab*", "abab", True), ("a*b*b", "ab", False), ("a**b", "ab", True), ("?", "a", False),
        ("a*ab*b", "aab", False), ("a*ab*b", "aabb", True), ("A*", "a", False),
    ],
)  # fmt: skip
def test_a_pattern_fits_whole_names(pattern: str, name: str, fits: bool) -> None:  # noqa: FBT001
    assert names(pattern, name) is fits


CHARGES: dict[str, tuple[dict[str, Any], dict[str, Any] | None, Charge]] = {
    "a write": ({"effect": "write"}, {}, Charge(calls=1, mutations=1)),
    "a read": ({"effect": "read"}, {}, Charge(calls=1)),
    "the tool's own": (
        {"effect": "write", "cost": 0.1, "result_tokens": 9}, {},
        Charge(calls=1, mutations=1, tokens=9, cost=100_000)),
    "the transition's": (
        {"effect": "read", "cost": 0.1, "result_tokens": 9},
        {"calls": 2, "mutations": 3, "tokens": 0, "cost": 0.0}, Charge(calls=2, mutations=3)),
    "no transition": ({"effect": "write", "cost": 0.1}, None, Charge(calls=1, mutations=1, cost=100_000)),
}  # fmt: skip


@pytest.mark.parametrize("row", CHARGES)
def test_a_call_takes_what_its_transition_says_or_else_its_tool(row: str) -> None:
    about, charge, expected = CHARGES[row]
    rules = world.rules(
        tools={"pay": about},
        transitions=[{"name": "a", "tools": ["pay"], "charge": charge or {}}, {"name": "b", "tools": ["pay"]}],
    )
    ruled = rules.ruled(TOOLS["pay"])
    assert ruled.charge(None if charge is None else rules.policy.transitions[0]) == expected
    assert ruled.charge(None if charge is None else rules.policy.transitions[0]) == expected


def test_rules_are_about_the_tools_that_they_name_and_of_their_effects() -> None:
    told = [
        {"name": "all", "tools": ["*"]},
        {"name": "named", "tools": ["x", "pa*"]},
        {"name": "reads", "tools": ["*"], "effect": ["read"]},
        {"name": "writes", "tools": ["*"], "effect": ["read", "write"]},
    ]
    policy = world.policy(transitions=told, forbid=[one | {"name": f"no-{one['name']}"} for one in told])
    pay = registered(TOOLS["pay"], policy)
    assert [one.name for one in transitions_for(policy, pay)] == ["all", "named", "writes"]
    for effect, names_of in (
        (Effect.WRITE, ["no-all", "no-named", "no-writes"]),
        (Effect.DESTRUCTIVE, ["no-all", "no-named"]),
        (None, ["no-all", "no-named", "no-reads", "no-writes"]),
    ):
        assert [one.name for one in forbids_for(policy, "pay", effect)] == names_of
    assert [one.name for one in forbids_for(policy, "other", Effect.READ)] == ["no-all", "no-reads", "no-writes"]


@pytest.mark.parametrize(
    ("grant", "has"),
    [
        ({}, True),
        ({"principal": "local:*"}, True),
        ({"principal": "local:o*"}, False),
        ({"tenant": "acme"}, True),
        ({"tenant": "other"}, False),
        ({"roles": ["r"]}, True),
        ({"roles": ["r", "q"]}, False),
        ({"scopes": ["s"]}, True),
        ({"scopes": ["s", "t"]}, False),
    ],
)
def test_a_grant_is_for_whoever_fits_all_of_it(grant: dict[str, Any], has: bool) -> None:  # noqa: FBT001
    policy = world.policy(grants=[{"authority": ["a", "b"]} | grant, {"principal": "nobody", "authority": ["c"]}])
    who = Principal(id="local:user", tenant="acme", roles=frozenset("r"), scopes=frozenset("s"))
    held = frozenset("ab") if has else frozenset()
    assert authority_of(policy, who) == held
    assert held_by(policy, who, None) == held
    assert held_by(policy, who, frozenset("bc")) == held & {"b"}
    assert held_by(policy, who, frozenset()) == frozenset()


def test_what_is_kept_of_tools_is_forgotten_when_it_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MAX_TOOLS", 3)
    rules = world.rules()
    for at in range(10):
        rules.ruled(world.tool(f"t{at}"))
        assert len(rules._ruled) == at % 3 + 1
    first = rules.ruled(world.tool("t9"))
    assert first is not rules.ruled(world.tool("t9")), "another object, another definition"
    monkeypatch.setattr(kept, "MAX_FOUND", 2)
    for at in range(6):
        assert rules.once(at, lambda: "first") == "first"
        assert rules.once(at, lambda: "other") == "first"
        assert len(rules._found) == at % 2 + 1


# --- what conditions may read ---------------------------------------------------------------------------------------


def reading(*conditions: str, **fields: Any) -> tuple[Rules, Run]:
    rules = world.rules(transitions=[{"name": "t", "tools": ["*"], "when": list(conditions)}], **fields)
    return rules, world.opened(rules)


def values(rules: Rules, run: Run, levels: Any = None, **changes: Any) -> dict[str, Any]:
    """What may be read about `WRITE`, a quarter of a minute after the run was opened."""
    ruled = rules.ruled(TOOLS["write"])
    observed = Observed(TOOLS["write"], levels=levels)
    proposed = replace(WRITE, **changes)
    accounts = tuple((one, f"key of {one.name}") for one in ruled.accounts)
    case = Case(run, proposed, rules, observed, utc(world.T0) + timedelta(seconds=15), ruled, accounts)
    return dict(values_of(case).values)


def test_only_what_is_asked_for_is_there() -> None:
    assert values(*reading()) == {}
    assert values(*reading("args.n == 1")) == {"args": {"path": "a"}}
    assert values(*reading("now > timestamp('2027-01-01T00:00:00Z')")) == {"now": utc(world.T0) + timedelta(seconds=15)}
    assert values(*reading("values.x == 1", values={"x": 1})) == {"values": {"x": 1}}


def test_a_run_is_read_as_it_stands() -> None:
    rules, run = reading("run.calls < 9")
    spent = Charge(calls=1, mutations=2, tokens=3, cost=1_500_000, reviews=5)
    told = values(rules, run._replace(spent=spent, data=frozenset("ba"), phase="one"))
    expected = {
        "id": "run_1", "phase": "one", "workflow": "test", "calls": 1, "mutations": 2, "elapsed_s": 15.0, "tokens": 3,
        "cost": 1.5, "reviews": 5, "origin": "process", "parent": "", "data": ["a", "b"],
    }  # fmt: skip
    assert told == {f"run.{name}": value for name, value in expected.items()}
    assert values(rules, run._replace(parent="run_0"))["run.parent"] == "run_0"


def test_a_principal_is_read_with_what_it_holds_in_this_run() -> None:
    rules, run = reading("principal.id == 'x'", grants=[{"authority": ["b", "a"]}])
    who = Principal(id="local:user", tenant="acme", roles=frozenset("sr"), scopes=frozenset("ut"))
    assert values(rules, run, principal=who) == {
        "principal.id": "local:user",
        "principal.tenant": "acme",
        "principal.roles": ["r", "s"],
        "principal.scopes": ["t", "u"],
        "principal.authority": ["a", "b"],
    }
    under = values(rules, run._replace(delegated=frozenset("b")), principal=who)
    assert under["principal.authority"] == ["b"]


def test_a_tool_is_read_as_policy_knows_it() -> None:
    rules, run = reading("tool.name == 'x'", tools={"write": {"effect": "destructive", "data_class": "secret"}})
    assert values(rules, run) == {
        "tool.name": "write", "tool.upstream": "fake", "tool.effect": "destructive", "tool.data_class": "secret",
    }  # fmt: skip
    assert values(*reading("tool.name == 'x'"))["tool.data_class"] == ""


def test_of_a_tool_that_nobody_offers_the_cautious_is_read() -> None:
    rules, run = reading()
    case = Case(run, WRITE, rules, Observed(None), utc(world.T0), None)
    told = values_of(case).values
    assert {name: value for name, value in told.items() if name.startswith("tool.")} == {
        "tool.name": "write", "tool.upstream": "", "tool.effect": "write", "tool.data_class": "",
    }  # fmt: skip
    assert {"args", "run.id", "principal.id", "evidence", "accounts", "values", "now"} <= set(told)
    assert case._replace(run=run._replace(opened_at=None)).elapsed_s == 0.0


def test_evidence_is_read_with_its_scope_and_whether_it_is_fresh() -> None:
    rules, run = reading("'t' in evidence")
    proof = EvidenceRecorded(
        verifier="t", verdict="fail", says="no", started_at=utc(world.T0), after=1, signature="s", scope={"n": 1}
    )
    told = {"verdict": "fail", "fresh": True, "at": "2027-01-15T08:00:00+00:00", "says": "no", "signature": "s"}
    assert values(rules, world.after(run, proof)) == {"evidence": {"t": told | {"scope": {"n": 1}}}}
    plain = world.after(run, proof.model_copy(update={"signature": None, "scope": {}}))
    assert values(rules, plain)["evidence"]["t"]["signature"] == ""


def test_accounts_are_read_as_they_stand_with_what_is_left_of_their_limits() -> None:
    rules, run = reading(
        "accounts.d.calls < 9",
        accounts={"d": {"limit": {"calls": 3, "cost": 2.0}}, "other": {"tools": ["pay"]}},
        tools={"write": {"effect": "write", "rate": {"calls": 3}}},
    )
    stands = {"calls": 0, "mutations": 0, "tokens": 0, "cost": 0.0, "reviews": 0}
    assert values(rules, run) == {"accounts": {"d": stands | {"calls_left": 3, "cost_left": 2.0}}}
    levels = {("key of d", "calls"): 4, ("key of d", "cost"): 500_000, ("key of x", "reviews"): 9}
    assert values(rules, run, levels) == {
        "accounts": {"d": stands | {"calls": 4, "cost": 0.5, "calls_left": 0, "cost_left": 1.5}}
    }


def test_a_digest_of_a_pin_is_of_what_is_pinned_alone() -> None:
    assert pin({"name": "a", "_meta": 1}) == digest({"name": "a"}, b"")
