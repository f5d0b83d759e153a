"""What a verifier saw becomes a verdict, a scope and a signature; and conditions are held against what can be seen."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from gateway.kernel.evidence import Question, probe_arguments, settle
from gateway.kernel.fit import known_tools, misfits
from gateway.kernel.seeing import scope_of, told_apart
from gateway.model.events import EvidenceRecorded, IntentRecorded, ReceiptRecorded
from gateway.model.record import utc
from gateway.model.tool import Answer, NotSent, ToolResult
from tests import world

RULES: Mapping[str, dict[str, Any]] = {
    "tests": {"command": {"place": "repo", "run": ["pytest"], "junit": "r.xml"}, "cost": 0.25},
    "lint": {"command": {"place": "repo", "run": ["lint"], "output": {"properties": {"score": {"type": "number"}}}}},
    "paid": {"http": {"place": "shop", "path_from": "['orders', args.id]"}, "pass": ["result.json.paid == true"]},
    "row": {
        "sql": {"place": "db", "query": "select :id", "parameters_from": {"id": "args.id"}},
        "pass": ["result.count == 1"],
        "signature": ["count"],
    },
    "there": {"file": {"place": "repo", "path": "a.txt"}, "pass": ["result.exists == true"]},
    "own": {"result": {}, "pass": ["result.structuredContent.ok == true"], "signature": ["code"]},
    "second": {"probe": {"tool": "read"}, "pass": ["result.structuredContent.ok == true"], "opinion": True},
}


def evidence(name: str, answer: Answer, **arguments: Any) -> EvidenceRecorded:
    """What that verifier records of an answer about a call."""
    rules = world.rules(
        verifiers=dict(RULES),
        transitions=[{"name": "any", "tools": ["*"], "verify": name}],
        tools={"read": {"effect": "read", "noise": ["etag"]}, "write": {"effect": "write"}},
    )
    run = world.opened(rules)
    common = {"tool": "write", "policy": rules.digest, "arguments": "c1:" + "0" * 64, "transition": "any"}
    intent = IntentRecorded.model_validate(
        {
            **common,
            "attempt": "run_1.2",
            "phase": "open",
            "verifier": name,
            "effect": "write",
            "upstream": "fake",
            "charge": {"calls": 1},
            "timeout_s": 60,
            "settles_at": utc(world.T0 + 60),
            "checks": [],
            "observed": {},
            "key": None,
        }
    )
    run = world.after(run, intent, ReceiptRecorded(attempt="run_1.2", answer="result", is_error=False))
    asked = Question(name, rules.policy.verifiers[name], run.attempts["run_1.2"], run.version, run.policy)
    now = utc(world.T0)
    found = settle(run, asked, answer, None, arguments, rules, started_at=now, duration_s=1.0, now=now)
    assert isinstance(found[0], EvidenceRecorded)
    return found[0]


def report(*failed: str, skipped: int = 0, tests: int = 10) -> ToolResult:
    """What a test run looks like."""
    passed = tests - skipped - len(failed)
    told = {"tests": tests, "passed": passed, "failures": len(failed), "errors": 0, "skipped": skipped}
    return ToolResult(
        {
            "exit": 1 if failed else 0,
            "duration_s": passed / 7,
            "revision": "sha256:1",
            "junit": {**told, "failed": [*failed]},
        }
    )


def test_evidence_says_how_it_was_looked() -> None:
    seen = {
        "tests": report(),
        "lint": ToolResult({"exit": 0, "json": {"score": 1}}),
        "paid": ToolResult({"status": 200, "json": {"paid": True}}),
        "row": ToolResult({"rows": [{}], "count": 1, "truncated": False}),
        "there": ToolResult({"exists": True}),
        "own": ToolResult({"structuredContent": {"ok": True}}),
        "second": ToolResult({"structuredContent": {"ok": True}}),
    }
    found = {name: evidence(name, answer, id="7") for name, answer in seen.items()}
    assert {one.verdict for one in found.values()} == {"pass"}
    assert {name: one.source for name, one in found.items()} == {
        "tests": "command",
        "lint": "command",
        "paid": "http",
        "row": "sql",
        "there": "file",
        "own": "result",
        "second": "tool",
    }
    assert [name for name, one in found.items() if one.self_reported] == ["own"]
    assert [name for name, one in found.items() if one.opinion] == ["second"]
    assert found["tests"].cost == 250_000
    assert {name: one.scope for name, one in found.items()} == {
        "tests": {"place": "repo", "run": ["pytest"], "revision": "sha256:1"},
        "lint": {"place": "repo", "run": ["lint"]},
        "paid": {"place": "shop", "method": "GET", "path": ["orders", "7"]},
        "row": {"place": "db", "query": "select :id", "parameters": {"id": "7"}},
        "there": {"place": "repo", "path": "a.txt"},
        "own": {},
        "second": {"tool": "read", "arguments": {}},
    }


def test_equal_failures_have_equal_signatures_whatever_else_differs() -> None:
    one, same = report("a", "b"), report("a", "b", skipped=2, tests=30)
    assert evidence("tests", one).says != evidence("tests", same).says
    assert evidence("tests", one).signature == evidence("tests", same).signature
    assert evidence("tests", one).signature != evidence("tests", report("a")).signature
    assert evidence("tests", report()).signature is None
    few = ToolResult({"count": 2, "rows": [1], "truncated": False})
    other = ToolResult({"count": 2, "rows": [2], "truncated": False})
    assert evidence("row", few, id=1).signature == evidence("row", other, id=1).signature
    assert evidence("row", few, id=1).signature != evidence("row", ToolResult({"count": 3, "rows": []}), id=1).signature
    told = [
        ToolResult({"structuredContent": {"ok": False, "code": code, "at": code + at}})
        for code, at in ((1, 1), (1, 2), (2, 1))
    ]
    signed = [evidence("own", answer).signature for answer in told]
    assert signed[0] == signed[1] != signed[2]


def test_failures_are_told_apart_by_what_was_seen_where_policy_does_not_say() -> None:
    """And not by what is noise, or by when it was."""

    def signed(name: str, *answers: dict[str, Any]) -> list[str | None]:
        return [evidence(name, ToolResult(answer), id=1).signature for answer in answers]

    told = [
        {"structuredContent": {"ok": False, "failed": failed, "etag": at}} for failed, at in ((9, 1), (9, 2), (7, 1))
    ]
    same, again, other = signed("second", *told)
    assert same == again != other
    texts = [
        {"content": [{"type": "text", "text": f'{{"failed": {at}, "etag": {at + more}}}'}]}
        for at, more in ((9, 1), (9, 2), (7, 1))
    ]
    rule = world.rules(verifiers=dict(RULES)).policy.verifiers["second"]
    apart = [told_apart(rule, ToolResult(one), "x", frozenset({("etag",)})) for one in texts]
    assert apart[0] == apart[1] != apart[2]
    lint = [
        {"exit": code, "output": text, "duration_s": 1.0, "json": {"score": 1}}
        for code, text in ((1, "a"), (1, "b"), (2, "a"))
    ]
    same, again, other = signed("lint", *lint)
    assert same == again != other
    paid = [
        {"status": 200, "headers": {"date": text}, "json": {"paid": False, "left": left}}
        for text, left in (("a", 1), ("b", 1), ("a", 2))
    ]
    same, again, other = signed("paid", *paid)
    assert same == again != other
    errors = [{"isError": True, "content": [{"type": "text", "text": text}]} for text in "ab"]
    assert len({*signed("second", *errors)}) == 1


def test_nothing_seen_is_nothing_proven_in_every_way() -> None:
    for name in RULES:
        found = evidence(name, NotSent("the place is gone"), id=1)
        assert (found.verdict, found.says) == ("inconclusive", f"`{name}` could not check: the place is gone")
        odd = evidence(name, ToolResult({}), id=1)
        assert odd.verdict in {"inconclusive", "fail"}


def test_an_own_result_that_is_an_error_is_inconclusive() -> None:
    assert evidence("own", ToolResult({"isError": True, "structuredContent": {"ok": True}})).verdict == "inconclusive"


def test_formulas_tell_what_is_asked_or_why_it_cannot_be_told() -> None:
    rules = world.rules(
        verifiers={
            "it": {
                "http": {
                    "place": "shop",
                    "method": "POST",
                    "path_from": "args.path",
                    "query_from": {"a": "args.n + 1"},
                    "json_from": "{'id': args.id}",
                }
            }
        }
    )
    rule, now = rules.policy.verifiers["it"], utc(world.T0)
    told = probe_arguments(rule, {"path": "x", "n": 1, "id": "7"}, rules, now)
    assert told == {"path": "x", "query": {"a": 2}, "json": {"id": "7"}}
    assert "args.id" in getattr(probe_arguments(rule, {"path": "x", "n": 1}, rules, now), "reason", "")
    assert scope_of(rule, told, NotSent(""))["json"] == {"id": "7"}


# --- what a policy may say ------------------------------------------------------------------------------------------

LOOKS = "say how it looks: `probe`, `command`, `http`, `sql`, `file` or `result`"
PASSES = "the key `pass` is missing: what it sees must be judged by something"
FILE = {"place": "repo", "path": "a"}


@pytest.mark.parametrize(
    ("verifier", "says"),
    [
        ({"pass": ["true"]}, LOOKS),
        ({"file": FILE, "probe": {"tool": "t"}, "pass": ["true"]}, "`file` and `probe` exclude each other"),
        ({"file": FILE}, PASSES),
        ({"result": {}, "pass": []}, PASSES),
        ({"file": {"place": "r"}, "pass": ["true"]}, "say exactly one of `path` and `path_from`"),
        ({"file": {"place": "r", "path": "../a"}, "pass": ["true"]}, "a path below the place is wanted"),
        ({"file": {"place": "r", "path": "/a"}, "pass": ["true"]}, "a path below the place is wanted"),
        ({"http": {"place": "r", "path": "a", "path_from": "args.a"}}, "`path` and `path_from` exclude each other"),
        ({"http": {"place": "r", "json": {}}}, "only a POST has a body"),
        ({"http": {"place": "r", "query": {"a": []}}}, "a text, a number, `true` or `false` is wanted"),
        ({"sql": {"place": "r", "query": "select :a"}, "pass": ["true"]}, "the query asks for `:a`"),
        (
            {"sql": {"place": "r", "query": "select 1", "parameters_from": {"a": "1"}}, "pass": ["true"]},
            "the query has no `:a`",
        ),
        (
            {"command": {"place": "r", "run": ["x"], "trusted": {"place": "r", "paths": ["a"]}}},
            "`trusted` names the same place",
        ),
        ({"command": {"place": "r", "run": []}}, "at least 1 item"),
        ({"command": {"place": "r", "run": ["x"], "pinned": {"a": "md5:1"}}}, "pattern"),
    ],
)
def test_a_verifier_that_cannot_be_is_refused(verifier: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as refused:
        world.policy(verifiers={"it": verifier})
    assert says in str(refused.value)


def test_a_look_at_the_result_is_no_precondition() -> None:
    with pytest.raises(ValidationError) as refused:
        world.policy(
            verifiers={"own": {"result": {}, "pass": ["true"]}},
            transitions=[{"name": "a", "tools": ["*"], "preconditions": ["own"]}],
        )
    assert "`own` looks at the call's own result, which there is not before the call" in str(refused.value)


COMMAND: dict[str, Any] = {"place": "r", "run": ["x"]}
SCORED = {"type": "object", "properties": {"score": {"type": "number"}}}
ROWS = {"place": "r", "query": "select 1"}


@pytest.mark.parametrize(
    ("look", "condition", "says"),
    [
        ({"command": COMMAND}, "result.exit == 0 && result.output.contains('ok')", None),
        ({"command": COMMAND}, "result.exti == 0", "`result` has no field `exti` (did you mean `exit`?)"),
        ({"command": COMMAND}, "result.junit.tests > 3", "`result` has no field `junit`"),
        ({"command": COMMAND}, "result.json.a == 1", "`result` has no field `json`"),
        ({"command": {**COMMAND, "junit": "r"}}, "result.junit.failed == [] && result.junit.tests > 3", None),
        (
            {"command": {**COMMAND, "output": SCORED}},
            "result.json.scor > 1",
            "`result.json` has no field `scor` (did you mean `score`?)",
        ),
        ({"http": {"place": "r"}}, "result.json.any.thing == 1 && result.status == 200", None),
        ({"http": {"place": "r", "method": "HEAD"}}, "result.text == 'a'", "`result` has no field `text`"),
        ({"sql": ROWS}, "result.rows[0].a == 1 && result.count == 1", None),
        ({"sql": ROWS}, "result.count == '1'", "`==` cannot take an integer and a string"),
        ({"file": FILE}, "result.digset == 'a'", "`result` has no field `digset` (did you mean `digest`?)"),
        ({"result": {}}, "result.structuredContent.id == 'a'", None),
        ({"result": {}}, "result.structuredContent.no == 'a'", "the result of the tool `write` has no field `no`"),
    ],
)
def test_conditions_are_held_against_what_can_be_seen(look: dict[str, Any], condition: str, says: str | None) -> None:
    made = world.policy(
        verifiers={"it": {**look, "pass": [condition], "scope_from": {"seen": condition}}},
        tools={"write": {"output": {"type": "object", "properties": {"id": {"type": "string"}}}}},
        transitions=[{"name": "a", "tools": ["write"], "verify": "it"}],
    )
    found = [one.message for one in misfits(made, known_tools(made))]
    assert found == ([] if says is None else [says, says])
