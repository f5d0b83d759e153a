"""What is read of a response, and what is refused; over real sockets, on both event loops."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from gateway.outbound.upstream.http1 import BadResponse, Http, HttpFailure, Lost, Response, TooLarge
from gateway.outbound.upstream.http1_connection import MAX_FIELDS, MAX_HEAD, Connection
from tests.upstream.http1_server import LOOPS, NAMES, Peer, Script, Served, ok, saying, serving

OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
MUCH = 1 << 24


@pytest.fixture(params=LOOPS, ids=NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@asynccontextmanager
async def client(script: Script) -> AsyncIterator[tuple[Http, Served]]:
    async with serving(script) as served:
        http = Http(served.url, connect_s=5.0, reuse_s=60.0)
        try:
            yield http, served
        finally:
            await http.close()


async def ask(http: Http, method: str = "POST", limit: int = MUCH) -> tuple[int, bytes]:
    response = await http.send(method, {})
    return response.status, await response.read(limit)


# --- what is read ---------------------------------------------------------------------------------------------------

READ = {
    "a length": (ok(b"hi"), (200, b"hi"), True),
    "no bytes": (ok(b""), (200, b""), True),
    "chunks": (CHUNKED + b"1\r\nh\r\n1\r\ni\r\n0\r\n\r\n", (200, b"hi"), True),
    "chunks, with extensions and trailers": (CHUNKED + b"2;a=b\r\nhi\r\n0\r\nT: x\r\n\r\n", (200, b"hi"), True),
    "chunks of none": (CHUNKED + b"0\r\n\r\n", (200, b""), True),
    "no content": (b"HTTP/1.1 204 No Content\r\n\r\n", (204, b""), True),
    "no content, with a length": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", (204, b""), True),
    "not modified, with a length": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", (304, b""), True),
    "interim responses first": (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nContent-Length: 7\r\n\r\n" + ok(b"hi"),
        (200, b"hi"),
        True,
    ),
    "an upgrade that is only offered": (ok(b"hi", b"Upgrade: h2c", b"Connection: Upgrade"), (200, b"hi"), True),
    "it says that it closes": (ok(b"hi", b"Connection: close"), (200, b"hi"), False),
    "it says so among others": (ok(b"hi", b"Connection: foo, Close"), (200, b"hi"), False),
    "1.0": (b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", (200, b"hi"), False),
    "1.0 that stays": (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nhi", (200, b"hi"), True),
}

MORE = {
    "a byte": ok(b"hi") + b"x",
    "a line": ok(b"hi") + b"HTTP/1.1 ",
    "a second response": ok(b"hi") + ok(b"smuggled"),
    "a byte after it said that it closes": ok(b"hi", b"Connection: close") + b"x",
    "a byte after chunks": CHUNKED + b"2\r\nhi\r\n0\r\n\r\nx",
    "the body of what has none": b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nhi",
}


@pytest.mark.parametrize("spelled", [False, True], ids=["at once", "byte by byte"])
@pytest.mark.parametrize(("response", "read", "reused"), READ.values(), ids=READ)
async def test_a_response_is_read_to_its_end_and_its_connection_used_again_only_if_that_is_safe(
    response: bytes, read: tuple[int, bytes], *, reused: bool, spelled: bool
) -> None:
    async with client(saying(response, spelled=spelled)) as (http, served):
        assert [await ask(http), await ask(http)] == [read, read]
        assert len(served.peers) == (1 if reused else 2)


@pytest.mark.parametrize("response", MORE.values(), ids=MORE)
async def test_what_comes_after_a_response_answers_nothing_and_ends_the_connection(response: bytes) -> None:
    async with client(saying(response)) as (http, served):
        first, second = await ask(http), await ask(http)
        assert first == second
        assert first in {(200, b"hi"), (204, b"")}
        assert len(served.peers) == 2


@pytest.mark.parametrize(
    ("response", "reused"),
    [
        (OK + b"Content-Length: 5\r\n\r\n", False),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n", False),
        (OK + b"Content-Length: 0\r\n\r\n", True),
        (ok(b"never read"), False),
    ],
)
async def test_a_head_that_was_asked_for_alone_has_no_body(response: bytes, *, reused: bool) -> None:
    async with client(saying(response)) as (http, served):
        assert [await ask(http, "HEAD"), await ask(http, "HEAD")] == [(200, b""), (200, b"")]
        assert len(served.peers) == (1 if reused else 2)


@pytest.mark.parametrize("spelled", [False, True], ids=["at once", "byte by byte"])
async def test_a_body_may_end_with_its_connection(*, spelled: bool) -> None:
    async with client(saying(OK + b"\r\nhi", spelled=spelled, last=True)) as (http, served):
        assert [await ask(http), await ask(http)] == [(200, b"hi"), (200, b"hi")]
        assert len(served.peers) == 2


async def test_headers_are_by_lower_case_name_and_a_repeated_one_is_joined() -> None:
    response = ok(b"", b"Content-Type: Application/JSON ; charset=utf-8", b"A: 1", b"B:  \xe9 \t", b"a: 2", b"Empty:")
    async with client(saying(response)) as (http, _):
        got = await http.send("POST", {})
        assert got.headers == {
            "content-type": "Application/JSON ; charset=utf-8",
            "a": "1, 2",
            "b": "\xe9",
            "empty": "",
            "content-length": "0",
        }
        assert got.content_type == "application/json"


async def test_a_body_of_which_nothing_is_said_is_of_unknown_type() -> None:
    async with client(saying(ok())) as (http, _):
        assert (await http.send("POST", {})).content_type == "application/octet-stream"


async def test_a_body_that_has_come_is_read_without_a_pause() -> None:
    async with client(saying(ok(b"x" * 60_000))) as (http, _):
        response = await http.send("POST", {})
        with pytest.raises(StopIteration) as ended:
            response.read(MUCH).send(None)
        assert ended.value.value == b"x" * 60_000


async def test_what_was_read_as_it_came_and_what_is_left_are_the_whole() -> None:
    more = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(CHUNKED + b"2\r\nab\r\n")
        await more.wait()
        await peer.say(b"2\r\ncd\r\n0\r\n\r\n")
        await peer.closed()

    async with client(script) as (http, _):
        response = await http.send("POST", {})
        assert await anext(response) == b"ab"
        more.set()
        assert await response.read(2) == b"cd"
        assert [part async for part in response] == []


# --- what is refused ------------------------------------------------------------------------------------------------

INVALID = "it is not valid HTTP/1.1"
TWO_WAYS = "where it ends can be read in two ways"
BESIDE = f"there are more than {MAX_HEAD} bytes beside its body"
REFUSED = {
    "a length and a coding": (ok(b"2\r\nhi\r\n0\r\n\r\n", b"Transfer-Encoding: chunked"), INVALID),
    "a coding and a length": (OK + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n", INVALID),
    "two lengths": (ok(b"hi", b"Content-Length: 3"), INVALID),
    "the same length twice": (ok(b"hi", b"Content-Length: 2"), INVALID),
    "a list of lengths": (OK + b"Content-Length: 2, 2\r\n\r\nhi", INVALID),
    "a signed length": (OK + b"Content-Length: +2\r\n\r\nhi", INVALID),
    "no length": (OK + b"Content-Length: \r\n\r\nhi", INVALID),
    "a huge length": (OK + b"Content-Length: 99999999999999999999999\r\n\r\nhi", INVALID),
    "an unknown coding": (OK + b"Transfer-Encoding: identity\r\n\r\nhi", TWO_WAYS),
    "two codings": (OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", TWO_WAYS),
    "a coding twice": (OK + b"Transfer-Encoding: chunked\r\n" + CHUNKED[len(OK) :] + b"0\r\n\r\n", TWO_WAYS),
    "a coding in 1.0": (b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", TWO_WAYS),
    "another protocol": (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        "it switched to another protocol",
    ),
    "another protocol, unnamed": (b"HTTP/1.1 101 X\r\n\r\n" + ok(), "it switched to another protocol"),
    "another version": (b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", "it switched to another protocol"),
    "a status below all": (b"HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n", "it switched to another protocol"),
    "a status above all": (b"HTTP/1.1 1000 OK\r\nContent-Length: 0\r\n\r\n", INVALID),
    "a banner": (b"220 mail ready\r\n", INVALID),
    "lines without CR": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", INVALID),
    "a folded line": (ok(b"hi", b"A: b\r\n c"), INVALID),
    "a NUL": (ok(b"hi", b"A: b\0c"), INVALID),
    "a lone CR": (ok(b"hi", b"A: b\rc"), INVALID),
    "a space before the colon": (ok(b"hi", b"A : b"), INVALID),
    "a line that is no header": (ok(b"hi", b"Abc"), INVALID),
    "a large head": (ok(b"hi", b"A: " + b"x" * MAX_HEAD), None),
    "many headers": (ok(b"hi", *[b"A: b"] * MAX_FIELDS), "its head is too large"),
    "a head without end": (OK + b"A: " + b"x" * 2 * MAX_HEAD, BESIDE),
    "interim responses without end": (b"HTTP/1.1 100 Continue\r\n\r\n" * 4000, BESIDE),
    "a chunk of nothing": (CHUNKED + b"-2\r\nhi", INVALID),
    "a chunk of more than there is": (CHUNKED + b"fffffffffffffffff\r\nhi", INVALID),
    "a chunk that is longer than it says": (CHUNKED + b"2\r\nhiX", INVALID),
    "chunks without CR": (CHUNKED + b"2\nhi\n0\n\n", INVALID),
    "a length in a trailer": (CHUNKED + b"0\r\nContent-Length: 2\r\n\r\n", INVALID),
    "an extension without end": (CHUNKED + b"2;" + b"a" * 2 * MAX_HEAD, BESIDE),
    "a trailer without end": (CHUNKED + b"0\r\nA: " + b"a" * 2 * MAX_HEAD, BESIDE),
}


async def failing(http: Http) -> HttpFailure:
    with pytest.raises(HttpFailure) as failed:
        await ask(http)
    return failed.value


@pytest.mark.parametrize(("response", "reason"), REFUSED.values(), ids=REFUSED)
async def test_what_could_be_read_in_two_ways_is_not_read_and_its_connection_closed(
    response: bytes, reason: str | None
) -> None:
    closed: list[bool] = []

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(response)
        closed.append(await peer.closed())

    async with client(script) as (http, _):
        failed = await failing(http)
        assert isinstance(failed, BadResponse)
        assert str(failed) in ({reason} if reason is not None else {"its head is too large", BESIDE})
        while not closed:
            await anyio.sleep(0.001)


LOST = {
    "nothing": (b"", "it was closed"),
    "half a head": (OK + b"A: b\r\n", "it was closed"),
    "only an interim response": (b"HTTP/1.1 100 Continue\r\n\r\n", "it was closed"),
    "no body": (OK + b"Content-Length: 2\r\n\r\n", "it was cut off"),
    "half a body": (OK + b"Content-Length: 2\r\n\r\nh", "it was cut off"),
    "half a large body": (OK + b"Content-Length: 99999\r\n\r\nh", "it was cut off"),
    "no last chunk": (CHUNKED + b"2\r\nhi\r\n", "it was cut off"),
    "half a last chunk": (CHUNKED + b"2\r\nhi\r\n0\r\n", "it was cut off"),
}


@pytest.mark.parametrize(("response", "reason"), LOST.values(), ids=LOST)
async def test_what_is_cut_off_is_an_error_and_never_sent_again(response: bytes, reason: str) -> None:
    async with client(saying(response, last=True)) as (http, served):
        failed = await failing(http)
        assert (type(failed), str(failed)) == (Lost, reason)
        assert len(served.asked) == 1


async def test_what_came_before_it_was_cut_off_is_still_given_to_a_reader_of_parts() -> None:
    async with client(saying(CHUNKED + b"2\r\nhi\r\n", last=True)) as (http, _):
        response = await http.send("POST", {})
        assert await anext(response) == b"hi"
        with pytest.raises(Lost):
            await anext(response)


async def test_a_reset_is_not_the_end_of_a_body_that_ends_with_its_connection() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"\r\nhi")
        linger = struct.pack("ii", 1, 0)
        peer.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        peer.writer.transport.abort()

    async with client(script) as (http, _):
        assert isinstance(await failing(http), Lost)


@pytest.mark.parametrize("response", [ok(b"x" * 101), ok(b"x" * 100_000), CHUNKED + b"65\r\n" + b"x" * 101])
async def test_a_body_is_read_up_to_the_limit_and_not_beyond(response: bytes) -> None:
    async with client(saying(response)) as (http, _):
        with pytest.raises(TooLarge, match="the answer is larger than 100 bytes"):
            await ask(http, limit=100)


async def test_a_body_that_is_too_large_and_has_not_ended_ends_with_its_connection() -> None:
    async with client(saying(CHUNKED + b"65\r\n" + b"x" * 101)) as (http, _):
        with pytest.raises(TooLarge):
            await ask(http, limit=100)
        while http._open:
            await anyio.sleep(0.001)


async def test_a_body_as_large_as_the_limit_is_read() -> None:
    async with client(saying(ok(b"x" * 100))) as (http, _):
        assert await ask(http, limit=100) == (200, b"x" * 100)


async def test_a_body_of_many_small_chunks_costs_no_more_than_its_bytes() -> None:
    async with client(saying(CHUNKED + b"2\r\nhi\r\n" * 50_000 + b"0\r\n\r\n")) as (http, _):
        response = await http.send("POST", {})
        while response._size < 100_000:
            await anyio.sleep(0.001)
        assert len(response._parts) == 2
        assert await response.read(100_000) == b"hi" * 50_000


# --- whose connection it is -----------------------------------------------------------------------------------------


async def test_a_response_left_unread_closes_its_connection_when_it_is_released() -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"Content-Length: 99999\r\n\r\n")
        await peer.closed()
        closed.set()

    async with client(script) as (http, _):
        with await http.send("POST", {}) as response:
            pass
        await closed.wait()
        with pytest.raises(Lost):
            await response.read(MUCH)


async def test_a_response_that_has_come_to_its_end_is_released_already() -> None:
    async with client(saying(ok())) as (http, served):
        first = await http.send("POST", {})
        second = await http.send("POST", {})
        first.release()
        assert (await first.read(MUCH), await second.read(MUCH), len(served.peers)) == (b"hi", b"hi", 1)


async def test_who_is_cancelled_as_the_answer_comes_harms_nobody_who_has_the_connection_now() -> None:
    dropped: list[Connection] = []
    async with serving(saying(ok())) as served:
        running: list[asyncio.Task[Response]] = []

        def free(_: Connection) -> None:
            for task in running:
                task.cancel()

        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            lambda: Connection(free, dropped.append),
            "127.0.0.1",
            served.port,
        )
        running.append(loop.create_task(connection.exchange("POST", b"POST / HTTP/1.1\r\n\r\n", b"", None)))
        with pytest.raises(asyncio.CancelledError):
            await running[0]
        running.clear()
        response = await connection.exchange("POST", b"POST / HTTP/1.1\r\n\r\n", b"", None)
        assert (await response.read(MUCH), dropped) == (b"hi", [])
        connection.abort()
        await connection.gone


async def test_a_server_waits_while_nobody_reads() -> None:
    piece, total, said = b"10000\r\n" + b"x" * 65536 + b"\r\n", 1024, 0

    async def script(peer: Peer) -> None:
        nonlocal said
        await peer.request()
        await peer.say(CHUNKED)
        for _ in range(total):
            await peer.say(piece)
            said += 1
        await peer.say(b"0\r\n\r\n")
        await peer.closed()

    async with client(script) as (http, _):
        response = await http.send("POST", {})
        first = await anext(response)
        before = -1
        while said != before:
            before = said
            await anyio.sleep(0.05)
        assert said < total // 2
        assert len(first) + len(await response.read(1 << 27)) == total * 65536
