"""Each record of the ledger, told once it is durable: as a log event, in figures, and on the span of its request."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from time import perf_counter

from opentelemetry._logs import SeverityNumber
from opentelemetry.metrics import CallbackOptions, Observation

from gateway.kernel.rules import Rules
from gateway.model.canonical import Digest
from gateway.model.events import Event, Held, IntentRecorded, RunStopped, Verdict
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.model.telemetry.kinds import SEVERITY_NUMBERS
from gateway.model.telemetry.names import CONTENT, LOG_EVENTS, Attr, Metrics
from gateway.ports import Observed, Sending
from gateway.runtime.trace.content import content
from gateway.runtime.trace.facts import Attributes, Facts, Told, question
from gateway.runtime.trace.figures import counted
from gateway.runtime.trace.inner import linked
from gateway.runtime.trace.options import Options
from gateway.runtime.trace.providers import METER, logger
from gateway.runtime.trace.requests import Inbound, Request, current, inbound
from gateway.runtime.trace.sendings import outbound

_LOG = logging.getLogger("counterfoil.telemetry")

_NUMBERS = {severity: SeverityNumber(number) for severity, number in SEVERITY_NUMBERS.items()}

_SINCE: ContextVar[float | None] = ContextVar("counterfoil.proposed", default=None)


def proposed() -> None:
    """A proposal came: until its verdict is on disk, that is how long it was judged."""
    _SINCE.set(perf_counter())


class Telemetry:
    """All that is told of one gateway. It reads what is recorded, and decides nothing."""

    def __init__(self, salt: bytes, options: Options) -> None:
        self.options = options
        self.knows: Callable[[str], bool] = lambda _: False
        """Whether a tool or prompt of that name is offered, or is one of ours: others are no labels."""
        self._facts = Facts(salt)
        self._logger = logger()

    def inbound(self, request: Inbound) -> AbstractContextManager[Request]:
        """The span of one request, current within the block."""
        named = request.tool or request.prompt
        if request.session is not None:
            request = replace(request, session=self._facts.hashed(request.session))
        return inbound(request, self.options, known=named is None or self.knows(named))

    def outbound(self, sending: Sending) -> AbstractContextManager[Observed]:
        """The span of one request to an upstream, current within the block."""
        return outbound(sending, self.options)

    def standing(self, ages_s: Callable[[], Sequence[float]], questions: Callable[[], int]) -> None:
        """How things stand in the whole ledger: for how long attempts have been unknown, how many questions wait.

        Both are asked when somebody collects, by another thread.
        """

        def many(_: CallbackOptions) -> Iterator[Observation]:
            yield Observation(len(ages_s()))

        def oldest(_: CallbackOptions) -> Iterator[Observation]:
            yield Observation(max(ages_s(), default=0.0))

        def waiting(_: CallbackOptions) -> Iterator[Observation]:
            yield Observation(questions())

        asked = ((Metrics.INTENT_UNRESOLVED, many), (Metrics.INTENT_UNRESOLVED_AGE, oldest))
        for metric, ask in (*asked, (Metrics.APPROVAL_PENDING, waiting)):
            METER.create_observable_gauge(metric.name, [ask], metric.unit, metric.description)

    def recorded(self, records: Sequence[Record], run: Run, rules: Rules, payloads: Mapping[Digest, bytes]) -> None:
        """These records are durable, and this is the run after them."""
        request, since, options = current(), _SINCE.get(), self.options
        marked = request if request is not None and request.span.is_recording() else None
        for record in records if marked is not None or options.events or options.figures else ():
            try:
                self._tell(Told(record, run, rules), payloads, marked, since)
            except Exception:  # noqa: BLE001 - it is on disk, and whoever asked for it must hear so
                _LOG.exception("record %s could not be told to telemetry", record.id)

    def _tell(self, told: Told, payloads: Mapping[Digest, bytes], request: Request | None, since: float | None) -> None:
        event, options = told.record.event, self.options
        facts = self._facts.of(told)
        shown = content(event, payloads, options) if options.tells else {}
        if options.figures:
            counted(told, facts, perf_counter() - since if isinstance(event, Verdict) and since else None)
        if options.events:
            self._say(told, facts | shown if options.on_events else facts)
        if request is not None and _is_about(request, event):
            self._mark(request, told, facts, shown)

    def _say(self, told: Told, facts: Attributes) -> None:
        """The log event, in the span that is current."""
        record, event = told.record, LOG_EVENTS[told.record.event.kind]
        attributes = {Attr.RECORD_ID: record.id, Attr.RUN_ID: record.run, **facts}
        if told.run.principal is not None:
            attributes[Attr.TENANT] = told.run.principal.tenant
        severity = event.severity_of(attributes)
        self._logger.emit(
            timestamp=int(record.at.timestamp() * 1_000_000) * 1_000,
            severity_number=_NUMBERS[severity],
            severity_text=severity.upper(),
            event_name=event.name,
            attributes=attributes,
        )

    def _mark(self, request: Request, told: Told, facts: Attributes, shown: Attributes) -> None:
        """What the record says, on the span of the request that it was made for."""
        record, event = told.record, told.record.event
        made = {key: value for key, value in facts.items() if key not in _OF_EVENTS}
        if isinstance(event, Verdict):
            made |= {Attr.DECISION_ID: record.id, Attr.RUN_ID: record.run}
            if told.run.principal is not None:
                made[Attr.TENANT] = told.run.principal.tenant
            request.attempt = getattr(event, "attempt", None)
            if event.definition is not None:
                request.names(event.tool)
        made.pop(Attr.GEN_AI_TOOL_NAME, None)  # the request has it
        if isinstance(event, IntentRecorded) and event.approval is not None:
            for link in linked(told.run.approvals[event.approval].asked_in):
                request.span.add_link(link.context)
        if isinstance(event, RunStopped):
            made.pop(Attr.POLICY_RULE_ID, None)  # the verdict's stays
        if isinstance(event, Held) and Attr.APPROVAL_ID in made:
            made[Attr.APPROVAL_STATE] = question(told.run, made[Attr.APPROVAL_ID])[Attr.APPROVAL_STATE]
        if self.options.on_spans:
            made |= {key: value for key, value in shown.items() if key in CONTENT}
        request.judged(made)


def _is_about(request: Request, event: Event) -> bool:
    """Whether it is about what the request asks for, and not about another call that is made meanwhile to undo it."""
    if isinstance(event, Verdict):
        return event.compensates is None
    about = getattr(event, "attempt", None)
    return about is None or request.attempt in {None, about}


_OF_EVENTS = frozenset(
    {
        Attr.GEN_AI_EVALUATION_NAME,
        Attr.GEN_AI_EVALUATION_SCORE_LABEL,
        Attr.GEN_AI_EVALUATION_SCORE_VALUE,
        Attr.PLAN_REVISION,
        Attr.FINISH_OUTCOME,
        Attr.NOTICE_CHANNEL,
        Attr.NOTICE_OUTCOME,
        Attr.QUERY_VERDICT,
        Attr.RETRY_CLASS,
    }
)
"""Of log events alone."""
