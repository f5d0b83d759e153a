"""Exporters from their start to their end."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal
from uuid import uuid4

from gateway.outbound.otel.batches import Batches
from gateway.outbound.otel.hush import hush
from gateway.outbound.otel.switches import SIGNALS, Signal, bounds, exporters

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.sampling import Sampler

    from gateway.outbound.otel.encoding import Value
    from gateway.outbound.otel.figures import Scrape
    from gateway.outbound.otel.senders import Said

_LOG = logging.getLogger("counterfoil.otel")

FLUSH_S = 2.5
"""For all signals together, within the 5 s that a stopping gateway has; a hung endpoint would take the SDK 20 s."""

_RECORDS = {"traces": "spans", "logs": "log events"}


class Running:
    """What goes out."""

    def __init__(self, signals: frozenset[Signal]) -> None:
        self.signals = signals
        """Those that somebody takes."""
        self.scrape: Scrape | None = None
        """All figures for Prometheus, if they are wanted so."""
        self._batches: dict[str, Batches[Said]] = {}
        self._ends: list[Callable[[], None]] = []
        """End what is still being sent, by signal; may block."""
        self._shut: list[Callable[[], None]] = []
        """Wake exporters that wait to try again."""
        self._unsent: Callable[[], int] = lambda: 0
        """How often figures were not taken."""

    def _spans(self, resource: "Mapping[str, Value]") -> None:
        from opentelemetry import trace  # noqa: PLC0415 - the SDK costs 0.3 s to import, and most gateways export nothing

        from gateway.outbound.otel.spans import LeanTracerProvider  # noqa: PLC0415

        sampler, batches = _sampler(), self._sent("traces", resource)
        trace.set_tracer_provider(LeanTracerProvider(lambda scope, one: batches.put((scope, one)), sampler))

    def _logs(self, resource: "Mapping[str, Value]") -> None:
        from opentelemetry import _logs  # noqa: PLC0415 - as above

        from gateway.outbound.otel.logs import LeanLoggerProvider  # noqa: PLC0415

        batches = self._sent("logs", resource)
        _logs.set_logger_provider(LeanLoggerProvider(lambda scope, one: batches.put((scope, one))))

    def _metrics(self, wanted: frozenset[str], resource: "Mapping[str, Value]") -> None:
        from gateway.outbound.otel.figures import keep  # noqa: PLC0415 - as above

        figures = keep(wanted, resource, self._dropped)
        self.scrape, self._unsent = figures.scrape, figures.unsent
        self._ends.append(figures.shutdown)

    def begin(self, signal: Signal, wanted: frozenset[str], resource: "Mapping[str, Value]") -> None:
        """That signal goes to these exporters from now on; where none can be made, that is said, and it does not.

        A variable that an exporter cannot read must not keep a gateway from its work.
        """
        try:
            if signal == "metrics":
                self._metrics(wanted, resource)
            elif signal == "traces":
                self._spans(resource)
            else:
                self._logs(resource)
        except Exception as error:  # noqa: BLE001 - whatever the SDK finds wrong with its environment
            self.signals -= {signal}
            _LOG.warning("no %s are told: %s (see the variables OTEL_EXPORTER_OTLP_*)", signal, error)

    def _dropped(self) -> Mapping[str, int]:
        return {"metrics": self._unsent(), **{signal: one.dropped for signal, one in self._batches.items()}}

    def _sent(self, signal: Literal["traces", "logs"], resource: "Mapping[str, Value]") -> "Batches[Said]":
        from gateway.outbound.otel.senders import sender  # noqa: PLC0415 - as above

        exporter, export = sender(signal, resource)
        batches: Batches[Said] = Batches(_RECORDS[signal], bounds(signal), export, lambda said: len(said[1]))
        self._batches[signal] = batches
        self._shut.append(exporter.shutdown)
        return batches

    async def flush(self) -> None:
        """What waits is sent, or `FLUSH_S` has passed; more may come."""
        for batches in self._batches.values():
            await asyncio.to_thread(batches.flush, FLUSH_S / len(self._batches))

    async def stop(self) -> None:
        """What waits is sent or given up within `FLUSH_S`; what was dropped is said."""
        await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, self._stop))

    def _stop(self) -> None:
        until = time.monotonic() + FLUSH_S
        for batches in self._batches.values():
            batches.close()
        ends = [threading.Thread(target=end, daemon=True) for end in self._ends]  # daemons: as in `Batches`
        for one in ends:
            one.start()
        sent = [batches.ended(max(0.0, until - time.monotonic())) for batches in self._batches.values()]
        for one in ends:
            one.join(max(0.0, until - time.monotonic()))
        lost = {one.what: one.dropped + one.left for one in self._batches.values() if one.dropped + one.left}
        if not all(sent):
            for shut in self._shut:
                threading.Thread(target=shut, daemon=True).start()
        if any(one.is_alive() for one in ends):
            lost["the last figures"] = 0
        elif self._unsent():
            lost["reports of figures"] = self._unsent()
        if lost:
            what = ", ".join(f"{count} {name}" if count else name for name, count in lost.items())
            _LOG.warning("telemetry that its backend did not take, and which is dropped: %s", what)


def start(*, prometheus: bool = False) -> Running | None:
    """What the environment asks for goes out from now on; None where nothing is asked for.

    With `prometheus`, metrics are kept to be scraped whatever it says.
    """
    wanted = {signal: exporters(signal) for signal in SIGNALS}
    if prometheus and os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true":
        wanted["metrics"] |= {"prometheus"}
    if not any(wanted.values()):
        return None
    hush()
    running, resource = Running(frozenset(signal for signal in SIGNALS if wanted[signal])), _resource()
    for signal in [one for one in SIGNALS if one in running.signals]:
        running.begin(signal, wanted[signal], resource)
    return running


def _resource() -> "Mapping[str, Value]":
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - as above

    ours = {"service.version": version("counterfoil"), "service.instance.id": str(uuid4())}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        ours["service.name"] = "counterfoil"
    told = Resource.create().attributes  # what the environment says, its service name included
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if named:
        ours.pop("service.name", None)
    return {**told, **{key: value for key, value in ours.items() if key == "service.name" or key not in told}}  # type: ignore[dict-item]  # its values are attributes'


def _sampler() -> "Sampler | None":
    """By OTEL_TRACES_SAMPLER; None for the default, which needs no SDK."""
    from opentelemetry.sdk.trace import sampling  # noqa: PLC0415 - as above

    told = os.environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    fixed: Mapping[str, Sampler] = {
        "always_on": sampling.ALWAYS_ON,
        "always_off": sampling.ALWAYS_OFF,
        "parentbased_always_off": sampling.DEFAULT_OFF,
    }
    if told in {"traceidratio", "parentbased_traceidratio"}:
        ratio = sampling.TraceIdRatioBased(_ratio())
        return sampling.ParentBased(ratio) if told.startswith("parentbased") else ratio
    if told not in {*fixed, "", "parentbased_always_on"}:
        _LOG.warning("OTEL_TRACES_SAMPLER names `%s`, which is not known here: parentbased_always_on it is", told[:64])
    return fixed.get(told)


def _ratio() -> float:
    told = os.environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    try:
        ratio = float(told or 1.0)
    except ValueError:
        ratio = -1.0
    if 0.0 <= ratio <= 1.0:
        return ratio
    _LOG.warning("OTEL_TRACES_SAMPLER_ARG must be a number from 0 to 1, not `%s`: 1 it is", told[:64])
    return 1.0
