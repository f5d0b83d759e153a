"""Spans within a request, and within recovery: where a call waits for a person, and where a verifier looks."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import trace
from opentelemetry.context import attach, detach
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, TraceState

from gateway.model.record import TraceContext
from gateway.model.run import Attempt, Run
from gateway.model.telemetry.names import Attr, Spans
from gateway.model.tool import Answer, NotSent, Silence
from gateway.model.trusted import trusted
from gateway.runtime.trace.facts import question, standing_of
from gateway.runtime.trace.providers import TRACER


def tracer() -> trace.Tracer:
    """Ours."""
    return _TRACER


_TRACER = TRACER


_context = trusted(TraceContext)

_LAST: list[Any] = [None, None]
"""The span whose context was asked for last, and that."""


def context() -> TraceContext | None:
    """The current span, for a record; None without an SDK."""
    current = trace.get_current_span().get_span_context()
    if not current.is_valid:
        return None
    if _LAST[0] is not current:  # several records of one request are made in turn
        _LAST[:] = current, _context(trace_id=f"{current.trace_id:032x}", span_id=f"{current.span_id:016x}")
    found: TraceContext = _LAST[1]
    return found


def linked(where: TraceContext | None) -> list[Link]:
    """A link to the span in which something was recorded."""
    if where is None:
        return []
    ids = int(where.trace_id, 16), int(where.span_id, 16)
    if trace.get_current_span().get_span_context().span_id == ids[1]:  # it was asked and answered in one request
        return []
    return [
        Link(SpanContext(*ids, is_remote=True, trace_flags=TraceFlags(TraceFlags.SAMPLED), trace_state=TraceState()))
    ]


def failed(span: Span, kind: str) -> None:
    """It is an error of that kind. Its text is content, and not told."""
    span.set_attribute(Attr.ERROR_TYPE, kind)
    span.set_status(Status(StatusCode.ERROR))


# --- verifiers --------------------------------------------------------------------------------------------------------


class Looking:
    """A verifier, while it looks."""

    def __init__(self, span: Span) -> None:
        self._span = span

    def saw(self, answer: Answer) -> None:
        """What came of it; no look at all is an error."""
        if isinstance(answer, NotSent | Silence):
            failed(self._span, "not_seen")


@contextmanager
def within(span: Span) -> Iterator[None]:
    """It is the current span within the block, and ends with it. As `use_span` at a third of its cost."""
    token = attach(trace.set_span_in_context(span))
    try:
        yield
    finally:
        detach(token)
        span.end()


@contextmanager
def verifying(name: str, run: str, attempt: str | None) -> Iterator[Looking]:
    """The span of one look, current within the block."""
    attributes: dict[str, Any] = {Attr.VERIFIER_NAME: name, Attr.RUN_ID: run}
    if attempt is not None:
        attributes[Attr.INTENT_ID] = attempt
    span = _TRACER.start_span(f"{Spans.VERIFY.type} {name}", kind=SpanKind.INTERNAL, attributes=attributes)
    with within(span):
        yield Looking(span)


# --- people -----------------------------------------------------------------------------------------------------------


def waiting(run: str, approval: str, state: Callable[[], Run | None]) -> Callable[[], None]:
    """The span of a call that waits for a person with its client, from now until the result is called.

    `state` is the run as it is known here at that moment.
    """
    attributes = {Attr.RUN_ID: run, Attr.APPROVAL_ID: approval}
    span = _TRACER.start_span(Spans.APPROVAL.name, kind=SpanKind.INTERNAL, attributes=attributes)

    def end() -> None:
        known = state()
        if known is not None and approval in known.approvals:
            span.set_attributes(question(known, approval))
        span.end()

    return end


# --- recovery ---------------------------------------------------------------------------------------------------------


@contextmanager
def settling(run: Run, attempt: Attempt) -> Iterator[None]:
    """The span of what recovery does for an attempt: a trace of its own, linked to that of the attempt."""
    attributes: dict[str, Any] = {
        Attr.RUN_ID: run.id,
        Attr.INTENT_ID: attempt.id,
        Attr.TOOL_EFFECT: attempt.intent.effect.value,
        **standing_of(run, attempt.id),
    }
    if attempt.intent.upstream is not None:
        attributes[Attr.UPSTREAM_NAME] = attempt.intent.upstream
    if run.principal is not None:
        attributes[Attr.TENANT] = run.principal.tenant
    root = trace.set_span_in_context(trace.INVALID_SPAN)
    with within(
        _TRACER.start_span(
            Spans.SETTLE.name, root, SpanKind.INTERNAL, attributes=attributes, links=linked(attempt.made_in)
        )
    ):
        yield
