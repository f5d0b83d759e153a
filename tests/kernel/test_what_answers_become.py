"""What an upstream's answer, its silence and a probe's answer become; each event whole."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.kernel.conditions import Undecided
from gateway.kernel.evidence import Question, judged, probe_arguments, question, settle
from gateway.kernel.rules import Rules
from gateway.kernel.verify import Cited, failure_of, lose, observe
from gateway.model.canonical import digest
from gateway.model.events import (
    AttemptAbandoned,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    Event,
    EvidenceRecorded,
    PhaseMoved,
    ReceiptRecorded,
    RunStopped,
)
from gateway.model.outcome import Outcome
from gateway.model.record import utc
from gateway.model.run import Run
from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, TaskStarted, ToolResult
from tests import world
from tests.kernel.test_decide import WRITE, intended, receipt

NOW = utc(world.T0)
ANSWER = Cited(digest("answer", b""), 42)
ATTEMPT = "run_1.2"
PHASES: dict[str, Any] = {"phases": {name: {} for name in ("one", "two", "bad", "worse", "late", "failed")}}
EDGES = {"error": "bad", "invalid": "worse", "timeout_unknown": "late", "verification_failed": "failed"}
OK = ToolResult({"content": [], "structuredContent": {"n": 1}})
FAILED = ToolResult({"content": [], "isError": True})
BROKEN = ProtocolError({"code": -32000, "message": "no"})
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


def rules_of(*, verified: bool = False, **changes: Any) -> Rules:
    """`write` leads from `one` to `two`, and elsewhere if it goes wrong."""
    transition = {"name": "w", "tools": ["*"], "to": "two", "on": EDGES}
    if not verified:
        transition["on"] = {edge: phase for edge, phase in EDGES.items() if edge != "verification_failed"}
    verifier = {
        "probe": {"tool": "check", "arguments": {"deep": True}, "arguments_from": {"path": "args.path"}},
        "pass": ["result.structuredContent.ok == true", "result.structuredContent.n > 0"],
        "covers": ["pay"],
        "scope": {"environment": "test"},
        "scope_from": {"revision": "result.structuredContent.revision"},
        "signature": ["which"],
    }
    return world.rules(
        **PHASES, verifiers={"t": verifier}, transitions=[transition | ({"verify": "t"} if verified else {}) | changes]
    )


def run_of(rules: Rules, *events: Event) -> Run:
    """After `WRITE` was intended, and these."""
    return world.after(intended(world.opened(rules), rules, WRITE), *events)


def seen(run: Run, answer: Answer, cited: Cited | None = ANSWER, **changes: Any) -> Sequence[Event]:
    told: dict[str, Any] = {
        "output_schema": None,
        "duration_s": 1.5,
        "now": NOW,
        "failure": None,
        "alike": None,
    } | changes
    return observe(run, run.attempts[ATTEMPT], answer, cited, **told)


def got(**changes: Any) -> ReceiptRecorded:
    """The receipt of an answer."""
    told: dict[str, Any] = {
        "attempt": ATTEMPT, "answer": "result", "is_error": False, "result": ANSWER.digest, "size_bytes": 42,
        "duration_s": 1.5,
    }  # fmt: skip
    return ReceiptRecorded.model_validate(told | changes)


def moved(target: str, *because: int, source: str = "one") -> PhaseMoved:
    return PhaseMoved(source=source, target=target, transition="w", attempt=ATTEMPT, because=because)


def test_a_result_is_a_receipt_and_leads_on() -> None:
    run = run_of(rules_of())
    assert seen(run, OK) == (got(), moved("two", 3))
    assert seen(run, OK, None) == (got(result=None, size_bytes=0), moved("two", 3))
    assert seen(run_of(rules_of(to=None)), OK) == (got(),)
    assert seen(run_of(rules_of(verified=True)), OK) == (got(),), "evidence moves the phase"


def test_an_error_is_a_receipt_and_takes_the_edge_of_its_kind() -> None:
    run = run_of(rules_of())
    assert seen(run, FAILED) == (got(is_error=True), moved("bad", 3))
    assert seen(run, BROKEN) == (got(answer="error", is_error=True), moved("bad", 3))
    assert seen(run, FAILED, failure="invalid") == (got(is_error=True, failure="invalid"), moved("worse", 3))
    assert seen(run, BROKEN, failure="denied") == (
        got(answer="error", is_error=True, failure="denied"), moved("bad", 3),
    )  # fmt: skip
    assert seen(run_of(rules_of(on={})), FAILED) == (got(is_error=True),)
    assert seen(run, ToolResult({"isError": "yes"}))[0] == got()


@pytest.mark.parametrize(
    ("schema", "result", "valid"),
    [
        (None, {"structuredContent": {}}, None),
        (SCHEMA, {"structuredContent": {"n": 1}}, True),
        (SCHEMA, {"structuredContent": {"n": "1"}}, False),
        (SCHEMA, {"content": []}, False),
        ({"$ref": "https://nowhere.test/x"}, {"structuredContent": {}}, False),
    ],
)
def test_a_result_that_breaks_its_schema_proves_nothing(schema: Any, result: dict[str, Any], valid: Any) -> None:
    found = seen(run_of(rules_of()), ToolResult(result), output_schema=schema)
    assert found == (got(schema_valid=valid), moved("worse" if valid is False else "two", 3))
    wrong = seen(run_of(rules_of()), ToolResult(result | {"isError": True}), output_schema=schema)
    assert wrong[0] == got(is_error=True)


UNKNOWN = AttemptUnknown(attempt=ATTEMPT, reason="t")
SUSPENDED = AttemptSuspended(attempt=ATTEMPT, awaits="input", answer=ANSWER.digest, expires_at=NOW)


def test_a_late_answer_is_a_receipt_and_a_second_one_is_nothing() -> None:
    rules = rules_of()
    assert seen(run_of(rules, UNKNOWN), OK) == (got(late=True), moved("two", 4))
    assert seen(run_of(rules, receipt()), OK) == ()
    assert seen(run_of(rules, receipt()), BROKEN) == ()


def test_a_phase_moves_only_in_a_run_that_goes_on_from_where_the_call_was_allowed() -> None:
    rules = rules_of()
    over = RunStopped(outcome=Outcome.INFEASIBLE, reason="x")
    assert seen(run_of(rules, over), OK) == (got(),)
    elsewhere = PhaseMoved(source="one", target="bad", transition="x")
    assert seen(run_of(rules, elsewhere), OK) == (got(),)
    assert seen(run_of(rules_of(to="one", on={})), OK) == (got(),)


@pytest.mark.parametrize(
    ("answer", "awaits", "seconds"),
    [
        (InputRequired({"ttlMs": 5}), "input", 600),
        (TaskStarted({}), "task", 86_400),
        (TaskStarted({"ttlMs": 1500}), "task", 1.5),
        (TaskStarted({"ttlMs": 0}), "task", 0),
        (TaskStarted({"ttlMs": -1}), "task", 86_400),
        (TaskStarted({"ttlMs": True}), "task", 86_400),
        (TaskStarted({"ttlMs": "9"}), "task", 86_400),
        (TaskStarted({"ttlMs": 1e15}), "task", 7 * 86_400),
    ],
)
def test_what_goes_on_later_is_waited_for_so_long(answer: Any, awaits: Any, seconds: float) -> None:
    run = run_of(rules_of())
    until = NOW + timedelta(seconds=seconds)
    expected = AttemptSuspended(attempt=ATTEMPT, awaits=awaits, answer=ANSWER.digest, expires_at=until)
    assert seen(run, answer) == (expected,)
    assert seen(world.after(run, SUSPENDED), answer) == (expected,)
    assert seen(run, answer, None) == ()
    assert seen(world.after(run, UNKNOWN), answer) == ()


def test_what_was_not_sent_did_nothing_unless_an_earlier_round_was() -> None:
    rules = rules_of()
    run = run_of(rules)
    assert seen(run, NotSent("down")) == (AttemptUnsent(attempt=ATTEMPT, reason="down"),)
    assert seen(world.after(run, UNKNOWN), NotSent("down")) == ()
    resumed = AttemptResumed(
        tool="write", arguments=WRITE.arguments_digest, policy=rules.digest, phase="one", checks=(), attempt=ATTEMPT,
        round=ANSWER.digest, said=ANSWER.digest,
    )  # fmt: skip
    later = world.after(run, SUSPENDED, resumed)
    why = "its earlier rounds were sent, and the next one was not: down"
    assert seen(later, NotSent("down")) == (AttemptUnknown(attempt=ATTEMPT, reason=why), moved("late", 5))


def test_silence_leaves_a_write_unknown_and_lets_a_read_go() -> None:
    rules = rules_of()
    for before in (run_of(rules), run_of(rules, SUSPENDED)):
        lost = (AttemptUnknown(attempt=ATTEMPT, reason="gone"), moved("late", before.version + 1))
        assert seen(before, Silence("gone")) == lost
        assert lose(before, before.attempts[ATTEMPT], "gone") == lost
    assert seen(run_of(rules, UNKNOWN), Silence("gone")) == ()
    reading = world.after(intended(world.opened(rules), rules, world.proposal("read")))
    assert seen(reading, Silence("gone")) == (AttemptAbandoned(attempt=ATTEMPT, reason="gone"),)


def test_the_kind_of_an_error_is_the_first_that_the_registry_tells() -> None:
    failures = {
        "conflict": ["result.error.code == 409", "args.path == 'a'"],
        "denied": ["result.isError == true", "args.path == 'a'"],
        "invalid": ["args.gone == 1"],
    }
    rules = world.rules(tools={"write": {"effect": "write", "failures": failures}})
    rule = rules.policy.tools["write"]

    def kind(answer: Answer, path: str = "a") -> str | None:
        return failure_of(answer, {"path": path}, rule, rules, NOW)

    assert kind(ProtocolError({"code": 409})) == "conflict"
    assert kind(ProtocolError({"code": 500})) == "denied"
    assert kind(FAILED) == "denied"
    assert kind(FAILED, "b") is None
    assert kind(ProtocolError({"code": 409}), "b") is None
    assert kind(ProtocolError({"code": -32602}), "b") == "invalid"
    assert kind(ToolResult({"isError": True, "code": -32602}), "b") is None
    for answer in (OK, Silence("x"), InputRequired({}), ToolResult({"isError": 1})):
        assert kind(answer) is None


# --- verifiers ------------------------------------------------------------------------------------------------------

GOOD = {"structuredContent": {"ok": True, "n": 1, "revision": "abc", "which": "w"}}


def asking(*events: Event) -> tuple[Run, Rules, Question]:
    rules = rules_of(verified=True)
    run = run_of(rules, receipt(), *events)
    asked = question(run, ATTEMPT, rules)
    assert asked is not None
    return run, rules, asked


def spoken(run: Run, rules: Rules, asked: Question, answer: Answer, cited: Cited | None = ANSWER) -> Sequence[Event]:
    return settle(
        run, asked, answer, cited, WRITE.arguments, rules, started_at=NOW, duration_s=0.5, now=NOW
    )  # fmt: skip


def evidence(verdict: Any, says: str, told: Mapping[str, Any] | None = None, **changes: Any) -> EvidenceRecorded:
    signed = {"verifier": "t", "says": says, "told": {"which": "w"} if told is None else told}
    scope = {"tool": "check", "arguments": {"deep": True, "path": "a"}, "environment": "test", "revision": "abc"}
    said: dict[str, Any] = {
        "verifier": "t", "verdict": verdict, "attempt": ATTEMPT, "scope": scope, "covers": ("pay",),
        "signature": None if verdict == "pass" else digest(signed, b""), "says": says, "artifact": ANSWER.digest,
        "started_at": NOW, "duration_s": 0.5, "after": 3,
    }  # fmt: skip
    return EvidenceRecorded.model_validate(said | changes)


def test_a_verifier_is_asked_once_about_what_was_answered() -> None:
    run, rules, asked = asking()
    assert asked == Question("t", rules.policy.verifiers["t"], run.attempts[ATTEMPT], 3, run.policy)
    assert question(run_of(rules), ATTEMPT, rules) is None
    assert question(run_of(rules_of(), receipt()), ATTEMPT, rules) is None
    assert question(world.after(run, evidence("fail", "x")), ATTEMPT, rules) is None


def test_a_pass_moves_the_phase_and_a_failure_takes_its_edge() -> None:
    run, rules, asked = asking()
    assert spoken(run, rules, asked, ToolResult(GOOD)) == (evidence("pass", "`t` passed"), moved("two", 4))
    bad = ToolResult({"structuredContent": GOOD["structuredContent"] | {"n": 0}})
    says = "`t` found that `result.structuredContent.n > 0` does not hold"
    assert spoken(run, rules, asked, bad) == (evidence("fail", says), moved("failed", 4))
    assert spoken(run, rules, asked, bad, None)[0] == evidence("fail", says, artifact=None)
    assert spoken(world.after(run, evidence("fail", "x")), rules, asked, ToolResult(GOOD)) == ()


def test_who_could_not_look_moves_nothing() -> None:
    run, rules, asked = asking()
    bare = {"tool": "check", "arguments": {"deep": True, "path": "a"}, "environment": "test"}
    for answer, why in (
        (Silence("gone"), "gone"),
        (NotSent("down"), "down"),
        (ProtocolError({"code": 7}), "the probe was refused with code 7"),
        (InputRequired({}), "the probe wants more input"),
    ):
        says = f"`t` could not check: {why}"
        assert spoken(run, rules, asked, answer) == (evidence("inconclusive", says, {}, scope=bare),)
    wrong = spoken(run, rules, asked, FAILED)
    assert wrong == (evidence("inconclusive", "`t` could not check: the probe answered with an error", {}, scope=bare),)
    nothing = ToolResult({"structuredContent": {"which": "w"}})
    (found,) = spoken(run, rules, asked, nothing)
    assert isinstance(found, EvidenceRecorded)
    assert found.verdict == "inconclusive"
    assert found.says.startswith("`t` could not judge `result.structuredContent.ok == true`: ")


def test_evidence_that_was_overtaken_moves_nothing() -> None:
    run, rules, asked = asking()
    broad = replace(asked, rule=asked.rule.model_copy(update={"covers": ("*",)}), after=1)
    (found,) = spoken(run, rules, broad, ToolResult(GOOD))
    assert found == evidence("pass", "`t` passed", covers=("*",), after=1)


def test_a_probe_is_asked_about_the_call_and_not_at_all_where_it_cannot_be() -> None:
    rules = rules_of(verified=True)
    verifier = rules.policy.verifiers["t"]
    assert probe_arguments(verifier, {"path": "b"}, rules, NOW) == {"deep": True, "path": "b"}
    missing = probe_arguments(verifier, {}, rules, NOW)
    assert isinstance(missing, Undecided)
    run, rules, asked = asking()
    events = settle(run, asked, ToolResult(GOOD), ANSWER, {}, rules, started_at=NOW, duration_s=0.5, now=NOW)
    scope = {"tool": "check", "arguments": {}, "environment": "test", "revision": "abc"}
    assert events[0] == evidence("pass", "`t` passed", scope=scope)
    assert judged("t", verifier, run, ToolResult(GOOD), {}, rules, NOW) == ("pass", "`t` passed")


def test_a_verifier_may_ask_what_time_it_is() -> None:
    late = "now >= timestamp('2027-01-15T08:00:00Z')"
    verifier = {
        "probe": {"tool": "check", "arguments_from": {"late": late}}, "pass": [late], "scope_from": {"late": late},
    }  # fmt: skip
    rules = world.rules(verifiers={"t": verifier}, transitions=[{"name": "w", "tools": ["*"], "verify": "t"}])
    run = run_of(rules, receipt())
    asked = question(run, ATTEMPT, rules)
    assert asked is not None
    for now, is_late in ((NOW, True), (NOW - timedelta(seconds=1), False)):
        (found,) = settle(run, asked, OK, ANSWER, {}, rules, started_at=NOW, duration_s=0.5, now=now)
        assert isinstance(found, EvidenceRecorded)
        assert found.verdict == ("pass" if is_late else "fail")
        assert found.scope == {"tool": "check", "arguments": {"late": is_late}, "late": is_late}
