"""Bytes that two HTTP servers could read in two ways, or that would cost us without end."""

import contextlib
import json

import anyio
import pytest
from anyio.abc import SocketStream

from gateway.inbound.mcp import framing
from gateway.inbound.mcp.exchange import Exchange
from gateway.model.canonical import JsonObject
from tests.inbound.fake_relay import text
from tests.inbound.served import BOUND_S, Served, door, drained, parsed, request
from tests.inbound.test_door import CALL, CALL_HEADERS

pytestmark = pytest.mark.anyio

SMUGGLED = b"0\r\n\r\nGET /x HTTP/1.1\r\nHost: a\r\n\r\n"
PLAIN = b"Content-Length: 2"


async def without_end(stream: SocketStream) -> None:
    while True:
        await stream.send(b"X-A: " + b"a" * 10_000 + b"\r\n")
        await anyio.sleep(0.001)


def encoded(body: object) -> bytes:
    return json.dumps(body).encode()


REFUSED = [
    ("length and chunks", b"Content-Length: 6\r\nTransfer-Encoding: chunked", SMUGGLED),
    ("chunks and length", b"Transfer-Encoding: chunked\r\nContent-Length: 6", SMUGGLED),
    ("two lengths", b"Content-Length: 3\r\nContent-Length: 5", b"{}"),
    ("one length twice", b"Content-Length: 2\r\nContent-Length: 2", b"{}"),
    ("a list of lengths", b"Content-Length: 2, 2", b"{}"),
    ("a signed length", b"Content-Length: +5", b"{}"),
    ("another coding", b"Transfer-Encoding: xchunked", b"{}"),
    ("a coding before the chunks", b"Transfer-Encoding: gzip, chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    ("two codings", b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", b"2\r\n{}\r\n0\r\n\r\n"),
    ("a space before the colon", PLAIN + b"\r\nX-A : b", b"{}"),
    ("a folded line", PLAIN + b"\r\nMcp-Name: ec\r\n ho", b"{}"),
    ("a folded line by tab", PLAIN + b"\r\nMcp-Name: ec\r\n\tho", b"{}"),
    ("a bare LF", PLAIN + b"\nX-A: b", b"{}"),
    ("a bare CR", PLAIN + b"\r\nX-A: b\rX-B: c", b"{}"),
    ("NUL", PLAIN + b"\r\nX-A: b\x00", b"{}"),
    ("no colon", PLAIN + b"\r\nX-A", b"{}"),
    ("a chunk that overflows", b"Transfer-Encoding: chunked", b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
    ("a chunk that spills", b"Transfer-Encoding: chunked", b"2\r\n{}XX0\r\n\r\n"),
    ("a chunk that ends in LF", b"Transfer-Encoding: chunked", b"2\n{}\n0\n\n"),
]


def spelled(served: Served, head: bytes, body: bytes, *, first: bytes = b"POST /mcp HTTP/1.1") -> bytes:
    host = f"Host: 127.0.0.1:{served.port}".encode()
    kind = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream"
    return b"\r\n".join([first, host, kind, head, b"", body])


@pytest.mark.parametrize(("head", "body"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
async def test_framing_that_two_servers_could_read_in_two_ways_ends_the_connection(head: bytes, body: bytes) -> None:
    async with door() as served:
        said = await served.raw(spelled(served, head, body))
    assert said.count(b"HTTP/1.1 ") == 1
    assert parsed(said).status == 400
    assert served.relay.begun == []


@pytest.mark.parametrize(
    "first",
    [
        b"POST http://evil.example/mcp HTTP/1.1",
        b"CONNECT evil.example:80 HTTP/1.1",
        b"POST mcp HTTP/1.1",
        b"POST /mcp HTTP/2.0",
        b"POST /mcp HTTP/1.1 x",
        b"POST /mcp",
    ],
)
async def test_only_a_path_over_http_1_is_asked_for(first: bytes) -> None:
    async with door() as served:
        said = await served.raw(spelled(served, PLAIN, b"{}", first=first))
    assert parsed(said).status == 400
    assert said.count(b"HTTP/1.1 ") == 1


async def test_trailers_are_no_headers() -> None:
    async with door() as served:
        lines = request(b"", {**CALL_HEADERS, "Content-Length": None, "Transfer-Encoding": "chunked"}, port=served.port)
        body = encoded(CALL)
        trailers = b"0\r\nMcp-Name: safe\r\nHost: evil.example\r\nCounterfoil-Run: x\r\n\r\n"
        answer = parsed(await served.raw(lines + b"%x\r\n%s\r\n" % (len(body), body) + trailers))
    assert answer.status == 200
    [exchange] = served.relay.begun
    assert (exchange.headers["mcp-name"], "counterfoil-run" in exchange.headers) == ("echo", False)


async def test_a_client_that_asks_for_http_2_each_time_is_answered_in_http_1() -> None:
    more = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"}
    async with door() as served, await served.connect() as stream:
        whole = request(encoded(CALL), {**CALL_HEADERS, **more}, port=served.port)
        for cut in (len(whole), len(whole) - 10, whole.index(b"\r\n\r\n") + 2):  # as the HTTP client of Java does
            for part in (whole[:cut], whole[cut:]):
                await stream.send(part or b"\r\n")
                await anyio.sleep(0.01)
            with anyio.fail_after(BOUND_S):
                assert parsed(await stream.receive()).status == 200, cut
        await stream.send(whole + whole)
        with anyio.fail_after(BOUND_S):
            said = b""
            while said.count(b"HTTP/1.1 200") < 2:
                said += await stream.receive()
        chunked = {**CALL_HEADERS, **more, "Content-Length": None, "Transfer-Encoding": "chunked"}
        assert parsed(await served.raw(request(b"", chunked, port=served.port))).status == 400


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    async with door() as served, await served.connect() as stream:
        head, _, body = request(encoded(CALL), {**CALL_HEADERS, "Expect": "100-continue"}, port=served.port).partition(
            b"\r\n\r\n"
        )
        with anyio.fail_after(BOUND_S):
            await stream.send(head + b"\r\n\r\n")
            assert await stream.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await stream.send(body)
            assert parsed(await drained(stream)).json["id"] == 7


async def test_a_large_answer_goes_out_whole() -> None:
    async def large(_exchange: Exchange) -> JsonObject:
        return text("x" * 10_000_000)

    async with door() as served:
        served.relay.tools["echo"] = large
        answer = await served.post(CALL, CALL_HEADERS)
    assert len(answer.json["result"]["content"][0]["text"]) == 10_000_000
    assert [shown.attempt for shown in served.relay.deliveries] == ["echo"]


async def test_requests_that_come_in_one_piece_are_answered_in_order() -> None:
    async with door() as served, await served.connect() as stream:
        bodies = [{**CALL, "id": number} for number in range(3)]
        each = [request(encoded(body), {**CALL_HEADERS, "Connection": None}, port=served.port) for body in bodies]
        await stream.send(b"".join(each[:-1]) + request(encoded(bodies[-1]), CALL_HEADERS, port=served.port))
        with anyio.fail_after(BOUND_S):
            said = await drained(stream)
    assert [f'"id":{number}'.encode() in part for number, part in enumerate(said.split(b"HTTP/1.1 200")[1:])] == [
        True
    ] * 3


async def test_a_head_without_end_is_not_kept() -> None:
    async with door() as served, await served.connect() as stream:
        await stream.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
        with anyio.fail_after(BOUND_S), pytest.raises((anyio.BrokenResourceError, anyio.EndOfStream)):
            await without_end(stream)
        assert served.relay.begun == []


async def test_a_head_that_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(framing, "HEAD_TIMEOUT_S", 0.05)
    async with door() as served:
        assert parsed(await served.raw(b"")).status == 408
        assert parsed(await served.raw(b"POST /mcp HTTP/1.1\r\nHost: loc")).status == 408
        async with await served.connect() as stream:  # nor is one that comes after a whole request
            await stream.send(request(encoded(CALL), {**CALL_HEADERS, "Connection": None}, port=served.port))
            with anyio.fail_after(BOUND_S):
                assert b"200 OK" in await stream.receive()
                await stream.send(b"POST /mcp")
                assert parsed(await drained(stream)).status == 408


@pytest.mark.parametrize("reads", [False, pytest.param(True, marks=[pytest.mark.slow, pytest.mark.long])])
async def test_only_a_client_that_takes_nothing_is_given_up(
    reads: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(framing, "STALL_S", 1.5)
    size = 24 * 1024 * 1024

    async def big(_exchange: Exchange) -> JsonObject:
        return text("b" * size)

    got = 0
    async with door() as served:
        served.relay.tools["echo"] = big
        async with await served.connect() as stream:
            await stream.send(request(encoded(CALL), CALL_HEADERS, port=served.port))
            await anyio.sleep(0 if reads else 4)
            with anyio.fail_after(4 * BOUND_S), contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                while got < size:
                    got += len(await stream.receive(1024 * 1024))
                    await anyio.sleep(0.1 if reads else 0)  # slower than the limit altogether
    assert (got >= size) is reads


@pytest.mark.parametrize("notes", [1, 20_000])
async def test_streams_that_are_cut_at_the_end_leave_no_trace_in_the_log(
    notes: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither that of a client whose call goes on, nor that of one that does not read."""

    async def without_an_answer(exchange: Exchange) -> JsonObject:
        for _ in range(notes):
            exchange.line.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x" * 1000}})
        await anyio.sleep_forever()
        return text("never")

    begun = anyio.current_time()
    async with door() as served:
        served.relay.tools["echo"] = without_an_answer
        stream = await served.connect()
        await stream.send(request(encoded(CALL), CALL_HEADERS, port=served.port))
        with anyio.fail_after(BOUND_S):
            await stream.receive(100)
    assert anyio.current_time() - begun < BOUND_S
    await stream.aclose()
    assert "Traceback" not in capfd.readouterr().err


async def test_who_has_sent_half_a_body_hears_at_the_end_that_it_is_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    async with door() as served:
        stream = await served.connect()
        whole = request(encoded(CALL), CALL_HEADERS, port=served.port)
        await stream.send(whole[:-10])
        await served.modern("tools/list", {})
    with anyio.fail_after(BOUND_S):
        assert (await stream.receive()).startswith(b"HTTP/1.1 503 ")
    await stream.aclose()
    assert "ASGI" not in capfd.readouterr().err
