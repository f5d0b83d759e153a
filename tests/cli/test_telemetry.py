"""Spans as a real OTLP receiver gets them, over both protocols: one SERVER and one CLIENT span, and no others."""

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent import futures
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import grpc
import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as otlp_grpc

from tests.cli.agents import counterfoil, ledger_of

pytestmark = pytest.mark.anyio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Received(list[Any]):
    """Spans, with the name of the scope that made each."""

    def take(self, request: otlp.ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.extend((scope.scope.name, span) for span in scope.spans)


@asynccontextmanager
async def over_http(received: Received) -> AsyncIterator[int]:
    async def traces(request: web.Request) -> web.Response:
        received.take(otlp.ExportTraceServiceRequest.FromString(await request.read()))
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", traces)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@asynccontextmanager
async def over_grpc(received: Received) -> AsyncIterator[int]:
    class Service(otlp_grpc.TraceServiceServicer):
        def Export(self, request: Any, context: Any) -> Any:  # noqa: ARG002, N802 - the protocol's names
            received.take(request)
            return otlp.ExportTraceServiceResponse()

    server = grpc.server(futures.ThreadPoolExecutor(1))
    otlp_grpc.add_TraceServiceServicer_to_server(Service(), server)  # type: ignore[no-untyped-call]  # generated
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield port
    await asyncio.to_thread(server.stop(1).wait)


@pytest.mark.parametrize(("receiver", "protocol"), [(over_http, "http/protobuf"), (over_grpc, "grpc")])
async def test_each_call_is_one_server_span_and_each_attempt_one_client_span(
    receiver: Callable[[Received], Any], protocol: str, time_server: list[str], tmp_path: Path
) -> None:
    received = Received()
    async with receiver(received) as port:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_EXPORTER_OTLP_PROTOCOL": protocol}
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **env) as window:
            await window.call("get_current_time", {"timezone": "UTC"}, traceparent=PARENT)
            await window.call("no_such_tool", {})
        with anyio.fail_after(10):
            while len(received) < 3:
                await asyncio.sleep(0.02)
    assert {scope for scope, _ in received} == {"counterfoil"}
    named = sorted((span.name, span.kind) for _, span in received)
    server, client = 2, 3
    assert named == [
        ("tools/call get_current_time", server),
        ("tools/call get_current_time", client),
        ("tools/call no_such_tool", server),
    ]
    spans = {span.kind: span for _, span in received if span.name.endswith("time")}
    assert spans[server].parent_span_id.hex() == "b7ad6b7169203331"
    assert spans[client].parent_span_id == spans[server].span_id


async def test_a_backend_that_hangs_does_not_hold_the_gateway(time_server: list[str], tmp_path: Path) -> None:
    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while await reader.read(65_536):
                pass
        writer.close()

    hung = await asyncio.start_server(swallow, "127.0.0.1", 0)
    async with hung:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{hung.sockets[0].getsockname()[1]}"}
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **env) as window:
            told = await window.call("get_current_time", {"timezone": "UTC"})
            assert told.get("isError") is not True
            window.process.terminate()
            with anyio.fail_after(5):
                assert await window.process.wait() == 0
        assert any("they are dropped" in line for line in window.said)
