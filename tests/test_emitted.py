"""What holds telemetry against the registry finds each kind of breach, and none where there is none."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.telemetry.names import SCHEMA_URL, SCOPE, Metrics
from tests.emitted import violations
from tests.telemetry.received import Link, Log, Metric, Point, Received, Scope, Span

RESOURCE = {"service.name": "counterfoil", "service.version": "0.1.0"}
OURS: dict[str, Any] = {"scope": Scope(SCOPE, "0.1.0", SCHEMA_URL), "resource": RESOURCE}
TRACE = "a" * 32

CALL = {
    "mcp.method.name": "tools/call",
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.tool.name": "pay",
    "mcp.protocol.version": "2026-07-28",
    "network.transport": "tcp",
}

SERVER = Span(
    "tools/call pay",
    "server",
    TRACE,
    "1" * 16,
    "",
    {
        **CALL,
        "client.port": 4711,
        "counterfoil.run.id": "r",
        "counterfoil.decision.outcome": "allow",
        "counterfoil.budget.charged.calls": 1,
        "counterfoil.budget.charged.cost": 0.5,
    },
    **OURS,
)
CLIENT = Span(
    "tools/call pay", "client", TRACE, "2" * 16, "1" * 16, {**CALL, "counterfoil.upstream.name": "bank"}, **OURS
)
VERIFY = Span(
    "counterfoil.verify paid", "internal", TRACE, "3" * 16, "1" * 16, {"counterfoil.verifier.name": "paid"}, **OURS
)
SETTLE = Span(
    "counterfoil.settle",
    "internal",
    "b" * 32,
    "4" * 16,
    "",
    {"counterfoil.run.id": "r", "counterfoil.intent.id": "i"},
    links=(Link(TRACE, "2" * 16, {}),),
    **OURS,
)
FAILED = replace(
    CLIENT,
    attributes={**CLIENT.attributes, "rpc.response.status_code": "-32602", "error.type": "-32602"},
    status="error",
)
DURATION = Metric(
    "mcp.server.operation.duration",
    "histogram",
    "s",
    "From an agent's request to its answer",
    (Point({**CALL}, 0.2, bounds=Metrics.MCP_SERVER_OPERATION_DURATION.buckets or ()),),
    **OURS,
)
DECISIONS = Metric(
    "counterfoil.decisions",
    "counter",
    "{decision}",
    "Proposals that were judged, by what they became",
    (Point({"counterfoil.decision.outcome": "deny"}, 2),),
    **OURS,
)
STOPPED = Log(
    "counterfoil.run.stopped",
    9,
    {"counterfoil.record.id": "r#7", "counterfoil.run.id": "r", "counterfoil.stop.reason": "verified_success"},
    **OURS,
)

SEEN = Log(
    "gen_ai.evaluation.result",
    13,
    {
        "counterfoil.record.id": "r#8",
        "counterfoil.run.id": "r",
        "gen_ai.evaluation.name": "paid",
        "gen_ai.evaluation.score.label": "fail",
        "gen_ai.evaluation.score.value": 0.0,
    },
    **OURS,
)


def of(*told: Span | Metric | Log) -> Received:
    received = Received()
    for one in told:
        match one:
            case Span():
                received.spans.append(one)
            case Metric():
                received.metrics.append(one)
            case Log():
                received.logs.append(one)
    return received


def test_what_is_as_it_must_be_breaks_nothing() -> None:
    assert violations(of(SERVER, CLIENT, VERIFY, SETTLE, FAILED, DURATION, DECISIONS, STOPPED, SEEN)) == []


def but(one: Span | Log, **attributes: Any) -> Any:
    """The same with other attributes; None takes one away. `__` is a full stop."""
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    merged = {**one.attributes, **told}
    return replace(one, attributes={key: value for key, value in merged.items() if value is not None})


def labelled(metric: Metric, **attributes: Any) -> Metric:
    (point,) = metric.points
    told = {key.replace("__", "."): value for key, value in attributes.items()}
    return replace(metric, points=(replace(point, attributes={**point.attributes, **told}),))


METHODLESS = {key: value for key, value in SERVER.attributes.items() if key != "mcp.method.name"}
DENIED = but(SERVER, counterfoil__decision__outcome="deny")

PLANTED: dict[str, tuple[Span | Metric | Log, str]] = {
    "a name that is not registered": (
        but(SERVER, counterfoil__mood="good"),
        "span `tools/call pay`: `counterfoil.mood` is not registered",
    ),
    "a convention's namespace, extended": (
        but(SERVER, gen_ai__tool__mood="good"),
        "span `tools/call pay`: `gen_ai.tool.mood` is not registered",
    ),
    "an attribute of the other side, on a server": (
        but(SERVER, server__address="bank"),
        "span `tools/call pay`: `server.address` has no place there",
    ),
    "an attribute of the other side, on a client": (
        but(CLIENT, client__address="agent"),
        "span `tools/call pay`: `client.address` has no place there",
    ),
    "a text for a number": (
        but(SERVER, client__port="4711"),
        "span `tools/call pay`: `client.port` is '4711', which is no int",
    ),
    "a whole number for a double": (
        but(SERVER, counterfoil__budget__charged__cost=1),
        "span `tools/call pay`: `counterfoil.budget.charged.cost` is 1, which is no double",
    ),
    "a switch for a number": (
        but(SERVER, client__port=True),
        "span `tools/call pay`: `client.port` is True, which is no int",
    ),
    "no member": (
        but(SERVER, network__transport="pigeon"),
        "span `tools/call pay`: `network.transport` is 'pigeon', which is no one of tcp, quic, pipe",
    ),
    "another kind": (
        replace(VERIFY, kind="client"),
        "span `counterfoil.verify paid`: its kind is CLIENT, not INTERNAL",
    ),
    "an unknown span": (
        replace(VERIFY, name="thinking"),
        "span `thinking`: no such kind of span is registered as INTERNAL",
    ),
    "a name of another pattern": (
        replace(CLIENT, name="MCP send tools/call pay"),
        "span `MCP send tools/call pay`: its name must be `tools/call pay`",
    ),
    "no name of the verifier in the span's": (
        replace(VERIFY, name="counterfoil.verify"),
        "span `counterfoil.verify`: its name must be `counterfoil.verify paid`",
    ),
    "what is required is missing": (
        replace(SERVER, attributes=METHODLESS, name="pay"),
        "span `pay`: `mcp.method.name` is missing",
    ),
    "half of what stands together": (
        but(SERVER, counterfoil__idempotency__key__source="caller"),
        "span `tools/call pay`: `counterfoil.idempotency.key.hash` is missing",
    ),
    "a tool call about no tool": (
        replace(but(CLIENT, gen_ai__tool__name=None), name="tools/call"),
        "span `tools/call`: `tools/call` has no `gen_ai.tool.name`",
    ),
    "a tool call that executes none": (
        but(CLIENT, gen_ai__operation__name=None),
        "span `tools/call pay`: a tool call has no `gen_ai.operation.name`",
    ),
    "no tool call that executes one": (
        replace(but(CLIENT, mcp__method__name="tools/list", gen_ai__tool__name=None), name="tools/list"),
        "span `tools/list`: `gen_ai.operation.name` is set, and it is no tool call",
    ),
    "an error of no type": (
        replace(SERVER, status="error"),
        "span `tools/call pay`: its status is ERROR without `error.type`",
    ),
    "a type of no error": (
        but(SERVER, error__type="tool_error"),
        "span `tools/call pay`: it has `error.type`, and its status is not ERROR",
    ),
    "a sentence for a type": (
        replace(but(SERVER, error__type="the bank is shut"), status="error"),
        "span `tools/call pay`: `error.type` is 'the bank is shut', which is not one word",
    ),
    "a status that only users may set": (
        replace(SERVER, status="ok"),
        "span `tools/call pay`: its status is OK, which only the user's own code may say",
    ),
    "a description of no error": (
        replace(SERVER, description="shut"),
        "span `tools/call pay`: it describes a status that is no ERROR",
    ),
    "an upstream's text": (
        replace(FAILED, description="shut"),
        "span `tools/call pay`: its status is described, which is content that nobody turned on",
    ),
    "an agent's text": (
        but(SERVER, gen_ai__tool__call__arguments="{}"),
        "span `tools/call pay`: `gen_ai.tool.call.arguments` is content, which nobody turned on",
    ),
    "a caller's fault as the server's": (
        replace(but(SERVER, rpc__response__status_code="-32602", error__type="-32602"), status="error"),
        "span `tools/call pay`: the code -32602 is the caller's fault, and no ERROR of the server",
    ),
    "an upstream's code as no error": (
        but(CLIENT, rpc__response__status_code="-32602"),
        "span `tools/call pay`: the code -32602 is an error, and its status is not ERROR",
    ),
    "a code and another type": (
        but(FAILED, error__type="tool_error"),
        "span `tools/call pay`: `error.type` must be the code, `-32602`",
    ),
    "two codes": (
        but(FAILED, rpc__status_code="-1"),
        "span `tools/call pay`: `rpc.response.status_code` and `rpc.status_code` differ",
    ),
    "a session where there are none": (
        but(SERVER, mcp__session__id="s"),
        "span `tools/call pay`: `mcp.session.id` is set for a version that has no sessions",
    ),
    "http on stdio": (
        but(SERVER, network__transport="pipe", network__protocol__name="http"),
        "span `tools/call pay`: `network.protocol.name` is set on stdio",
    ),
    "an event of a span": (
        replace(SERVER, events=(("exception", {}),)),
        "span `tools/call pay`: `exception` is an event of the span, and must be a log event",
    ),
    "a settling that is linked to nothing": (
        replace(SETTLE, links=()),
        "span `counterfoil.settle`: it must be a root with a link to the attempt",
    ),
    "a span of another scope": (
        replace(SERVER, scope=Scope("mcp-python-sdk", "", "")),
        "scope: `mcp-python-sdk` is not ours",
    ),
    "another schema": (replace(SERVER, scope=Scope(SCOPE, "", "")), f"scope: the schema is ``, not `{SCHEMA_URL}`"),
    "a nameless service": (replace(SERVER, resource={"service.version": "1"}), "resource: `service.name` is missing"),
    "an unknown metric": (
        replace(DECISIONS, name="counterfoil.moods"),
        "metric `counterfoil.moods`: it is not registered",
    ),
    "a unit": (replace(DURATION, unit="ms"), "metric `mcp.server.operation.duration`: its unit is `ms`, not `s`"),
    "an instrument": (
        replace(DECISIONS, instrument="updowncounter"),
        "metric `counterfoil.decisions`: its instrument is `updowncounter`, not `counter`",
    ),
    "buckets": (
        replace(DURATION, points=(replace(DURATION.points[0], bounds=(1.0, 2.0)),)),
        f"metric `mcp.server.operation.duration`: its buckets are (1.0, 2.0), not {DURATION.points[0].bounds}",
    ),
    "a label of many values": (
        labelled(DECISIONS, counterfoil__run__id="r"),
        "metric `counterfoil.decisions`: `counterfoil.run.id` has many values, and is a label",
    ),
    "a label of another metric": (
        labelled(DECISIONS, counterfoil__verifier__name="paid"),
        "metric `counterfoil.decisions`: `counterfoil.verifier.name` has no place there",
    ),
    "a series that the SDK folded": (
        labelled(DECISIONS, otel__metric__overflow=True),
        "metric `counterfoil.decisions`: `otel.metric.overflow` is not registered",
    ),
    "an unknown event": (replace(STOPPED, event="counterfoil.mood"), "event `counterfoil.mood`: it is not registered"),
    "a line of a log": (replace(STOPPED, event=""), "event ``: it is not registered"),
    "a severity": (
        but(STOPPED, counterfoil__stop__reason="infeasible"),
        "event `counterfoil.run.stopped`: its severity is 9, not 13 (warn)",
    ),
    "an event of no record": (
        but(STOPPED, counterfoil__record__id=None),
        "event `counterfoil.run.stopped`: `counterfoil.record.id` is missing",
    ),
    "a record of another run": (
        but(STOPPED, counterfoil__record__id="other#7"),
        "event `counterfoil.run.stopped`: `counterfoil.record.id` is `other#7`, which is no record of the run `r`",
    ),
    "a body": (
        replace(STOPPED, body="bye"),
        "event `counterfoil.run.stopped`: it has a body, which is content that nobody turned on",
    ),
    "a score that is no verdict's": (
        but(SEEN, gen_ai__evaluation__score__value=1.0),
        "event `gen_ai.evaluation.result`: `gen_ai.evaluation.score.value` is 1.0, and the verdict `fail`",
    ),
    "half a context": (
        replace(STOPPED, trace_id=TRACE),
        "event `counterfoil.run.stopped`: it names a trace and no span, or a span and no trace",
    ),
}


@pytest.mark.parametrize("breach", PLANTED)
def test_each_breach_is_found(breach: str) -> None:
    told, expected = PLANTED[breach]
    assert expected in violations(of(told))


def test_a_call_that_was_refused_and_sent_is_found() -> None:
    assert violations(of(DENIED, CLIENT)) == ["trace: the decision is `deny`, and `tools/call pay` was sent"]
    assert violations(of(DENIED, but(CLIENT, counterfoil__verifier__name="paid"))) == []


def test_a_tool_that_a_caller_made_up_is_no_label() -> None:
    made_up = labelled(DECISIONS, gen_ai__tool__name="rob")
    assert violations(of(made_up), offered={"pay"}) == [
        "metric `counterfoil.decisions`: `gen_ai.tool.name` is `rob`, which no upstream offers, and not `_OTHER`"
    ]
    assert violations(of(made_up), offered={"rob"}) == []
    assert violations(of(labelled(DECISIONS, gen_ai__tool__name="_OTHER")), offered={"pay"}) == []


def test_content_may_be_there_once_it_is_turned_on() -> None:
    told = but(replace(FAILED, description="shut"), gen_ai__tool__call__arguments="{}")
    assert violations(of(told), content=True) == []
