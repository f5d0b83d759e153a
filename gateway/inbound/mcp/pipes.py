"""Lines in from one descriptor and out to another, on the event loop, without ever blocking it.

The descriptors are shared with whoever started us, so they are not made non-blocking: they are polled, and then read
or written by no more than they take.
"""

import asyncio
import os
import select
from collections import deque
from collections.abc import Callable

MAX_LINE_BYTES = 16 * 1024 * 1024
READ_BYTES = 65_536
ATOMIC_BYTES = 4096
"""PIPE_BUF on Linux: what a descriptor that polls as writable takes without blocking [POSIX, write]."""
POLL_S = 0.01
"""For what can be polled, and yet not be waited for."""


class Source:
    """Takes each line that is not blank; None for one that is too long."""

    def __init__(self, descriptor: int, take: Callable[[bytes | None], None]) -> None:
        self._descriptor = descriptor
        self._take = take
        self._poll = _polling(descriptor, select.POLLIN)
        self._line, self._too_long = bytearray(), False
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        """Done when there is no more to read."""
        self._pollable = True
        try:
            self._loop.add_reader(descriptor, self._read)
        except OSError:  # a file or the null device: always ready, and nothing that can be waited for
            self._pollable = False
            self._loop.call_soon(self._read_again)

    def close(self) -> None:
        """Nothing is read any more."""
        if not self.ended.done():
            self._end()

    def hold(self, *, back: bool) -> None:
        """Whether what comes waits where it is."""
        if back == self._paused or self.ended.done():
            return
        self._paused = back
        if not self._pollable:
            return
        if back:
            self._loop.remove_reader(self._descriptor)
        else:
            self._loop.add_reader(self._descriptor, self._read)

    def _read_again(self) -> None:
        if not self._paused:
            self._read()
        if not self.ended.done():
            at_once = not self._paused and self._poll.poll(0)
            self._loop.call_later(0 if at_once else POLL_S, self._read_again)

    def _read(self) -> None:
        if self.ended.done() or not self._poll.poll(0):
            return
        try:
            chunk = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # a terminal that has gone
            chunk = b""
        if chunk:
            self._split(chunk)
            return
        self._end()
        if self._line and not self._too_long and not self._line.isspace():
            self._take(bytes(self._line))  # whoever ends without a newline has ended all the same

    def _end(self) -> None:
        self._loop.remove_reader(self._descriptor)
        self.ended.set_result(None)

    def _split(self, chunk: bytes) -> None:
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            line = self._line + end if self._line else end
            too_long, self._line, self._too_long = self._too_long or len(line) > MAX_LINE_BYTES, bytearray(), False
            if too_long:
                self._take(None)
            elif line and not line.isspace():
                self._take(bytes(line))
        self._line += rest
        if len(self._line) > MAX_LINE_BYTES:
            self._line, self._too_long = bytearray(), True


class Sink:
    """What is put in goes out in order, as fast as it is taken."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._poll = _polling(descriptor, select.POLLOUT)
        self._loop = asyncio.get_running_loop()
        self._queue: deque[tuple[memoryview, Callable[[], None] | None]] = deque()
        self._watching = False
        self._empty = asyncio.Event()
        self._empty.set()
        self.waiting = 0
        """Bytes that are still to be written."""
        self.eased: Callable[[], None] = _nothing
        """Called when nothing waits any more."""
        self.broken: asyncio.Future[None] = self._loop.create_future()
        """Done when nobody reads any more."""

    def put(self, data: bytes, written: Callable[[], None] | None = None) -> None:
        """The data is written in its turn; then `written` is called, if all of it is in the hands of the system."""
        if self.broken.done():
            return
        self._queue.append((memoryview(data), written))
        self.waiting += len(data)
        if not self._watching:
            self._write()

    async def emptied(self) -> None:
        """Return when nothing waits to be written."""
        await self._empty.wait()

    def close(self) -> None:
        """Nothing is written any more."""
        self._unwatch()
        if not self.broken.done():
            self.broken.set_result(None)

    def _write(self) -> None:
        while self._queue:
            view, written = self._queue.popleft()
            rest = self._push(view)
            if rest is None:
                self.close()
                return
            if rest:
                self._queue.appendleft((rest, written))
                self._watch()
                return
            if written is not None:
                written()
        self._unwatch()
        self.eased()

    def _push(self, view: memoryview) -> memoryview | None:
        """What the descriptor did not take now; None if nobody reads any more."""
        while view:
            if not self._poll.poll(0):
                break
            try:
                count = os.write(self._descriptor, view[:ATOMIC_BYTES])
            except BlockingIOError:
                break
            except OSError:  # a broken pipe, or a terminal that has gone
                return None
            self.waiting -= count
            view = view[count:]
        return view

    def _watch(self) -> None:
        if not self._watching:
            self._watching = True
            self._empty.clear()
            self._loop.add_writer(self._descriptor, self._write)

    def _unwatch(self) -> None:
        if self._watching:
            self._watching = False
            self._empty.set()
            self._loop.remove_writer(self._descriptor)


def _nothing() -> None:
    """Nobody wants to know."""


def _polling(descriptor: int, events: int) -> select.poll:
    poll = select.poll()
    poll.register(descriptor, events)
    return poll
