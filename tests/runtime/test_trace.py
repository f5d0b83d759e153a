"""One SERVER span for each request and one CLIENT span for each attempt, and each record says where it was made."""

import json

import pytest
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.runtime import trace
from tests import world
from tests.runtime.house import house

pytestmark = pytest.mark.anyio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Only as long as the test runs: a provider that is set for good would be that of the whole process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(otel, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "_TRACER", provider.get_tracer("counterfoil"))
    return exporter


REQUEST = trace.Inbound("tools/call", "write", "7", "2026-07-28", carrier={"traceparent": PARENT})


async def test_the_upstreams_parent_is_our_client_span_whose_parent_is_our_server_span(
    spans: InMemorySpanExporter,
) -> None:
    async with house() as it:
        with trace.inbound(REQUEST):
            await it.call("write", deliver=False)
        client, server = spans.get_finished_spans()
        assert (client.kind, client.name) == (SpanKind.CLIENT, "tools/call write")
        assert (server.kind, server.name) == (SpanKind.SERVER, "tools/call write")
        assert server.parent is not None
        assert f"{server.parent.span_id:016x}" == "b7ad6b7169203331"
        assert client.parent is not None
        assert client.parent.span_id == server.context.span_id
        sent = it.upstreams.sent[0].meta["traceparent"]
        assert sent == f"00-0af7651916cd43dd8448eb211c80319c-{client.context.span_id:016x}-01"
        intent = (await it.ledger.read("run_1"))[1][0]
        assert intent.trace is not None
        assert intent.trace.trace_id == "0af7651916cd43dd8448eb211c80319c"
        assert server.attributes is not None
        assert server.attributes["counterfoil.decision.outcome"] == "allow"
        assert server.attributes["gen_ai.tool.name"] == "write"


@pytest.mark.parametrize(
    ("saw", "stands"),
    [
        (world.ok(structuredContent={"ok": True}), "committed"),
        (world.ok(structuredContent={"ok": False}), "failed"),
        (Silence("no answer"), "attempted"),
    ],
)
async def test_a_span_tells_an_effect_that_was_attempted_from_one_that_was_confirmed(
    spans: InMemorySpanExporter, saw: Answer, stands: str
) -> None:
    verifier = {"probe": {"tool": "check"}, "pass": ["result.structuredContent.ok == true"], "covers": ["write"]}
    way = {"name": "write", "tools": ["write"], "verify": "look"}
    async with house(verifiers={"look": verifier}, transitions=[way]) as it:
        it.upstreams.will("check", saw)
        with trace.inbound(REQUEST):
            await it.call("write")
        (server,) = (span for span in spans.get_finished_spans() if span.kind is SpanKind.SERVER)
        assert server.attributes is not None
        assert server.attributes["counterfoil.effect.standing"] == stands


async def test_a_refused_call_has_no_client_span_and_says_which_rule_refused(spans: InMemorySpanExporter) -> None:
    async with house(forbid=[{"name": "no-writes", "tools": ["write"]}]) as it:
        with trace.inbound(REQUEST):
            await it.call("write")
        (server,) = spans.get_finished_spans()
        assert server.attributes is not None
        assert server.attributes["counterfoil.policy.rule.id"] == "no-writes"
        assert server.attributes["error.type"] == "tool_error"


@pytest.mark.parametrize(
    ("answer", "client_error", "server_error"),
    [
        (ToolResult({"content": [], "isError": True}), "tool_error", "tool_error"),
        (ProtocolError({"code": -32602, "message": "secret"}), "-32602", None),
        (ProtocolError({"code": -32000, "message": "secret"}), "-32000", "-32000"),
        (Silence("no answer"), "timeout_unknown", "tool_error"),
    ],
)
async def test_errors_are_marked_by_the_rule_of_their_side_and_without_their_text(
    spans: InMemorySpanExporter, answer: object, client_error: str, server_error: str | None
) -> None:
    async with house() as it:
        it.upstreams.will("write", answer)  # type: ignore[arg-type]  # the table's
        with trace.inbound(REQUEST):
            await it.call("write")
        client, server = spans.get_finished_spans()
        assert client.attributes is not None
        assert server.attributes is not None
        assert client.attributes.get("error.type") == client_error
        assert server.attributes.get("error.type") == server_error
        assert "secret" not in json.dumps([json.loads(client.to_json()), json.loads(server.to_json())])
