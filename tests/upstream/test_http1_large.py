"""Requests of many megabytes, and a server that is not ours; on both event loops."""

import asyncio
import hashlib
import socket
from typing import Any

import anyio
import pytest
import uvicorn

from gateway.outbound.upstream.http1 import Lost
from tests.upstream.http1_server import LOOPS, NAMES, TIME_LIMIT_S, Peer, ask, client, ok, serving

MUCH = 1 << 25
LARGE = bytes(range(256)) * 40 * 1024  # 10 MiB


@pytest.fixture(params=LOOPS, ids=NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


# --- large requests -------------------------------------------------------------------------------------------------


async def test_a_large_request_waits_for_a_slow_server_and_the_loop_does_not() -> None:
    go = asyncio.Event()

    async def script(peer: Peer) -> None:
        if peer.number == 0:
            await go.wait()
        while True:
            await peer.say(ok(hashlib.sha256((await peer.request()).body).hexdigest().encode()))

    async with serving(script) as served, client(served.url) as http:
        large = asyncio.create_task(ask(http, LARGE))
        while not http._open:
            await asyncio.sleep(0)
        (first,) = http._open
        while not first._full:
            await anyio.sleep(0.001)
        assert await ask(http, b"small") == hashlib.sha256(b"small").hexdigest().encode()
        assert first._transport.get_write_buffer_size() < 1 << 20
        go.set()
        assert await large == hashlib.sha256(LARGE).hexdigest().encode()
        assert await ask(http, b"small") == hashlib.sha256(b"small").hexdigest().encode()
        assert len(served.peers) == 2


async def test_who_is_answered_before_all_is_sent_stops_sending() -> None:
    answered = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
        await answered.wait()
        await peer.closed()

    async with serving(script) as served, client(served.url) as http:
        response = await http.send("POST", {}, LARGE)
        answered.set()
        assert (response.status, await response.read(9)) == (413, b"no")
        assert (http._idle, len(served.peers)) == ({}, 1)


async def test_who_is_cut_off_while_it_sends_is_told_so() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")

    async with serving(script) as served, client(served.url) as http:
        with pytest.raises(Lost, match="it was closed"):
            await http.send("POST", {}, LARGE)
        assert len(served.peers) == 1


# --- a real server --------------------------------------------------------------------------------------------------


async def app(scope: Any, receive: Any, send: Any) -> None:
    """An echo, or a stream of events."""
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    stream = scope["path"] == "/events"
    kind = b"text/event-stream" if stream else b"application/json"
    length = [] if stream else [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind), *length]})
    for _ in range(3 if stream else 0):
        await send({"type": "http.response.body", "body": b"data: %b\n\n" % body, "more_body": True})
    await send({"type": "http.response.body", "body": b"" if stream else body})


@pytest.mark.parametrize("parser", ["h11", "httptools"])
async def test_uvicorn_is_understood(parser: str) -> None:
    config = uvicorn.Config(app, log_level="error", lifespan="off", http=parser)
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = asyncio.create_task(server.serve([listening]))
        async with client(f"http://127.0.0.1:{listening.getsockname()[1]}/") as http:
            assert await ask(http, b"small") == b"small"
            assert await ask(http, LARGE) == LARGE
            events = await http.send("POST", {}, b"e", path="/events")
            assert events.content_type == "text/event-stream"
            assert b"".join([part async for part in events]) == b"data: e\n\n" * 3
            assert await asyncio.gather(*(ask(http, b"%d" % n) for n in range(32))) == [b"%d" % n for n in range(32)]
            assert (await http.send("GET", {})).status == 200
        server.should_exit = True
        with anyio.fail_after(TIME_LIMIT_S):
            await running
