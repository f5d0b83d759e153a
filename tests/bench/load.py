"""The load: calls one after another in each of so many lanes, over raw sockets or one pipe, nothing in between.

A single thread waits on epoll, so that the generator and a trivial upstream together cost a few tens of microseconds
a call: a fast proxy must not be measured by how slow its measure is. Every answer is checked: it must hold the text
that was sent, which no other call has.
"""

import itertools
import json
import os
import re
import select
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.bench.echo_upstream import BLOB

DRAIN_S = 15.0
"""For what is under way when the time is up; if something has no answer by then, nothing here is worth a figure."""

_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_SAID = {"echo": b"", "blob": BLOB[:4096].encode()}
_FILLING = b"x" * 200
_ids = itertools.count(10_000_000)  # of one length for the whole run, and so are the calls

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CONVERSATION = "threadId"
"""Key in `_meta` by which a client tells its conversations apart."""


@dataclass(frozen=True)
class Call:
    """One `tools/call` as bytes, and what its answer must hold."""

    number: int
    body: bytes
    wanted: bytes


def calls(tool: str, a_run: int | None = None) -> Iterator[Call]:
    """Calls that were never made before, so many of them in each conversation, which is a run of its own to the
    gateway; None: all calls of this client are one run.
    """
    meta = META if a_run is None else {**META, CONVERSATION: "@RUN"}
    params = {"name": tool, "arguments": {"text": "@TEXT"}, "_meta": meta}
    whole = {"jsonrpc": "2.0", "id": "@ID", "method": "tools/call", "params": params}
    words = json.dumps(whole, separators=(",", ":")).replace('"@ID"', "%d").replace("@TEXT", "%b").encode()
    template = words
    for made in itertools.count():
        if a_run is not None and made % a_run == 0:
            template = words.replace(b"@RUN", b"conversation-%d" % next(_ids))
        number = next(_ids)
        text = b"call %d %b" % (number, _FILLING)
        yield Call(number, template % (number, text), _SAID[tool] or text)


@dataclass
class Slice:
    """What came of one load on one target."""

    took_s: list[float] = field(default_factory=list)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.took_s) / self.seconds

    def count(self, call: Call, answer: bytes | bytearray, took_s: float) -> None:
        """The answer is in, and it is this."""
        self.took_s.append(took_s)
        if call.wanted not in answer or b'"isError":true' in answer:
            self.failures.append(answer[:400].decode(errors="replace"))


class Lane:
    """One connection with one call at a time."""

    def __init__(self, address: tuple[str, int], tool: str, a_run: int | None) -> None:
        self._calls = calls(tool, a_run)
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"POST /mcp HTTP/1.1\r\nHost: {address[0]}:{address[1]}\r\nContent-Type: application/json\r\n"
            "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: tools/call\r\nMcp-Name: {tool}\r\nContent-Length: "
        ).encode()
        self._came = bytearray()
        self.call = Call(0, b"", b"")
        self.begun = 0.0

    def send(self) -> None:
        """A new call is on its way."""
        call = self.call = next(self._calls)
        self._came = bytearray()
        self.begun = time.perf_counter()
        self.socket.sendall(b"%b%d\r\n\r\n%b" % (self._head, len(call.body), call.body))

    def receive(self) -> bytearray | None:
        """The whole answer, with its head, once it is there. Raises: ConnectionError."""
        data = self.socket.recv(262_144)
        if not data:
            raise ConnectionError(f"closed after {bytes(self._came[:300])!r}")
        self._came += data
        return self._came if self._whole() else None

    def _whole(self) -> bool:
        end = self._came.find(_END_OF_HEAD)
        if end < 0:
            return False
        if length := _LENGTH.search(self._came, 0, end):
            return len(self._came) >= end + len(_END_OF_HEAD) + int(length[1])
        return self._came.endswith(b"\r\n0\r\n\r\n")  # chunked


class Http:
    """A target behind one port of this machine or several, and every lane a connection that is kept for the next load
    of its kind, with its conversation.
    """

    def __init__(self, *ports: int) -> None:
        self.ports = ports
        self._lanes: dict[tuple[str, int, int | None], list[Lane]] = {}

    def load(self, tool: str, at_once: int, seconds: float, a_run: int | None = None) -> Slice:
        """Calls were made one after another in each of `at_once` lanes for that long, the lanes spread over the ports.

        `a_run` as for `calls`, of each lane. Raises: TimeoutError.
        """
        lanes = self._fresh(tool, at_once, a_run)
        slice_, ready = Slice(), select.epoll()
        by_file = {lane.socket.fileno(): lane for lane in lanes}
        begun = time.perf_counter()
        try:
            for file, lane in by_file.items():
                ready.register(file, select.EPOLLIN)
                lane.send()
            self._run(ready, by_file, slice_, begun + seconds)
        finally:
            ready.close()
        slice_.seconds = time.perf_counter() - begun
        return slice_

    @staticmethod
    def _run(ready: select.epoll, open_: dict[int, Lane], slice_: Slice, until: float) -> None:
        open_ = dict(open_)
        while open_:
            events = ready.poll(max(until + DRAIN_S - time.perf_counter(), 0))
            if not events:
                raise TimeoutError(f"{len(open_)} calls have no answer within {DRAIN_S} s after the end")
            for file, _ in events:
                lane = open_[file]
                try:
                    answer = lane.receive()
                except ConnectionError as error:
                    slice_.failures.append(str(error))
                    del open_[file]
                    ready.unregister(file)
                    continue
                if answer is None:
                    continue
                now = time.perf_counter()
                slice_.count(lane.call, answer, now - lane.begun)
                if now < until:
                    lane.send()
                else:
                    del open_[file]

    def _fresh(self, tool: str, at_once: int, a_run: int | None) -> list[Lane]:
        """The lanes of the last time, where nobody closed one meanwhile."""
        kept = self._lanes.get((tool, at_once, a_run), [])
        if not kept or any(_closed(lane.socket) for lane in kept):
            for lane in kept:
                lane.socket.close()
            spread = itertools.islice(itertools.cycle(self.ports), at_once)
            self._lanes[tool, at_once, a_run] = kept = [Lane(("127.0.0.1", port), tool, a_run) for port in spread]
        return kept

    def close(self) -> None:
        """Every connection is given up."""
        for lane in itertools.chain.from_iterable(self._lanes.values()):
            lane.socket.close()


def _closed(connection: socket.socket) -> bool:
    try:
        connection.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True  # the end, or something that nobody asked for


class Stdio:
    """A target that is a process, all lanes in its one pipe, told apart by id."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._to, self._from = process.stdin.fileno(), process.stdout.fileno()
        self._tail = b""

    def load(self, tool: str, at_once: int, seconds: float, a_run: int | None = None) -> Slice:
        """Calls were made one after another in each of `at_once` lanes for that long. Raises: TimeoutError."""
        made, slice_ = calls(tool, a_run), Slice()
        under_way: dict[int, tuple[Call, float]] = {}
        begun = time.perf_counter()
        until = begun + seconds
        for _ in range(at_once):
            self._send(next(made), under_way)
        while under_way:
            if not select.select([self._from], [], [], max(until + DRAIN_S - time.perf_counter(), 0))[0]:
                raise TimeoutError(f"{len(under_way)} calls have no answer within {DRAIN_S} s after the end")
            for line in self._lines():
                found = under_way.pop(_id_of(line), None)
                if found is not None:
                    now = time.perf_counter()
                    slice_.count(found[0], line, now - found[1])
                    if now < until:
                        self._send(next(made), under_way)
        slice_.seconds = time.perf_counter() - begun
        return slice_

    def _send(self, call: Call, under_way: dict[int, tuple[Call, float]]) -> None:
        under_way[call.number] = (call, time.perf_counter())
        os.write(self._to, call.body + b"\n")  # 64 calls fit into a pipe, so this neither waits nor is cut

    def _lines(self) -> list[bytes]:
        data = os.read(self._from, 262_144)
        if not data:
            raise ConnectionError("the process has ended")
        *lines, self._tail = (self._tail + data).split(b"\n")
        return lines


_ID = re.compile(rb'"id": ?(\d+)')


def _id_of(line: bytes) -> int:
    """The first id in the line, or the last one: an answer's own stands at either end, before or after its result."""
    first = _ID.search(line, 0, 100) or _ID.search(line, max(len(line) - 100, 0))
    return int(first[1]) if first else 0
