"""HTTP requests of verifiers, against a real server: below the place alone, and bounded."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.outbound.looks import UrlPlace
from gateway.outbound.looks.faults import HIDDEN
from gateway.ports import Answer, Silence
from tests.looks.made import look, seen, verdict, why

pytestmark = pytest.mark.anyio

Script = Callable[[asyncio.StreamWriter], Any]


def answer(body: bytes, status: str = "200 OK", kind: str = "application/json", *more: str) -> Script:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return lambda out: out.write("\r\n".join([*lines, "", ""]).encode() + body)


@dataclass
class Server:
    """A server that answers by script, and remembers what it was asked."""

    port: int = 0
    script: Script = field(default_factory=lambda: answer(b'{"paid": true}'))
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def place(self) -> UrlPlace:
        return UrlPlace(
            "shop", f"http://127.0.0.1:{self.port}/api", {"Authorization": "Bearer t0k3n-long"}, ("t0k3n-long",)
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.asked.append((head[0], headers, body))
            done = self.script(writer)
            if asyncio.iscoroutine(done):
                await done
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    it = Server()
    listening = await asyncio.start_server(it.serve, "127.0.0.1", 0)
    it.port = listening.sockets[0].getsockname()[1]
    yield it
    listening.close()


async def ask(server: Server, told: dict[str, Any] | None = None, timeout_s: float = 10.0, **said: Any) -> Answer:
    return await look("http", said, server.place, told=told, timeout_s=timeout_s)


async def test_what_is_asked_and_what_is_seen(server: Server) -> None:
    got = await ask(
        server, {"query": {"since": 3, "tag": ["a b", "c&d"], "full": True}}, path="orders/7", query={"v": 1.5}
    )
    found = seen(got)
    assert found.pop("digest").startswith("sha256:")
    assert found == {
        "status": 200,
        "headers": {"content-type": "application/json", "content-length": "14"},
        "json": {"paid": True},
    }
    (line, headers, _) = server.asked[0]
    assert line == "GET /api/orders/7?v=1.5&since=3&tag=a%20b&tag=c%26d&full=true HTTP/1.1"
    assert headers["authorization"] == "bearer t0k3n-long"
    assert headers["accept-encoding"] == "identity"


async def test_a_post_brings_json_and_a_head_no_body(server: Server) -> None:
    _ = await ask(server, {"json": {"id": 7}}, path="search", method="POST", json_from="args")
    assert server.asked[0][0] == "POST /api/search HTTP/1.1"
    assert server.asked[0][2] == b'{"id":7}'
    _ = await ask(server, path="search", method="POST", json={"a": None})
    assert server.asked[1][2] == b'{"a":null}'
    server.script = lambda out: out.write(b"HTTP/1.1 204 No Content\r\nETag: x\r\n\r\n")
    assert seen(await ask(server, method="HEAD")) == {"status": 204, "headers": {"etag": "x"}}


# --- a formula cannot leave the place -------------------------------------------------------------------------------

UP = [
    "..", "../admin", "a/../../admin", "a/..", ".", "a//b", "//evil.example/x", "%2e%2e/admin", "%2E%2E", "a%2f..%2fb",
    "%252e%252e", "..%00", "a\\..\\b", "a\x00b", "a\r\nHost: evil", "a\u2028b", "/", "a/",
]  # fmt: skip


@pytest.mark.parametrize("path", UP)
async def test_no_path_leads_up_or_to_another_host(server: Server, path: str) -> None:
    got = await ask(server, {"path": path}, path_from="args.path")
    assert why(got) == "a step of the path leads elsewhere than one step down"
    assert server.asked == []


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        (["orders", 7], "/api/orders/7"),
        (["orders", "a b?c=d#e"], "/api/orders/a%20b%3Fc=d%23e"),
        (["@evil.example:80"], "/api/@evil.example:80"),
        ("http:", "/api/http:"),
        (["a%b"], "/api/a%25b"),
        ([], "/api"),
        ("", "/api"),
        ("ä", "/api/%C3%A4"),
    ],
)
async def test_what_a_formula_gives_is_steps_and_nothing_else(server: Server, path: Any, sent: str) -> None:
    _ = seen(await ask(server, {"path": path}, path_from="args.path"))
    assert server.asked[0][0] == f"GET {sent} HTTP/1.1"


@pytest.mark.parametrize("step", ["1/refunds", "..", "1\\2", "1%2frefunds", ""])
async def test_a_step_of_a_list_is_one_step(server: Server, step: str) -> None:
    got = await ask(server, {"path": ["orders", step]}, path_from="args.path")
    assert why(got) == "a step of the path leads elsewhere than one step down"


@pytest.mark.parametrize("path", [5, {"a": 1}, [["a"]], [None], True])
async def test_what_is_no_path_is_told(server: Server, path: Any) -> None:
    assert "`path_from` gives" in why(await ask(server, {"path": path}, path_from="args.path"))
    assert "is no text" in why(await ask(server, {"query": {"a": {"b": 1}}}, query_from={"a": "args"}))


async def test_a_redirect_is_an_answer_and_is_not_followed(server: Server) -> None:
    server.script = answer(b"", "302 Found", "text/html", "Location: http://127.0.0.1:9/evil")
    assert seen(await ask(server))["status"] == 302
    assert len(server.asked) == 1


# --- statuses -------------------------------------------------------------------------------------------------------

GET: dict[str, Any] = {"http": {"place": "shop"}}


async def test_a_status_that_is_not_listed_fails_alone_and_with_conditions_only_by_them(server: Server) -> None:
    assert verdict(GET, await ask(server)) == ("pass", "`it` passed")
    server.script = answer(b'{"paid": false}', "500 Oops")
    got = await ask(server)
    assert verdict(GET, got) == ("fail", "`it` found that the status is 500, not 200")
    assert verdict({**GET, "pass": ["result.json.paid == true"]}, got)[0] == "fail"
    assert verdict({**GET, "pass": ["result.json.other == true"]}, got)[0] == "inconclusive"
    assert verdict({**GET, "pass": ["result.status == 500"]}, got) == (
        "inconclusive",
        "`it` could not judge: the status is 500, not 200",
    )


# --- servers that are slow, huge or wrong ---------------------------------------------------------------------------


async def endless(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        out.write(b"x" * 65536)
        await out.drain()


async def trickle(out: asyncio.StreamWriter) -> None:
    out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
    while True:
        out.write(b"x")
        await out.drain()
        await asyncio.sleep(0.05)


async def test_an_endless_answer_and_a_slow_one_end(server: Server) -> None:
    server.script = endless
    assert why(await ask(server)) == "the answer of `shop` is larger than 1024 kB"
    server.script = trickle
    assert await ask(server, timeout_s=0.5) == Silence("it took longer than 0.5 s")
    server.script = lambda _: asyncio.sleep(30)
    assert await ask(server, timeout_s=0.3) == Silence("it took longer than 0.3 s")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SMTP hello\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_whole_answer_is_none(server: Server, raw: bytes) -> None:
    server.script = lambda out: out.write(raw)
    assert why(await ask(server)) == "`shop` gave no whole answer"


async def test_a_bomb_is_not_unpacked(server: Server) -> None:
    server.script = answer(b"\x1f\x8b\x08", "200 OK", "application/json", "Content-Encoding: gzip")
    assert why(await ask(server)) == "the answer of `shop` is compressed, which was not asked for"


@pytest.mark.parametrize(
    ("body", "kind", "told"),
    [
        (b'{"a": 1, "a": 2}', "application/json", {}),
        (b"NaN", "application/json", {}),
        (b"[" * 500 + b"]" * 500, "application/json", {}),
        (b'{"a": 1}', "application/problem+json; charset=utf-8", {"json": {"a": 1}}),
        (b'{"a": 1}', "text/plain", {"text": '{"a": 1}'}),
        (b"\xff\xfe", "text/plain", {}),
        (b"a\x00b", "text/plain", {"text": "a\ufffdb"}),
    ],
)
async def test_a_body_is_json_only_if_it_says_so_and_is_so_without_doubt(
    server: Server, body: bytes, kind: str, told: dict[str, Any]
) -> None:
    server.script = answer(body, kind=kind)
    found = seen(await ask(server))
    assert {name: found[name] for name in ("json", "text") if name in found} == told


async def test_a_server_that_is_not_there_is_told_without_its_address() -> None:
    gone = UrlPlace("shop", "http://127.0.0.1:1/api")
    assert why(await look("http", {}, gone)) == "`shop` cannot be reached"
    unknown = UrlPlace("shop", "http://no-such-host.invalid/")
    assert why(await look("http", {}, unknown)) == "`shop` cannot be reached"


async def test_a_server_that_says_our_secret_back_is_not_quoted(server: Server) -> None:
    server.script = answer(b'{"you": "Bearer t0k3n-long", "t0k3n-long": ["x t0k3n-long"]}')
    assert seen(await ask(server))["json"] == {"you": f"Bearer {HIDDEN}", HIDDEN: [f"x {HIDDEN}"]}


async def test_proxies_of_the_environment_are_not_asked(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert seen(await ask(server))["status"] == 200
