"""A real receiver of OTLP, over HTTP and gRPC, for all three signals; it can also fail as backends do."""

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent import futures
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import anyio
import grpc
from aiohttp import web
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2_grpc as logs_grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc as metrics_grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as traces_grpc

from tests.telemetry.received import Received, Signal

Protocol: TypeAlias = Literal["http/protobuf", "grpc"]

PROTOCOLS: tuple[Protocol, ...] = ("http/protobuf", "grpc")

LIMIT_S = 20
"""For whatever is to come; exporters send what they batched every few seconds."""


@dataclass(frozen=True, slots=True)
class Faults:
    """What is wrong with the backend."""

    hangs: bool = False
    """It takes requests and never answers."""
    refuses: bool = False
    """Nothing listens there."""
    unavailable: int = 0
    """So many requests are first answered with 503 (`UNAVAILABLE`)."""
    without: frozenset[Signal] = frozenset()
    """These signals it does not take: 405 (`UNIMPLEMENTED`)."""


@dataclass(slots=True)
class Receiver(Received):
    """A receiver that listens."""

    faults: Faults = field(default_factory=Faults)
    protocol: Protocol = "http/protobuf"
    endpoint: str = ""
    asked: list[tuple[Signal, int]] = field(default_factory=list)
    """Each request that came: its signal and the status by HTTP that it got; 0 where it got none."""
    encodings: set[str] = field(default_factory=set)
    """Of the bodies by HTTP, such as `gzip`; gRPC does not tell."""
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def env(self) -> dict[str, str]:
        """What tells a gateway to send everything here."""
        return {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_EXPORTER_OTLP_PROTOCOL": self.protocol,
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_LOGS_EXPORTER": "otlp",
        }

    async def until(self, there: Callable[[], bool]) -> None:
        """Comes back once that is so.

        Raises: TimeoutError where it is not so in `LIMIT_S`.
        """
        with anyio.fail_after(LIMIT_S):
            while not there():
                await asyncio.sleep(0.02)

    def got(self, signal: Signal, request: Any) -> int:
        """The status that the request gets, once it was taken where it is taken."""
        status = self._status(signal)
        self.asked.append((signal, status))
        if status == 200:
            self.take(signal, request)
        return status

    def _status(self, signal: Signal) -> int:
        if self.faults.hangs:
            return 0
        if signal in self.faults.without:
            return 405
        return 503 if sum(status == 503 for _, status in self.asked) < self.faults.unavailable else 200


@asynccontextmanager
async def receiver(protocol: Protocol = "http/protobuf", faults: Faults | None = None) -> AsyncIterator[Receiver]:
    """A receiver on a port of its own of 127.0.0.1, for as long as the block lasts."""
    made = Receiver(faults=faults or Faults(), protocol=protocol)
    if made.faults.refuses:
        with _deaf() as port:
            made.endpoint = f"http://127.0.0.1:{port}"
            yield made
        return
    async with (_http if protocol == "http/protobuf" else _grpc)(made) as port:
        made.endpoint = f"http://127.0.0.1:{port}"
        try:
            yield made
        finally:
            made.over.set()  # those that hang are let go, so that the server can end


@contextmanager
def _deaf() -> Iterator[int]:
    """A port that nobody else gets and where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


HTTP: dict[str, tuple[Signal, Any, Any]] = {
    "/v1/traces": ("traces", traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse),
    "/v1/metrics": ("metrics", metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/v1/logs": ("logs", logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}
"""Path to what is asked and answered there [OTLP 1.x, OTLP/HTTP]."""


@asynccontextmanager
async def _http(made: Receiver) -> AsyncIterator[int]:
    async def export(request: web.Request) -> web.Response:
        signal, asked, answer = HTTP[request.path]
        body = await request.read()  # without its encoding, which the server has taken off
        made.encodings.add(request.headers.get("Content-Encoding", "identity"))
        status = made.got(signal, asked.FromString(body))
        while not status and not made.over.is_set():
            await asyncio.sleep(0.02)
        content = answer().SerializeToString()
        return web.Response(status=status or 503, body=content, content_type="application/x-protobuf")

    app = web.Application()
    for path in HTTP:
        app.router.add_post(path, export)
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


CODES = {405: grpc.StatusCode.UNIMPLEMENTED, 503: grpc.StatusCode.UNAVAILABLE}


@asynccontextmanager
async def _grpc(made: Receiver) -> AsyncIterator[int]:
    def service(signal: Signal, servicer: Any, answer: Any) -> Any:
        class Service(servicer):  # type: ignore[misc]  # generated, without types
            def Export(self, request: Any, context: Any) -> Any:  # noqa: N802 - the protocol's name
                status = made.got(signal, request)
                if not status:
                    made.over.wait(LIMIT_S)
                if status != 200:
                    context.abort(CODES.get(status, grpc.StatusCode.UNAVAILABLE), "as the test wants it")
                return answer()

        return Service()

    server = grpc.server(futures.ThreadPoolExecutor(3))
    add: list[tuple[Any, Any]] = [
        (
            traces_grpc.add_TraceServiceServicer_to_server,
            service("traces", traces_grpc.TraceServiceServicer, traces.ExportTraceServiceResponse),
        ),
        (
            metrics_grpc.add_MetricsServiceServicer_to_server,
            service("metrics", metrics_grpc.MetricsServiceServicer, metrics.ExportMetricsServiceResponse),
        ),
        (
            logs_grpc.add_LogsServiceServicer_to_server,
            service("logs", logs_grpc.LogsServiceServicer, logs.ExportLogsServiceResponse),
        ),
    ]
    for put, one in add:
        put(one, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        await asyncio.to_thread(server.stop(1).wait)
