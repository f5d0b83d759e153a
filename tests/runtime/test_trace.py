"""What is told of each way that a call can go: its spans, their places in traces, and the events beside them."""

from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from gateway.model.tool import NotSent, ProtocolError, Silence, ToolResult
from gateway.runtime import trace
from tests import world
from tests.emitted import violations
from tests.runtime.house import approve, outcome
from tests.telemetry.received import Received, Span
from tests.telemetry.told import told_house

pytestmark = pytest.mark.anyio

CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{CALLER[0]}-{CALLER[1]}-01"}
OTHER = "1bf7651916cd43dd8448eb211c80319c", "c7ad6b7169203331"
HEADERS = {"traceparent": f"00-{OTHER[0]}-{OTHER[1]}-01"}

LOOK: dict[str, Any] = {
    "verifiers": {
        "look": {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true"], "covers": ["write"]}
    },
    "transitions": [{"name": "write", "tools": ["write"], "verify": "look"}],
}
ASK: dict[str, Any] = {"transitions": [{"name": "write", "tools": ["write"], "approval": {}}]}
HAPPENED = {"id": "x", "run": "run_1"}


def tree(told: Received) -> list[tuple[str, ...]]:
    """Each span with its kind and the names of those above it, in the order in which they ended."""
    by_id = {span.span_id: span for span in told.spans}

    def above(span: Span) -> tuple[str, ...]:
        parent = by_id.get(span.parent_id)
        return () if parent is None else (f"{parent.kind} {parent.name}", *above(parent))

    return [(f"{span.kind} {span.name}", *above(span)) for span in told.spans]


def facts(span: Span) -> dict[str, Any]:
    """What is told of the decision."""
    wanted = ("decision.outcome", "decision.reason", "idempotency.state", "receipt.state", "effect.standing")
    found = {name: span.attributes.get(f"counterfoil.{name}") for name in wanted}
    return {name: value for name, value in found.items() if value is not None}


SERVER, CLIENT = "server tools/call write", "client tools/call write"


async def test_an_allowed_call_is_one_server_span_with_one_client_span_below_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch) as it:
        await it.call("write", meta=PARENT)
        client, server = it.told.spans
        assert tree(it.told) == [(CLIENT, SERVER), (SERVER,)]
        assert (server.trace_id, server.parent_id) == CALLER
        assert facts(server) == {
            "decision.outcome": "allow",
            "idempotency.state": "new",
            "receipt.state": "confirmed",
            "effect.standing": "reported",
        }
        assert client.attributes["counterfoil.receipt.state"] == "confirmed"
        intent = (await it.house.ledger.read("run_1"))[1][0]
        assert intent.trace is not None
        assert (intent.trace.trace_id, intent.trace.span_id) == (server.trace_id, server.span_id)
        assert server.attributes["counterfoil.decision.id"] == intent.id
        assert [log.event for log in it.told.logs] == [
            "counterfoil.intent.recorded",
            "counterfoil.receipt.recorded",
            "counterfoil.outcome.delivered",
        ]
        assert {(log.trace_id, log.span_id) for log in it.told.logs} == {(server.trace_id, server.span_id)}
        assert violations(it.told) == []


async def test_each_record_of_the_ledger_is_one_log_event_at_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch) as it:
        await it.call("write")
        await it.call("no_such")
        it.house.clock.tell(10)
        await it.call("read")
        records = [record for record, _ in await it.house.ledger.read("run_1")][1:]  # its opening came before
        said = [(log.attributes["counterfoil.record.id"], log.time_ns) for log in it.told.logs]
        assert said == [(one.id, int(one.at.timestamp() * 1e6) * 1000) for one in records]


async def test_a_denied_call_says_which_rule_and_has_no_client_span(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch, forbid=[{"name": "no-writes", "tools": ["write"]}]) as it:
        await it.call("write")
        assert tree(it.told) == [(SERVER,)]
        (server,) = it.told.spans
        assert facts(server) == {"decision.outcome": "deny", "decision.reason": "denied"}
        assert server.attributes["counterfoil.policy.rule.id"] == "no-writes"
        assert server.attributes["error.type"] == "tool_error"
        assert [(log.event, log.severity) for log in it.told.logs] == [("counterfoil.proposal.denied", 13)]
        assert violations(it.told) == []


async def test_a_replayed_call_is_linked_to_the_one_that_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch) as it:
        await it.call("write", deliver=False)
        first = it.told.spans[-1]
        await it.call("write")
        again = it.told.spans[-1]
        assert tree(it.told) == [(CLIENT, SERVER), (SERVER,), (SERVER,)]
        assert facts(again)["decision.outcome"] == "replay"
        assert [(link.trace_id, link.span_id) for link in again.links] == [(first.trace_id, first.span_id)]
        assert again.trace_id != first.trace_id
        assert violations(it.told) == []


async def test_a_call_that_a_person_approves_later_is_a_new_trace_linked_to_the_one_that_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch, **ASK) as it:
        assert outcome(await it.call("write")) == "needs_approval"
        (asked,) = it.told.spans
        assert facts(asked) == {"decision.outcome": "needs_approval", "decision.reason": "needs_approval"}
        await it.call("write")  # it waits still
        await approve(it.house)
        await it.call("write")
        server = it.told.spans[-1]
        assert tree(it.told) == [(SERVER,), (SERVER,), (CLIENT, SERVER), (SERVER,)]
        assert [(link.trace_id, link.span_id) for link in server.links] == [(asked.trace_id, asked.span_id)]
        assert server.trace_id != asked.trace_id
        approval = asked.attributes["counterfoil.approval.id"]
        assert server.attributes["counterfoil.authority.approval.id"] == approval
        assert server.attributes["counterfoil.authority.kind"] == "approval"
        (decided,) = it.told.events("counterfoil.approval.decided")
        assert decided.attributes["counterfoil.approval.state"] == "approved"
        assert violations(it.told) == []


async def test_a_call_that_is_kept_waiting_for_a_person_has_a_span_of_its_own_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch, **ASK) as it:
        shown = await it.call("write")
        assert shown.refusal is not None
        assert shown.refusal.approval is not None
        questions = it.house.engine.questions
        question = await questions.of(shown.refusal.approval.id, world.USER, "run_1")
        with it.telemetry.inbound(trace.Inbound("tools/call", tool="write", request_id="8", transport="pipe")):
            over = questions.listen(question, lambda: None)
            await approve(it.house)
            over()
        assert tree(it.told)[1:] == [("internal counterfoil.approval", SERVER), (SERVER,)]
        waited = it.told.span("counterfoil.approval")
        assert waited.attributes["counterfoil.approval.state"] == "approved"
        assert violations(it.told) == []


@pytest.mark.parametrize(
    ("saw", "stands", "label", "score"),
    [
        (world.ok(structuredContent={"ok": True}), "committed", "pass", 1.0),
        (world.ok(structuredContent={"ok": False}), "failed", "fail", 0.0),
        (Silence("no answer"), "attempted", "inconclusive", None),
    ],
)
async def test_a_verifiers_look_is_a_span_and_its_verdict_an_evaluation(
    monkeypatch: pytest.MonkeyPatch, saw: Any, stands: str, label: str, score: float | None
) -> None:
    async with told_house(monkeypatch, **LOOK) as it:
        it.house.upstreams.will("check", saw)
        await it.call("write")
        assert tree(it.told) == [
            (CLIENT, SERVER),
            ("client tools/call check", "internal counterfoil.verify look", SERVER),
            ("internal counterfoil.verify look", SERVER),
            (SERVER,),
        ]
        server = it.told.spans[-1]
        assert facts(server)["effect.standing"] == stands
        assert server.attributes["counterfoil.verifier.verdict"] == label
        (said,) = it.told.events("gen_ai.evaluation.result")
        assert said.attributes["gen_ai.evaluation.name"] == "look"
        assert said.attributes["gen_ai.evaluation.score.label"] == label
        assert said.attributes.get("gen_ai.evaluation.score.value") == score
        assert (said.trace_id, said.span_id) == (server.trace_id, server.span_id)
        assert violations(it.told) == []


async def test_what_is_settled_later_is_a_trace_of_its_own_linked_to_the_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asks = {"probe": {"tool": "check"}, "happened": ["result.structuredContent.there == true"]}
    tools = {
        "write": {"effect": "write", "idempotency": {"kind": "query", "query": asks}},
        "check": {"effect": "read"},
    }
    async with told_house(monkeypatch, tools=tools) as it:
        it.house.upstreams.will("write", Silence("no answer"))
        it.house.upstreams.will("check", world.ok(structuredContent={"there": True}))
        await it.call("write", deliver=False)
        server = it.told.spans[-1]
        assert facts(server) == {
            "decision.outcome": "allow",
            "decision.reason": "timeout_unknown",
            "idempotency.state": "new",
            "receipt.state": "unknown",
            "effect.standing": "unknown",
        }
        it.house.clock.tell(60)
        assert await it.house.recovery.sweep() == 1
        assert tree(it.told)[2:] == [
            ("client tools/call check", "internal counterfoil.settle"),
            ("internal counterfoil.settle",),
        ]
        settled = it.told.span("counterfoil.settle")
        assert settled.trace_id != server.trace_id
        assert [(link.trace_id, link.span_id) for link in settled.links] == [(server.trace_id, server.span_id)]
        (receipt,) = it.told.events("counterfoil.receipt.recorded")
        assert receipt.attributes["counterfoil.receipt.state"] == "reconciled"
        assert receipt.trace_id == settled.trace_id
        assert [(log.event, log.severity) for log in it.told.logs if log.severity > 13] == [
            ("counterfoil.attempt.unknown", 17)
        ]
        assert violations(it.told) == []


async def test_a_call_that_ends_its_run_says_why_and_so_does_each_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch, budgets={"calls": 1}) as it:
        await it.call("write")
        await it.call("read")
        await it.call("read")
        ends = [span.attributes.get("counterfoil.stop.reason") for span in it.told.spans if span.kind == "server"]
        assert ends == [None, "budget_exhausted", "budget_exhausted"]
        (stopped,) = it.told.events("counterfoil.run.stopped")
        assert (stopped.severity, stopped.attributes["counterfoil.stop.reason"]) == (13, "budget_exhausted")
        assert violations(it.told) == []


@pytest.mark.parametrize(
    ("answer", "on_client", "on_server"),
    [
        (ToolResult({"content": [], "isError": True}), "tool_error", "tool_error"),
        (ProtocolError({"code": -32602, "message": "secret"}), "-32602", None),
        (ProtocolError({"code": -32000, "message": "secret"}), "-32000", "-32000"),
        (ProtocolError({"code": 7_001, "message": "secret"}), "7001", "7001"),
        (NotSent("secret"), "not_sent", "tool_error"),
        (Silence("secret"), "timeout_unknown", "tool_error"),
    ],
)
async def test_errors_are_marked_by_the_rule_of_their_side_and_without_their_text(
    monkeypatch: pytest.MonkeyPatch, answer: Any, on_client: str, on_server: str | None
) -> None:
    async with told_house(monkeypatch) as it:
        it.house.upstreams.will("write", answer)
        await it.call("write", meta=PARENT)
        client, server = it.told.spans
        assert client.attributes.get("error.type") == on_client
        assert server.attributes.get("error.type") == on_server
        assert "secret" not in repr(it.told)
        assert violations(it.told) == []


# --- whose trace ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("carried", "parent", "links"),
    [
        ({}, None, []),
        ({"headers": HEADERS}, OTHER, []),
        ({"meta": PARENT}, CALLER, []),
        ({"meta": PARENT, "headers": PARENT}, CALLER, []),
        ({"meta": PARENT, "headers": HEADERS}, CALLER, [OTHER]),
        ({"meta": {"traceparent": "no such thing"}, "headers": HEADERS}, OTHER, []),
        ({"meta": {"traceparent": f"00-{'0' * 32}-{'0' * 16}-01"}}, None, []),
    ],
)
async def test_a_callers_trace_is_that_of_meta_and_else_that_of_the_headers(
    monkeypatch: pytest.MonkeyPatch, carried: Any, parent: tuple[str, str] | None, links: Any
) -> None:
    async with told_house(monkeypatch) as it:
        await it.call("read", **carried)
        server = it.told.spans[-1]
        assert ((server.trace_id, server.parent_id) if server.parent_id else None) == parent
        assert [(link.trace_id, link.span_id) for link in server.links] == links
        assert violations(it.told) == []


async def test_a_caller_of_another_house_is_linked_and_its_ids_are_told_in_plain_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch, trace.Options(remote="link")) as it:
        await it.call("read", meta=PARENT)
        server = it.told.spans[-1]
        assert server.parent_id == ""
        assert server.trace_id != CALLER[0]
        assert [(link.trace_id, link.span_id) for link in server.links] == [CALLER]
        assert server.attributes["counterfoil.caller.trace_id"] == CALLER[0]
        assert server.attributes["counterfoil.caller.span_id"] == CALLER[1]
        assert violations(it.told) == []


async def test_a_caller_that_is_not_trusted_chooses_no_ids_and_is_not_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch, trace.Options(remote="ignore")) as it:
        await it.call("read", meta=PARENT, headers={"traceparent": PARENT["traceparent"][:-1] + "0"})
        server = it.told.spans[-1]
        assert (server.parent_id, server.links) == ("", ())
        assert CALLER[0] not in repr(it.told)


@pytest.mark.parametrize("how", ["the caller does not sample", "nobody is sampled"])
async def test_what_is_not_sampled_has_no_spans_and_is_still_told_as_events(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    sampler = ALWAYS_OFF if how == "nobody is sampled" else None
    meta = {"traceparent": PARENT["traceparent"][:-1] + "0"} if sampler is None else {}
    async with told_house(monkeypatch, sampler=sampler) as it:
        await it.call("write", meta=meta)
        assert it.told.spans == []
        assert [log.event for log in it.told.logs][:2] == [
            "counterfoil.intent.recorded",
            "counterfoil.receipt.recorded",
        ]
