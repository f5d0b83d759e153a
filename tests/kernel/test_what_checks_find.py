"""What each check says when it refuses, whole: to the agent, to whoever looks later, and to who judges it again."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.case import Gather, Observed
from gateway.kernel.decide import decide
from gateway.kernel.registry import pin
from gateway.kernel.rules import Rules
from gateway.model.canonical import digest
from gateway.model.events import (
    AttemptAbandoned,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Finding,
    IntentRecorded,
    Outcome,
    OutcomeDelivered,
    RunStopped,
    Verdict,
)
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal, Resume
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import Tool
from tests import world
from tests.kernel.test_decide import (
    GUARDED,
    MINE,
    PHASED,
    TOOLS,
    WRITE,
    as_opened,
    intended,
    judge,
    receipt,
    with_write,
)

ROUND, SAID = digest("asked", world.SALT), digest("said", world.SALT)
WAITS = AttemptSuspended(attempt="run_1.2", awaits="input", answer=ROUND, expires_at=utc(world.T0))
NEXT_ROUND = replace(WRITE, resumes=Resume("run_1.2", ROUND, SAID))
UNDER_WAY = "this call is under way"


def refusal(
    check: str,
    outcome: str,
    reason: str,
    *,
    rule: str | None = None,
    retry_after_s: float | None = None,
    final: bool = False,
    attempt: str | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """What a refusal says."""
    return {
        "check": check,
        "outcome": outcome,
        "reason": reason,
        "rule": rule,
        "retry_after_s": retry_after_s,
        "final": final,
        "attempt": attempt,
        "inputs": dict(inputs or {}),
    }


def said(verdict: Verdict) -> dict[str, Any]:
    """The same of a verdict. Its last finding says what it says."""
    last = verdict.checks[-1]
    assert not last.passed
    assert last.reason == getattr(verdict, "reason", None)
    fields = ("outcome", "rule", "retry_after_s", "final", "attempt")
    told = {name: getattr(verdict, name, None) for name in fields}
    assert last.rule == told["rule"]
    return refusal(
        last.check,
        str(told["outcome"]),
        last.reason or "",
        rule=told["rule"],
        retry_after_s=told["retry_after_s"],
        final=bool(told["final"]),
        attempt=told["attempt"],
        inputs=last.inputs,
    )


ONLY_READ = {"transitions": [{"name": "r", "tools": ["read"]}]}
SEEN = {"effect": "write", "inferred": None, "definition": None}
DEFINED = {name: digest(dict(one.definition), world.SALT) for name, one in TOOLS.items()}
VERIFYING = {
    "verifiers": {"t": {"probe": {"tool": "check"}, "pass": ["true"]}},
    "transitions": [{"name": "any", "tools": ["*"], "verify": "t"}],
}
ROWS: dict[str, tuple[dict[str, Any], Callable[[Run, Rules], Run], Proposal, dict[str, Any]]] = {
    "a key with other arguments": (
        {}, with_write(receipt()), world.proposal("write", {"path": "b"}, key=WRITE.key),
        refusal("key", "conflict", "the key `call-1` was used with other arguments",
                inputs={"attempt": "run_1.2"})),
    "a call under way": (
        {}, with_write(), WRITE, refusal("key", "in_flight", UNDER_WAY, attempt="run_1.2", retry_after_s=2.0)),
    "an unknown one": (
        {}, with_write(AttemptUnknown(attempt="run_1.2", reason="t")), WRITE,
        refusal("key", "held", "whether this call happened is not known yet; it is not sent again", attempt="run_1.2")),
    "one that is being verified": (
        VERIFYING, with_write(receipt()), WRITE,
        refusal("key", "in_flight", "this call is being verified", attempt="run_1.2", retry_after_s=2.0)),
    "a round of an attempt that nobody knows": (
        {}, as_opened, NEXT_ROUND, refusal("round", "conflict", "this run knows no such attempt")),
    "a round of another call": (
        {}, with_write(WAITS), replace(NEXT_ROUND, tool="pay"),
        refusal("round", "conflict", "the input belongs to a call with another tool or other arguments")),
    "a round of which the call is under way": (
        {}, with_write(), NEXT_ROUND,
        refusal("round", "in_flight", UNDER_WAY, attempt="run_1.2", retry_after_s=2.0)),
    "another round than the one that is asked for": (
        {}, with_write(WAITS.model_copy(update={"answer": SAID})), NEXT_ROUND,
        refusal("round", "in_flight", UNDER_WAY, attempt="run_1.2", retry_after_s=2.0)),
    "a round of a task": (
        {}, with_write(WAITS.model_copy(update={"awaits": "task"})), NEXT_ROUND,
        refusal("round", "in_flight", UNDER_WAY, attempt="run_1.2", retry_after_s=2.0)),
    "a round that is being verified": (
        VERIFYING, with_write(receipt()), NEXT_ROUND,
        refusal("round", "in_flight", UNDER_WAY, attempt="run_1.2", retry_after_s=2.0)),
    "a round that came too late to be known": (
        {}, with_write(AttemptUnknown(attempt="run_1.2", reason="t")), NEXT_ROUND,
        refusal("round", "held", "the input came too late: whether this call happened is not known",
                attempt="run_1.2")),
    "a round of an attempt that is over": (
        {}, with_write(AttemptUnsent(attempt="run_1.2", reason="t")), NEXT_ROUND,
        refusal("round", "conflict", "the input came too late: that attempt is over")),
    "a run that is over": (
        {}, lambda run, _: world.after(run, RunStopped(outcome=Outcome.INFEASIBLE, reason="no way", rule="phases.no")),
        WRITE, refusal("run", "infeasible", "no way", rule="phases.no")),
    "a run of somebody else": (
        {}, as_opened, replace(WRITE, principal=Principal("local:user", tenant="other")),
        refusal("run", "denied", "run `run_1` belongs to another principal", rule="run.principal")),
    "a tool that nobody offers": (
        {}, as_opened, world.proposal("n" * 200),
        refusal("tool", "denied", f"no upstream offers a tool named `{'n' * 128}`", inputs={"tool": None})),
    "a forbidden tool that nobody offers": (
        {"forbid": [{"name": "other", "when": ["args.n > 3"]},
                    {"name": "no", "when": ["args.n > 1"], "reason": "why"}]},
        as_opened, world.proposal("gone", {"n": 2}), refusal("tool", "denied", "why", rule="no")),
    "a tool that no transition names": (
        ONLY_READ, as_opened, WRITE,
        refusal("tool", "denied", "no transition of this policy allows `write`, a write tool", rule="default-deny",
                inputs=SEEN | {"definition": DEFINED["write"]})),
    "a forbidden tool that no transition names": (
        ONLY_READ | {"forbid": [{"name": "no", "when": ["args.path == 'a'"], "reason": "why"}]}, as_opened, WRITE,
        refusal("tool", "denied", "why", rule="no")),
    "a phase": (
        PHASED | {"stops": {"final_denials": ["phase"]}}, as_opened, WRITE,
        refusal("phase", "denied", "`write` is not legal in phase `look`; it is in `change`", rule="writing",
                final=True, inputs={"phase": "look", "legal_in": ["change"]})),
    "authority": (
        {"tools": {"write": {"effect": "write", "permissions": ["files"]}},
         "grants": [{"authority": ["b"]}],
         "transitions": [{"name": "w", "tools": ["*"], "authority": ["a", "b"]}],
         "stops": {"final_denials": ["authority"]}}, as_opened, WRITE,
        refusal("authority", "denied", "`local:user` lacks the authority `a`, `files`", rule="w", final=True,
                inputs={"held": ["b"], "lacking": ["a", "files"]})),
    "conditions": (
        {"transitions": [{"name": "w", "tools": ["*"], "when": ["true", "args.path == 'b'"]}],
         "stops": {"final_denials": ["conditions"]}}, as_opened, WRITE,
        refusal("conditions", "denied", "the condition `args.path == 'b'` does not hold", rule="w", final=True,
                inputs={"unmet": {"w": "the condition `args.path == 'b'` does not hold"}})),
    "conditions that are met by one for which the authority is not there": (
        {"transitions": [{"name": "w", "tools": ["*"], "when": ["args.path == 'b'"]},
                         {"name": "x", "tools": ["*"], "authority": ["a"]}]}, as_opened, WRITE,
        refusal("conditions", "denied", "`local:user` lacks the authority `a`", rule="x",
                inputs={"unmet": {"w": "the condition `args.path == 'b'` does not hold",
                                  "x": "`local:user` lacks the authority `a`"}})),
    "a condition that cannot be judged after one that fits": (
        {"transitions": [{"name": "x", "tools": ["*"], "authority": ["a"], "approval": {}},
                         {"name": "w", "tools": ["*"], "when": ["args.gone == 'b'"]}, {"name": "z", "tools": ["*"]}],
         "stops": {"final_denials": ["authority"]}}, as_opened, WRITE,
        refusal("conditions", "denied", "`local:user` lacks the authority `a`",
                rule="x", inputs={"unmet": {
                    "x": "`local:user` lacks the authority `a`",
                    "w": "the condition `args.gone == 'b'` cannot be judged: `args.gone` is missing"}})),
    "what is forbidden": (
        {"forbid": [{"name": "other", "when": ["args.path == 'b'"]}, {"name": "reads", "effect": ["read"]},
                    {"name": "no", "when": ["args.gone == 1"], "reason": "why", "final": True}]}, as_opened, WRITE,
        refusal("conditions", "denied",
                "why: the condition `args.gone == 1` cannot be judged: `args.gone` is missing", rule="no", final=True)),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS)
def test_a_refusal_says_all_that_it_knows(row: str) -> None:
    fields, happened, proposed, expected = ROWS[row]
    rules = world.rules(**fields)
    assert said(judge(happened(world.opened(rules), rules), rules, proposed)) == expected


DESCRIBED = {**TOOLS["write"].definition, "description": "x"}
UNUSABLE: dict[str, tuple[dict[str, Any], Tool, dict[str, Any]]] = {
    "withheld for its name": (
        {}, replace(TOOLS["write"], healthy=False, withheld=True, trouble="it looks like `write`"),
        refusal("tool", "tool_withheld", "`write` is withheld: it looks like `write`", rule="name", inputs=SEEN)),
    "not there": (
        {}, replace(TOOLS["write"], healthy=False, trouble="it is down"),
        refusal("tool", "upstream_unavailable", "the upstream `fake` cannot be called: it is down",
                retry_after_s=2.0, inputs=SEEN)),
    "not there, nobody knows why": (
        {}, replace(TOOLS["write"], healthy=False),
        refusal("tool", "upstream_unavailable", "the upstream `fake` cannot be called: it does not answer",
                retry_after_s=2.0, inputs=SEEN)),
    "there, and its principal has no account": (
        {}, replace(TOOLS["write"], healthy=False, trouble="connect one", needs_account=True),
        refusal("tool", "needs_account", "the upstream `fake` cannot be called: connect one",
                retry_after_s=60.0, inputs=SEEN)),
    "not pinned": (
        {"unpinned": "withhold"}, TOOLS["write"],
        refusal("tool", "tool_withheld", "`write` is withheld: nobody has pinned it", rule="pin",
                inputs={"changed": []} | SEEN)),
    "changed": (
        {"pins": {"write": {"digest": pin(DESCRIBED), "definition": DESCRIBED}}},
        TOOLS["write"],
        refusal("tool", "tool_withheld", "`write` is withheld: since it was pinned, its `description` changed",
                rule="pin", inputs={"changed": ["description"]} | SEEN)),
    "with a schema that no arguments keep": (
        {}, world.tool("write", schema={"type": "object", "required": ["a", "b"]}),
        refusal("schema", "invalid_arguments",
                "(root): the property `a` is required (and 1 more)",
                inputs={"violations": [
                    {"path": "(root)", "expected": f"the property `{name}` is required"} for name in "ab"]})),
}  # fmt: skip


@pytest.mark.parametrize("row", UNUSABLE)
def test_a_tool_that_cannot_be_used_says_why(row: str) -> None:
    fields, tool, expected = UNUSABLE[row]
    rules = world.rules(**fields)
    found = said(judge(world.opened(rules), rules, WRITE, tool=tool))
    found["inputs"] = {name: value for name, value in found["inputs"].items() if name != "pin"}
    seen = {"definition": digest(dict(tool.definition), world.SALT)} if expected["check"] == "tool" else {}
    assert found == expected | {"inputs": expected["inputs"] | seen}


def test_a_schema_that_cannot_be_enforced_withholds_the_tool_and_says_why() -> None:
    rules = world.rules()
    tool = world.tool("write", schema={"$ref": "https://nowhere.test/x"})
    found = said(judge(world.opened(rules), rules, WRITE, tool=tool))
    assert (found["check"], found["outcome"], found["rule"]) == ("schema", "tool_withheld", None)
    assert found["reason"].startswith("the tool's schema cannot be enforced: ")
    assert "None" not in found["reason"]


def finding(verdict: Verdict, check: str) -> Finding:
    return next(one for one in verdict.checks if one.check == check)


def passes(fields: dict[str, Any], *happened: Any, proposed: Proposal = WRITE, tool: Tool | None = None) -> Verdict:
    """The verdict, of which no check has refused."""
    rules = world.rules(**fields)
    run = world.opened(rules)
    run = with_write(*happened)(run, rules) if happened else run
    verdict = judge(run, rules, proposed, tool=tool)
    assert all(one.passed for one in verdict.checks)
    return verdict


def test_what_passes_says_what_was_looked_at() -> None:
    verdict = passes(PHASED, proposed=world.proposal("read"))
    told = {one.check: one.inputs for one in verdict.checks}
    assert told["tool"] == {"effect": "read", "inferred": None, "definition": DEFINED["read"]}
    assert told["phase"] == {"phase": "look"}
    assert told["authority"] == {"held": []}
    assert told["conditions"] == {"unmet": {}}
    again = passes({}, receipt(), OutcomeDelivered(attempt="run_1.2"), proposed=replace(WRITE, key=MINE))
    assert finding(again, "key") == Finding(check="key", passed=True)
    again = passes({}, receipt(), OutcomeDelivered(attempt="run_1.2"), proposed=replace(WRITE, key=None))
    assert finding(again, "key") == Finding(check="key", passed=True, inputs={"earlier": "run_1.2"})
    small = passes(GUARDED, proposed=world.proposal("pay", {"amount": 1}))
    unmet = {"large": "the condition `args.amount > 100` does not hold"}
    assert finding(small, "conditions") == Finding(check="conditions", passed=True, inputs={"unmet": unmet})
    bare = replace(TOOLS["write"], definition={"name": "write"})
    assert finding(passes({}, tool=bare), "schema") == Finding(check="schema", passed=True, inputs={"schema": None})


def test_the_next_round_says_which_it_is() -> None:
    verdict = passes({}, WAITS, proposed=NEXT_ROUND)
    assert verdict.kind == "attempt.resumed"
    assert [one.check for one in verdict.checks] == [
        "round", "run", "tool", "schema", "phase", "authority", "conditions", "approval",
    ]  # fmt: skip
    assert verdict.checks[0] == Finding(check="round", passed=True, inputs={"attempt": "run_1.2", "round": ROUND})


def test_a_run_ends_with_its_authorization_and_at_its_deadline() -> None:
    rules = world.rules(stops={"deadline_s": 10})
    run = world.opened(rules)
    at = run._replace(expires_at=utc(world.T0 + 0.5))
    assert finding(judge(at, rules, WRITE, after_s=0.25), "run").inputs == {"elapsed_s": 0.25}
    expired = refusal("run", "denied", "the run's authorization expired at 2027-01-15T08:00:00+00:00")
    assert said(judge(at, rules, WRITE, after_s=0.5)) == expired
    late = "the run had 10 s and is 10 s old"
    missed = refusal("run", "deadline_missed", late, rule="stops.deadline_s", final=True)
    assert said(judge(run, rules, WRITE, after_s=10)) == missed
    shared = world.opened(rules, origin="default")
    denied = refusal("run", "denied", late, rule="stops.deadline_s")
    assert said(judge(shared, rules, WRITE, after_s=10)) == denied


def test_one_thing_that_is_wrong_with_the_arguments_is_told_alone() -> None:
    rules = world.rules()
    found = said(judge(world.opened(rules), rules, WRITE, tool=world.tool("write", schema={"required": ["a"]})))
    assert found["reason"] == "(root): the property `a` is required"


def test_a_tool_that_is_defined_anew_is_cited_as_it_is_now() -> None:
    rules = world.rules()
    run = world.opened(rules)
    for name in "ab":
        tool = world.tool("write", description=name)
        verdict = judge(run, rules, WRITE, tool=tool)
        assert finding(verdict, "tool").inputs["definition"] == digest(dict(tool.definition), world.SALT)


def test_what_is_told_once_for_a_tool_is_cited_under_each_digest_of_its_definition() -> None:
    rules = world.rules()
    run = world.opened(rules)
    for salt in (b"a", b"b"):
        found = decide(run, WRITE, rules, Observed(TOOLS["write"], digest(1, salt)), utc(world.T0))
        assert not isinstance(found, Gather)
        assert finding(found, "tool").inputs["definition"] == digest(1, salt)


def test_a_ceiling_is_told_with_the_authority_that_it_takes() -> None:
    rules = world.rules(
        grants=[{"authority": ["b"]}], transitions=[{"name": "w", "tools": ["*"], "authority": ["a"]}]
    )  # fmt: skip
    run = world.opened(rules)
    assert said(judge(run, rules, WRITE))["reason"] == "`local:user` lacks the authority `a`"
    observed = Observed(TOOLS["write"], parent="running")
    child = run._replace(delegated=frozenset("a"), parent="run_0")
    found = decide(child, WRITE, rules, observed, utc(world.T0))
    assert not isinstance(found, Gather)
    assert said(found)["reason"] == "`local:user` lacks the authority `a` in a run that `run_0` opened"
    assert said(found)["inputs"] == {"held": [], "lacking": ["a"]}


OBSERVED: dict[str, tuple[dict[str, Any], tuple[str | None, tuple[str, ...]]]] = {
    "a tool that nobody names, with a permission that nobody has": (
        ONLY_READ | {"mode": "observe", "tools": {"write": {"effect": "write", "permissions": ["files"]}}},
        (None, ("tool", "authority"))),
    "a forbid rule, and the second transition": (
        {"transitions": [{"name": "a", "tools": ["*"], "when": ["args.path == 'b'"]}, {"name": "b", "tools": ["*"]}],
         "forbid": [{"name": "no", "mode": "observe"}]}, ("b", ("conditions",))),
}  # fmt: skip


@pytest.mark.parametrize("row", OBSERVED)
def test_what_is_only_observed_passes_under_the_right_transition(row: str) -> None:
    fields, (transition, waived) = OBSERVED[row]
    rules = world.rules(**fields)
    verdict = judge(world.opened(rules), rules, WRITE)
    assert isinstance(verdict, IntentRecorded)
    assert (verdict.transition, verdict.waived) == (transition, waived)


def test_a_transition_that_binds_binds_in_a_policy_that_only_observes() -> None:
    bound = {"name": "writing", "tools": ["write"], "from": ["change"], "mode": "enforce"}
    rules = world.rules(mode="observe", **PHASED | {"transitions": [bound]})
    assert said(judge(world.opened(rules), rules, WRITE))["check"] == "phase"


def test_an_abandoned_read_is_no_round_any_more() -> None:
    rules = world.rules()
    read = world.proposal("read")
    run = world.after(intended(world.opened(rules), rules, read), AttemptAbandoned(attempt="run_1.2", reason="t"))
    found = judge(run, rules, replace(read, resumes=Resume("run_1.2", ROUND, SAID)))
    assert said(found)["reason"] == "the input came too late: that attempt is over"
