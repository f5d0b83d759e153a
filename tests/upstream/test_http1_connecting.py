"""Who can be reached, and who is trusted; on both event loops."""

import socket
import ssl

import pytest
import trustme

from tests.upstream.http1_server import LOOPS, NAMES, Peer, ask, cannot, client, ok, saying, serving

MUCH = 1 << 25
LARGE = bytes(range(256)) * 40 * 1024  # 10 MiB


@pytest.fixture(params=LOOPS, ids=NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


# --- connecting -----------------------------------------------------------------------------------------------------


def unused_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


async def test_who_does_not_listen_cannot_be_reached() -> None:
    async with client(f"http://127.0.0.1:{unused_port()}/") as http:
        assert await cannot(http) == "connection refused"


async def test_a_name_that_is_none_cannot_be_reached() -> None:
    async with client("http://nobody.invalid/") as http:
        assert await cannot(http) == "its name cannot be resolved"


async def test_who_never_answers_the_tls_hello_cannot_be_reached() -> None:
    async def script(peer: Peer) -> None:
        await peer.closed()

    async with serving(script) as served, client(f"https://127.0.0.1:{served.port}/", connect_s=0.1) as http:
        assert await cannot(http) == "there was no connection in time"


async def test_who_speaks_no_tls_cannot_be_reached() -> None:
    async def script(peer: Peer) -> None:
        await peer.say(b"220 mail ready\r\n" * 10)
        await peer.closed()

    async with serving(script) as served, client(f"https://127.0.0.1:{served.port}/") as http:
        assert await cannot(http) == "it does not speak TLS as we do"


async def test_who_hangs_up_at_the_tls_hello_cannot_be_reached() -> None:
    async def script(_: Peer) -> None:
        pass

    async with serving(script) as served, client(f"https://127.0.0.1:{served.port}/") as http:
        assert await cannot(http) in {"none of its addresses can be reached", "connection reset by peer"}


async def test_a_name_is_tried_at_all_its_addresses_and_none_is_waited_for_long() -> None:
    """The first refuses, the second never answers: a backlog that is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        fillers = []
        for _ in range(4):
            fillers.append(socket.socket())
            fillers[-1].setblocking(False)
            fillers[-1].connect_ex(full.getsockname())
        async with serving(saying(ok())) as served, client("http://localhost/") as http:
            ports = [unused_port(), full.getsockname()[1], served.port]
            http._addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)) for port in ports]
            assert await ask(http) == b"hi"
            http._addresses = http._addresses[:1] * 2
            await http.send("POST", {})  # on the connection that there is
            http._idle.clear()
            assert await cannot(http) == "connection refused"
        for filler in fillers:
            filler.close()


async def test_of_a_name_of_which_each_address_fails_in_its_own_way_no_address_is_shown() -> None:
    async with client("http://localhost/") as http:
        places = [("127.0.0.1", unused_port()), ("255.255.255.255", 9)]
        http._addresses = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]
        assert await cannot(http) == "none of its addresses can be reached"


async def test_localhost_is_a_name_like_any_other() -> None:
    async with serving(saying(ok())) as served, client(f"http://localhost:{served.port}/") as http:
        assert await ask(http) == b"hi"
        assert served.asked[0].header(b"host") == [b"localhost:%d" % served.port]


async def test_small_packets_are_not_held_back() -> None:
    async with serving(saying(ok())) as served, client(served.url) as http:
        await ask(http)
        (connection,) = http._open
        sock = connection._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


# --- TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_side(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert(*names).configure_cert(context)
    return context


def client_side(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


async def test_over_tls_all_is_as_without(authority: trustme.CA) -> None:
    async def script(peer: Peer) -> None:
        while True:
            await peer.say(ok((await peer.request()).body))

    async with (
        serving(script, server_side(authority, "127.0.0.1", "localhost")) as served,
        client(f"https://localhost:{served.port}/", ssl=client_side(authority)) as by_name,
        client(f"https://127.0.0.1:{served.port}/", ssl=client_side(authority)) as by_address,
    ):
        for http in (by_name, by_address):
            assert await ask(http, b"small") == b"small"
            assert await ask(http, LARGE) == LARGE
            assert await ask(http, b"small again") == b"small again"
        assert len(served.peers) == 2


async def test_a_certificate_for_another_name_is_not_trusted(authority: trustme.CA) -> None:
    async with (
        serving(saying(ok()), server_side(authority, "other.test")) as served,
        client(f"https://localhost:{served.port}/", ssl=client_side(authority)) as http,
    ):
        assert await cannot(http) == "there is no trust in its certificate"
        assert served.asked == []


async def test_a_certificate_that_the_system_does_not_know_is_not_trusted(authority: trustme.CA) -> None:
    async with (
        serving(saying(ok()), server_side(authority, "localhost")) as served,
        client(f"https://localhost:{served.port}/") as http,
    ):
        assert await cannot(http) == "there is no trust in its certificate"
        assert served.asked == []
