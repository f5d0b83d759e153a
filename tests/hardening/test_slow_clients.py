"""Clients that begin and never end keep nobody else waiting [hardening T44]."""

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest

from gateway import serving
from gateway.inbound.mcp import framing
from gateway.model.limits import Limits
from tests.hardening.hostile import Ground, ground
from tests.inbound.served import door

BODY = (
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\n"
    b"Content-Type: application/json\r\nContent-Length: 500\r\n\r\n{"
)
HALVES = (
    b"",
    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    BODY,
    b"\x16\x03\x01\x02\x00\x01\x00",
)
"""Nothing; half a head; half a body; a TLS hello, of which the rest never comes."""


@asynccontextmanager
async def half_open(port: int, count: int) -> AsyncIterator[list[asyncio.StreamWriter]]:
    """So many connections on which something was begun."""
    writers: list[asyncio.StreamWriter] = []
    try:
        for number in range(count):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HALVES[number % len(HALVES)])
            writers.append(writer)
        yield writers
    finally:
        for writer in writers:
            writer.close()


@contextmanager
def descriptors(count: int) -> Iterator[None]:
    """This process may open so many files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        pytest.skip(f"this system lets a process open no more than {hard} files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.slow
@pytest.mark.long
async def test_two_thousand_half_open_clients_do_not_stop_a_good_one(tmp_path: Path) -> None:
    with descriptors(8192):
        async with ground(tmp_path) as it, half_open(it.port, 2_000):
            took = [await _good(it) for _ in range(20)]
    assert max(took) < 2.0
    assert sorted(took)[10] < 0.25


async def _good(it: Ground) -> float:
    begun = time.perf_counter()
    await it.still_good()
    return time.perf_counter() - begun


async def test_where_there_is_no_room_whoever_waits_longest_makes_some() -> None:
    async with door(connections=20) as served, half_open(served.port, 20):
        for _ in range(3):
            assert (await served.modern("tools/list", {})).status == 200


async def test_where_all_have_said_what_they_want_no_more_come_in() -> None:
    async with door(connections=16) as served:
        async with half_open_bodies(served.port, 16):
            said = await served.raw(b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert said == framing._FULL
        await asyncio.sleep(0.05)
        assert (await served.modern("tools/list", {})).status == 200


@asynccontextmanager
async def half_open_bodies(port: int, count: int) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(count):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.callback(writer.close)
            writer.write(BODY.replace(b"\r\n\r\n{", b"\r\nExpect: 100-continue\r\n\r\n"))
            with anyio.fail_after(5):  # it has been heard
                await reader.readuntil(b"\r\n\r\n")
        yield


def test_descriptors_are_kept_for_the_ledger_and_the_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: set_to.append(limits))
    for soft, hard, wanted, room, told in (
        (1024, 524_288, 10_000, 10_000, [(10_512, 524_288)]),
        (1024, 4096, 10_000, 3584, [(4096, 4096)]),
        (256, 256, 10_000, 16, [(256, 256)]),
        (1_048_576, 1_048_576, 10_000, 10_000, []),
        (256, resource.RLIM_INFINITY, 100, 100, [(612, resource.RLIM_INFINITY)]),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 100, 100, []),
    ):
        set_to.clear()
        monkeypatch.setattr(resource, "getrlimit", lambda _, pair=(soft, hard): pair)
        assert serving.room_for(wanted) == room
        assert set_to == told


def test_every_limit_is_safe_as_it_is() -> None:
    assert Limits() == Limits(10_000, 4 * 2**20, 30.0, 10_000, 64 * 2**20, 10_000)
