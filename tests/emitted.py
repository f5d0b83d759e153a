"""Holds what was received against the registry of names and the rules of the conventions: `violations(received)`.

The rules are those of the semantic conventions of MCP and GenAI (v0.1.0), of JSON-RPC and of OpenTelemetry itself.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from gateway.model.telemetry.kinds import SEVERITY_NUMBERS
from gateway.model.telemetry.names import CONTENT, LOG_EVENTS, OTHER, Attr
from tests.telemetry.received import Attributes, Log, Metric, Point, Received, Scope, Span
from tests.telemetry.registry import Attribute, Group, Levels, registry

CALLER_ERRORS = frozenset({"-32700", "-32600", "-32601", "-32602", "-32002"})
"""JSON-RPC codes that are the caller's fault: no error of the server [semantic-conventions-genai, pull request 404]."""

SESSIONLESS = "2026-07-28"
"""The first version of MCP without sessions."""

ERROR_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""One word of few: a sentence would be a series for each failure."""

TYPES: Mapping[str, type] = {"string": str, "int": int, "double": float, "boolean": bool}


def violations(received: Received, *, content: bool = False, offered: Collection[str] | None = None) -> list[str]:
    """Each breach in one sentence, which begins with what it is about; nothing if all is as it must be.

    `content`: somebody turned it on, so that what agents, people and upstreams wrote may be there.
    `offered`: all names of tools that may be labels of metrics beside `_OTHER`; None: that is not looked at.
    """
    about: list[tuple[str, Iterator[str]]] = [(f"span `{span.name}`", _span(span)) for span in received.spans]
    about += [(f"metric `{metric.name}`", _metric(metric)) for metric in received.metrics]
    about += [(f"event `{log.event}`", _log(log)) for log in received.logs]
    told: list[Span | Metric | Log] = [*received.spans, *received.metrics, *received.logs]
    about += [("resource", _resource(one.resource)) for one in told]
    about += [("scope", _scope(one.scope)) for one in told]
    if not content:
        about += [(f"span `{span.name}`", _silent(span)) for span in received.spans]
        about += [(f"event `{log.event}`", _silent(log)) for log in received.logs]
    if offered is not None:
        about += [(f"metric `{metric.name}`", _made_up(metric, offered)) for metric in received.metrics]
    about += [("trace", _sent_though_refused(received.spans))]
    return list(dict.fromkeys(f"{what}: {said}" for what, found in about for said in found))


def _resource(resource: Attributes) -> Iterator[str]:
    levels = registry().service.levels
    yield from _missing(resource, levels)
    yield from _typed({key: value for key, value in resource.items() if key in levels})


def _scope(scope: Scope) -> Iterator[str]:
    if scope.name != registry().scope:
        yield f"`{scope.name}` is not ours"
    elif scope.schema_url != registry().schema_url:
        yield f"the schema is `{scope.schema_url}`, not `{registry().schema_url}`"


# --- attributes -----------------------------------------------------------------------------------------------------


def _held(attributes: Attributes, levels: Levels) -> Iterator[str]:
    """That these are the attributes of such a thing."""
    yield from _missing(attributes, levels)
    for key in attributes:
        if key not in registry().attributes:
            yield f"`{key}` is not registered"
        elif key not in levels:
            yield f"`{key}` has no place there"
    yield from _typed(attributes)


def _missing(attributes: Attributes, levels: Levels) -> Iterator[str]:
    """What is required: always, or since another attribute of the same condition is there."""
    holds = {level for key, level in levels.items() if key in attributes and level.startswith("if ")}
    for key, level in levels.items():
        if key not in attributes and (level == "required" or level in holds):
            yield f"`{key}` is missing"


def _typed(attributes: Attributes) -> Iterator[str]:
    for key, value in attributes.items():
        registered = registry().attributes.get(key)
        if registered is not None and not _fits(registered, value):
            yield f"`{key}` is {value!r}, which is no {_shape(registered)}"
    error = attributes.get(Attr.ERROR_TYPE)
    if isinstance(error, str) and not ERROR_TYPE.fullmatch(error):
        yield f"`{Attr.ERROR_TYPE}` is {error!r}, which is not one word"


def _fits(registered: Attribute, value: Any) -> bool:
    if registered.type == "enum":
        return isinstance(value, str) and (registered.open or value in registered.members)
    if registered.type == "string[]":
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    return type(value) is TYPES[registered.type]


def _shape(registered: Attribute) -> str:
    return f"one of {', '.join(registered.members)}" if registered.members else registered.type


# --- spans ----------------------------------------------------------------------------------------------------------


def _span(span: Span) -> Iterator[str]:
    kind = _kind_of(span)
    if kind is None:
        yield f"no such kind of span is registered as {span.kind.upper()}"
        return
    if span.kind != kind.said["kind"]:
        yield f"its kind is {span.kind.upper()}, not {kind.said['kind'].upper()}"
    if span.name != (name := _named(kind.said["name"]["pattern"], span.attributes)):
        yield f"its name must be `{name}`"
    yield from _held(span.attributes, kind.levels)
    yield from _status(span)
    if Attr.MCP_METHOD_NAME in kind.levels:
        yield from _operation(span.attributes)
        yield from _code(span)
    if kind.name == "counterfoil.settle" and (span.parent_id or not span.links):
        yield "it must be a root with a link to the attempt"
    for event, _ in span.events:
        yield f"`{event}` is an event of the span, and must be a log event"


def _kind_of(span: Span) -> Group | None:
    """By its name if that is one of ours, else by its side."""
    spans = registry().spans
    return spans.get(span.name.split(" ")[0]) or spans.get(f"mcp.{span.kind}")


def _named(pattern: str, attributes: Attributes) -> str:
    target = attributes.get(Attr.GEN_AI_TOOL_NAME) or attributes.get(Attr.GEN_AI_PROMPT_NAME) or ""
    known = {**attributes, "target": target}
    return re.sub(r"\{([a-z_.]+)\}", lambda found: str(known.get(found[1], "")), pattern).strip()


def _status(span: Span) -> Iterator[str]:
    failed = span.status == "error"
    if failed and Attr.ERROR_TYPE not in span.attributes:
        yield f"its status is ERROR without `{Attr.ERROR_TYPE}`"
    if not failed and Attr.ERROR_TYPE in span.attributes:
        yield f"it has `{Attr.ERROR_TYPE}`, and its status is not ERROR"
    if span.status == "ok":
        yield "its status is OK, which only the user's own code may say"
    if span.description and not failed:
        yield "it describes a status that is no ERROR"


def _operation(attributes: Attributes) -> Iterator[str]:
    """What a method asks for, and the rules of transports and versions; the same of spans and of metrics."""
    method, said = attributes.get(Attr.MCP_METHOD_NAME), attributes.get(Attr.GEN_AI_OPERATION_NAME)
    unreadable = attributes.get(Attr.RPC_RESPONSE_STATUS_CODE, attributes.get(Attr.RPC_STATUS_CODE)) in CALLER_ERRORS
    for about, key in (("tools/call", Attr.GEN_AI_TOOL_NAME), ("prompts/get", Attr.GEN_AI_PROMPT_NAME)):
        if method == about and key not in attributes and not unreadable:
            yield f"`{about}` has no `{key}`"
    if method == "tools/call" and said is None:
        yield f"a tool call has no `{Attr.GEN_AI_OPERATION_NAME}`"
    if method != "tools/call" and said is not None:
        yield f"`{Attr.GEN_AI_OPERATION_NAME}` is set, and it is no tool call"
    if Attr.MCP_SESSION_ID in attributes and str(attributes.get(Attr.MCP_PROTOCOL_VERSION, "")) >= SESSIONLESS:
        yield f"`{Attr.MCP_SESSION_ID}` is set for a version that has no sessions"
    if attributes.get(Attr.NETWORK_TRANSPORT) == "pipe":
        for key in (Attr.NETWORK_PROTOCOL_NAME, Attr.NETWORK_PROTOCOL_VERSION, Attr.SERVER_ADDRESS, Attr.SERVER_PORT):
            if key in attributes:
                yield f"`{key}` is set on stdio"


def _code(span: Span) -> Iterator[str]:
    """JSON-RPC's error code: whose fault it is depends on the side."""
    older, newer = span.attributes.get(Attr.RPC_RESPONSE_STATUS_CODE), span.attributes.get(Attr.RPC_STATUS_CODE)
    if older is not None and newer is not None and older != newer:
        yield f"`{Attr.RPC_RESPONSE_STATUS_CODE}` and `{Attr.RPC_STATUS_CODE}` differ"
    code = older if older is not None else newer
    if code is None:
        return
    if span.kind == "server" and code in CALLER_ERRORS:
        if span.status == "error":
            yield f"the code {code} is the caller's fault, and no ERROR of the server"
    elif span.status != "error":
        yield f"the code {code} is an error, and its status is not ERROR"
    elif span.attributes.get(Attr.ERROR_TYPE) != code:
        yield f"`{Attr.ERROR_TYPE}` must be the code, `{code}`"


NEVER_SENT = frozenset({"deny", "replay", "needs_approval"})


def _sent_though_refused(spans: list[Span]) -> Iterator[str]:
    """What was not let through has no attempt below it; the calls by which verifiers look are none."""
    told = {
        (span.trace_id, span.span_id): span.attributes.get(Attr.DECISION_OUTCOME)
        for span in spans
        if span.kind == "server"
    }
    for span in spans:
        outcome = told.get((span.trace_id, span.parent_id))
        attempt = span.attributes.get(Attr.MCP_METHOD_NAME) == "tools/call" and not span.attributes.get(
            Attr.VERIFIER_NAME
        )
        if span.kind == "client" and attempt and outcome in NEVER_SENT:
            yield f"the decision is `{outcome}`, and `{span.name}` was sent"


def _silent(told: Span | Log) -> Iterator[str]:
    """That nothing is there of what agents, people and upstreams wrote."""
    for key in sorted(CONTENT & told.attributes.keys()):
        yield f"`{key}` is content, which nobody turned on"
    if isinstance(told, Span) and told.description:
        yield "its status is described, which is content that nobody turned on"
    if isinstance(told, Log) and told.body is not None:
        yield "it has a body, which is content that nobody turned on"


# --- metrics, log events --------------------------------------------------------------------------------------------


def _metric(metric: Metric) -> Iterator[str]:
    registered = registry().metrics.get(metric.name)
    if registered is None:
        yield "it is not registered"
        return
    said = registered.said
    told = {"instrument": metric.instrument, "unit": metric.unit, "brief": metric.description}
    for part, value in told.items():
        if value != (expected := said[part].removesuffix(".")):
            yield f"its {part} is `{value}`, not `{expected}`"
    for point in metric.points:
        yield from _point(registered, point)


def _point(registered: Group, point: Point) -> Iterator[str]:
    bounds = tuple(float(bound) for bound in registered.notes.get("buckets", ()))
    if point.bounds != bounds:
        yield f"its buckets are {point.bounds}, not {bounds}"
    for key in point.attributes:
        attribute = registry().attributes.get(key)
        if attribute is not None and not attribute.low:
            yield f"`{key}` has many values, and is a label"
    yield from _held(point.attributes, registered.levels)
    if Attr.MCP_METHOD_NAME in registered.levels:
        yield from _operation(point.attributes)


def _made_up(metric: Metric, offered: Collection[str]) -> Iterator[str]:
    """Labels that a caller chose: each would be a series of its own."""
    for point in metric.points:
        tool = point.attributes.get(Attr.GEN_AI_TOOL_NAME, OTHER)
        if tool != OTHER and tool not in offered:
            yield f"`{Attr.GEN_AI_TOOL_NAME}` is `{tool}`, which no upstream offers, and not `{OTHER}`"


def _log(log: Log) -> Iterator[str]:
    registered = registry().events.get(log.event)
    if registered is None:
        yield "it is not registered"
        return
    severity = LOG_EVENTS[registered.notes["kind"]].severity_of(log.attributes)
    if log.severity != SEVERITY_NUMBERS[severity]:
        yield f"its severity is {log.severity}, not {SEVERITY_NUMBERS[severity]} ({severity})"
    yield from _held(log.attributes, registered.levels)
    yield from _score(log.attributes)
    record, run = log.attributes.get(Attr.RECORD_ID), log.attributes.get(Attr.RUN_ID)
    if isinstance(record, str) and not re.fullmatch(rf"{re.escape(str(run))}#[1-9]\d*", record):
        yield f"`{Attr.RECORD_ID}` is `{record}`, which is no record of the run `{run}`"
    if bool(log.trace_id) != bool(log.span_id):
        yield "it names a trace and no span, or a span and no trace"


SCORES = {"pass": 1.0, "fail": 0.0}


def _score(attributes: Attributes) -> Iterator[str]:
    """A verdict as a figure; what is inconclusive is none."""
    label, score = (
        attributes.get(Attr.GEN_AI_EVALUATION_SCORE_LABEL),
        attributes.get(Attr.GEN_AI_EVALUATION_SCORE_VALUE),
    )
    if label is not None and score != SCORES.get(label):
        yield f"`{Attr.GEN_AI_EVALUATION_SCORE_VALUE}` is {score}, and the verdict `{label}`"
