"""Connecting, sending, and which connection is used again; over real sockets, on both event loops."""

import asyncio
import socket
from collections import Counter

import anyio
import pytest

from gateway.outbound.upstream.http1 import CannotConnect, Http, HttpFailure, Lost, Unsendable
from tests.upstream.http1_server import LOOPS, NAMES, Peer, ask, cannot, client, ok, saying, serving

MUCH = 1 << 25
LARGE = bytes(range(256)) * 40 * 1024  # 10 MiB


@pytest.fixture(params=LOOPS, ids=NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


# --- the request ----------------------------------------------------------------------------------------------------


async def test_a_request_is_what_it_was_asked_to_be() -> None:
    async with serving(saying(ok())) as served, client(f"{served.url}/x?y=%20z") as http:
        await (await http.send("POST", {"A": "1", "Mcp-Name": "e\tf"}, b"body")).read(9)
        await (await http.send("DELETE", [("A", "1"), ("a", "2")], path="/other")).read(9)
        await (await http.send("POST", {})).read(9)
        host = f"Host: 127.0.0.1:{served.port}\r\n"
        assert [(asked.head.decode(), asked.body) for asked in served.asked] == [
            (f"POST /mcp/x?y=%20z HTTP/1.1\r\n{host}A: 1\r\nMcp-Name: e\tf\r\nContent-Length: 4\r\n\r\n", b"body"),
            (f"DELETE /other HTTP/1.1\r\n{host}A: 1\r\na: 2\r\n\r\n", b""),
            (f"POST /mcp/x?y=%20z HTTP/1.1\r\n{host}Content-Length: 0\r\n\r\n", b""),
        ]


async def test_headers_that_change_are_sent_as_they_are_now() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        headers = {"A": "1"}
        await ask(http, headers=headers)
        headers["A"] = "2"
        await ask(http, headers=headers)
        assert [asked.header(b"a") for asked in served.asked] == [[b"1"], [b"2"]]


@pytest.mark.parametrize(
    ("url", "line"),
    [
        ("http://example.test", "Host: example.test\r\n"),
        ("http://Example.TEST:80/x", "Host: example.test\r\n"),
        ("https://example.test:443/x", "Host: example.test\r\n"),
        ("https://example.test:80", "Host: example.test:80\r\n"),
        ("http://[::1]:8080/mcp", "Host: [::1]:8080\r\n"),
        ("http://[fe80::1%25eth0]/mcp", "Host: [fe80::1]\r\n"),
        ("http://b\xfccher.test", "Host: xn--bcher-kva.test\r\n"),
    ],
)
def test_the_host_is_named_as_the_address_says(url: str, line: str) -> None:
    head = Http(url, connect_s=1.0)._head("GET", {}, "/", 0)
    assert head.decode() == f"GET / HTTP/1.1\r\n{line}\r\n"


@pytest.mark.parametrize(
    "url",
    [
        "example.test",
        "ftp://example.test",
        "http://",
        "http:///mcp",
        "http://user:secret@example.test",
        "http://@example.test",
        "http://exa mple.test",
        "http://example.test:many",
        "http://example.test:99999",
        "http://[::1",
        "http://example.test/a b",
        "http://example.test/\xfc",
        f"http://{'a' * 64}.test",
    ],
)
def test_what_is_no_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ValueError, match=r"^it is not http:// or https://, a host, and perhaps a port and a path$"):
        Http(url, connect_s=1.0)


@pytest.mark.parametrize(
    ("method", "headers", "path"),
    [
        ("POST", {"A": "x\r\nB: y"}, "/"),
        ("POST", {"A": "x\ny"}, "/"),
        ("POST", {"A": "x\ry"}, "/"),
        ("POST", {"A": "x\0"}, "/"),
        ("POST", {"A": "\x7f"}, "/"),
        ("POST", {"A": "\xe9"}, "/"),
        ("POST", {"A\r\nB": "x"}, "/"),
        ("POST", {"A ": "x"}, "/"),
        ("POST", {"": "x"}, "/"),
        ("POST", {"A\ud800": "x"}, "/"),
        ("POST", {"content-length": "0"}, "/"),
        ("POST", {"Transfer-Encoding": "chunked"}, "/"),
        ("POST", {"Host": "other"}, "/"),
        ("POST", {"Connection": "close"}, "/"),
        ("PO ST", {}, "/"),
        ("POST\r\n", {}, "/"),
        ("POST", {}, "/ HTTP/1.1\r\nA: b"),
        ("POST", {}, "/a b"),
        ("POST", {}, "/#a"),
        ("POST", {}, "mcp"),
        ("POST", {}, ""),
    ],
)
async def test_what_http_cannot_carry_is_refused_before_there_is_a_connection(
    method: str, headers: dict[str, str], path: str
) -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        with pytest.raises(Unsendable, match="cannot be sent"):
            await http.send(method, headers, path=path)
        await ask(http)
        assert (len(served.peers), len(served.asked)) == (1, 1)


# --- what is used again ---------------------------------------------------------------------------------------------


async def test_requests_one_after_another_share_a_connection_and_at_the_same_time_they_do_not() -> None:
    met = asyncio.Event()
    waiting: list[Peer] = []

    async def script(peer: Peer) -> None:
        while True:
            body = (await peer.request()).body
            if body == b"meet":
                waiting.append(peer)
                if len(waiting) == 8:
                    met.set()
                await met.wait()
            await peer.say(ok(body))

    async with serving(script) as served, client(served.url) as http:
        assert [await ask(http, b"%d" % n) for n in range(5)] == [b"%d" % n for n in range(5)]
        assert len(served.peers) == 1
        assert await asyncio.gather(*(ask(http, b"meet") for _ in range(8))) == [b"meet"] * 8
        assert len(served.peers) == len(set(waiting)) == 8


async def test_a_connection_that_was_closed_while_idle_is_not_used() -> None:
    async with serving(saying(ok(), last=True)) as served, client(served.url) as http:
        assert await ask(http) == b"hi"
        while http._open:
            await anyio.sleep(0.001)
        assert http._idle == {}
        assert (await ask(http), len(served.asked)) == (b"hi", 2)


@pytest.mark.parametrize("said", [None, b"x"], ids=["its end", "a byte"])
async def test_what_the_loop_has_not_yet_seen_of_an_idle_connection_is_looked_for(said: bytes | None) -> None:
    """Closed, or written to, and asked again without a turn of the loop between."""
    async with serving(saying(ok())) as served, client(served.url) as http:
        assert await ask(http) == b"hi"
        sock = socket.socket(fileno=served.peers[0].writer.get_extra_info("socket").fileno())
        if said is None:
            sock.shutdown(socket.SHUT_WR)
        else:
            sock.send(said)
        sock.detach()
        assert await ask(http) == b"hi"
        assert len(served.peers) == 2


async def test_bytes_that_nobody_asked_for_end_an_idle_connection() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        assert await ask(http) == b"hi"
        await served.peers[0].say(ok(b"smuggled"))
        while http._open:
            await anyio.sleep(0.001)
        assert (await ask(http), len(served.peers)) == (b"hi", 2)


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with serving(saying(ok())) as served, client(served.url, reuse_s=0.05) as http:
        await asyncio.gather(ask(http), ask(http))
        assert len(http._idle) == 2
        await ask(http)
        while http._open:
            await anyio.sleep(0.001)
        await ask(http)
        assert len(served.peers) == 3


async def test_each_idle_connection_has_its_own_time() -> None:
    async with serving(saying(ok())) as served, client(served.url, reuse_s=0.1) as http:
        await asyncio.gather(ask(http), ask(http))
        older, newer = http._idle
        http._idle[older] -= 1.0
        assert http._sweep is not None
        http._sweep.cancel()
        http._close_old()
        assert list(http._idle) == [newer]
        while http._open:
            await anyio.sleep(0.001)
        assert http._idle == {}


async def test_a_connection_too_old_is_not_used_even_before_it_is_closed() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        await ask(http)
        http._idle = dict.fromkeys(http._idle, -1e9)
        await ask(http)
        assert (len(served.peers), len(http._open)) == (2, 1)


async def test_a_connection_that_ends_before_anything_was_sent_was_never_there() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        await ask(http)
        (connection,) = http._idle
        connection.fresh = lambda: True  # type: ignore[method-assign]
        connection._transport.abort()
        assert await cannot(http) == "it was closed"


# --- who gives up, and who closes -----------------------------------------------------------------------------------


async def test_who_gives_up_closes_one_connection_and_harms_no_other() -> None:
    asked, closed, go = asyncio.Event(), Counter[bytes](), asyncio.Event()

    async def script(peer: Peer) -> None:
        body = (await peer.request()).body
        if len(peer.asked) == 3:
            asked.set()
        if body == b"read":
            await peer.say(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\nx")
        if body == b"stay":
            await go.wait()
            await peer.say(ok(b"stayed"))
        await peer.closed()
        closed[body] += 1

    async with serving(script) as served, client(served.url) as http:
        tasks = {body: asyncio.create_task(ask(http, body)) for body in (b"send", b"read", b"stay")}
        await asked.wait()
        tasks[b"send"].cancel()
        tasks[b"read"].cancel()
        while closed != {b"send": 1, b"read": 1}:
            await anyio.sleep(0.001)
        go.set()
        assert await tasks[b"stay"] == b"stayed"
        assert tasks[b"send"].cancelled()
        assert tasks[b"read"].cancelled()
        assert len(http._open) == 1


async def test_who_gives_up_while_it_still_sends_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        closed.set()
        while await peer.reader.read(65536):
            await asyncio.sleep(0)

    async with serving(script) as served, client(served.url) as http:
        sending = asyncio.create_task(ask(http, LARGE * 4))
        await closed.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        while http._open:
            await anyio.sleep(0.001)


async def test_whoever_waits_when_it_is_closed_is_told_so_and_nothing_is_sent_any_more() -> None:
    asked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        asked.set()
        await peer.closed()

    async with serving(script) as served, client(served.url) as http:
        waiting = asyncio.create_task(ask(http))
        await asked.wait()
        await http.close()
        with pytest.raises(Lost, match="it was closed"):
            await waiting
        assert http._open == set()
        assert await cannot(http) == "it was closed by us"


async def test_what_connects_while_it_is_closed_sends_nothing() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        connecting = asyncio.create_task(ask(http))
        while not served.peers:
            await asyncio.sleep(0)
            await http.close()
        with pytest.raises(HttpFailure) as failed:
            await connecting
        assert (type(failed.value), served.asked) == (CannotConnect, [])


async def test_it_is_told_once_that_bytes_may_have_been_written_and_never_before_there_is_a_connection() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        told: list[int] = []
        for _ in range(2):
            response = await http.send("POST", {}, on_reached=lambda: told.append(len(http._open)))
            await response.read(9)
        assert told == [1, 1]

        def refuse() -> None:
            raise RuntimeError("not now")

        with pytest.raises(RuntimeError, match="not now"):
            await http.send("POST", {}, on_reached=refuse)
        await ask(http)
        assert (len(served.asked), len(served.peers)) == (3, 2)
