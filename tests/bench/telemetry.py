"""What telemetry costs a gateway: the same calls without it, with it, and to a backend that hangs, in turn in one run.

    python -m tests.bench.telemetry            all, about two minutes; `--brief` one round of each
    python -m tests.bench.telemetry --json     the same for machines

Every call is a write over HTTP with intent and receipt on disk (SQLite). `spans` exports each span, `all` the log event
of each record and the figures as well; `hung` is `all` to a backend that takes what is sent and never answers. `SDK` is
`all` by OpenTelemetry's own SDK in the place of our spans and log records: what ours are measured against. The gateway
has one core, its threads included; load, upstream and backend have the other. Only the ratios are portable.
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
from contextlib import ExitStack, suppress

from gateway.outbound.otel.running import Running
from tests.bench.figures import MANY, SOME
from tests.bench.ground import Ground, Target, compared
from tests.bench.processes import COUNTERFOIL, await_port, bounded, free_port, started

OFF, SPANS, ALL, HUNG, SDK = "off", "spans", "all", "hung", "SDK"
LOADS = (SOME, MANY)
GOAL = 0.75
"""Of the throughput without telemetry, with every span exported [facts: performance, G5]."""
ROUNDS, BRIEF_ROUNDS = 8, 1
LIMIT_S, END_S = 150.0, 240
WARM_S = 0.5


async def sink(port: int, *, hangs: bool) -> None:
    """A backend that reads all that comes and thinks nothing of it, until killed."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                if not hangs:
                    writer.write(
                        b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
                    )
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    await server.serve_forever()


def by_the_sdk() -> None:
    """The gateway, with the SDK's own spans and log records."""
    from opentelemetry import _logs, trace  # noqa: PLC0415 - only the process that is measured
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk._logs import LoggerProvider  # noqa: PLC0415
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    from gateway.cli import main as command  # noqa: PLC0415

    def spans(_self: Running, _resource: object) -> None:
        provider = TracerProvider()
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), max_queue_size=16_384))
        trace.set_tracer_provider(provider)

    def logs(_self: Running, _resource: object) -> None:
        provider = LoggerProvider()
        provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(), max_queue_size=16_384))
        _logs.set_logger_provider(provider)

    setattr(Running, "_spans", spans)  # noqa: B010 - of this process alone; a method is not assigned
    setattr(Running, "_logs", logs)  # noqa: B010
    command()


def targets(ground: Ground) -> dict[str, Target]:
    """The gateways, warm."""
    backends = {}
    for name in ("takes", "hangs"):
        port = free_port()
        command = [sys.executable, "-m", "tests.bench.telemetry", f"--{name}", str(port)]
        process = ground.stack.enter_context(started(command, ground.load_core))
        await_port(process, port)
        backends[name] = f"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{port}"
    spans = [backends["takes"], "OTEL_METRICS_EXPORTER=none", "OTEL_LOGS_EXPORTER=none"]
    env = {OFF: [], SPANS: spans, ALL: [backends["takes"]], HUNG: [backends["hangs"]], SDK: [backends["takes"]]}
    made = {}
    for name, told in env.items():
        port = free_port()
        program = [COUNTERFOIL] if name != SDK else [sys.executable, "-m", "tests.bench.telemetry"]
        served = ground.wrap_http(ground.sqlite(name), port)
        made[name] = ground.http(["env", *told, *program, *served], port)
        for load in LOADS:
            made[name].wire.load(load.tool, load.at_once, WARM_S, load.a_run)
    return made


def main() -> None:
    if sys.argv[1:2] == ["wrap"]:
        by_the_sdk()
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--takes", type=int)
    parser.add_argument("--hangs", type=int)
    told = parser.parse_args()
    if told.takes or told.hangs:
        asyncio.run(sink(told.takes or told.hangs, hangs=bool(told.hangs)))
        return
    bounded(END_S)
    with ExitStack() as stack:
        made = targets(Ground(stack))
        cells = {load: {("HTTP", name): target for name, target in made.items()} for load in LOADS}
        figures, failures = compared(cells, BRIEF_ROUNDS if told.brief else ROUNDS, time.monotonic() + LIMIT_S)
    ratios: dict[str, dict[str, float]] = {}
    for load in LOADS:
        off = figures["HTTP", OFF, load]
        for name in (SPANS, ALL, HUNG, SDK):
            rounds = zip(figures["HTTP", name, load], off, strict=True)
            ratios.setdefault(name, {})[str(load)] = round(
                statistics.median(one.rate / base.rate for one, base in rounds), 3
            )
    if told.json:
        print(json.dumps({"throughput of off": ratios, "failures": failures}))
        return
    print(f"{'':8}" + "".join(f"{load!s:>34}" for load in LOADS))
    for name in (OFF, SPANS, ALL, HUNG, SDK):
        cells_of = [_cell(figures["HTTP", name, load], ratios.get(name, {}).get(str(load))) for load in LOADS]
        print(f"{name:8}" + "".join(f"{cell:>34}" for cell in cells_of))
    met = all(ratio >= GOAL for ratio in ratios[SPANS].values())
    print(
        f"every span exported, of the throughput without: {ratios[SPANS]} (goal {GOAL}: {'met' if met else 'missed'})"
    )
    for where, what in failures.items():
        print(f"FAILED {where}: {what[:1]}")


def _cell(rounds: object, ratio: float | None) -> str:
    assert isinstance(rounds, list)
    rate, cpu = statistics.median(one.rate for one in rounds), statistics.median(one.cpu_us for one in rounds)
    return f"{rate:,.0f}/s {cpu:,.0f} us" + (f" x{ratio:.2f}" if ratio is not None else "")


if __name__ == "__main__":
    main()
