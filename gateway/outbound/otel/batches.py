"""What waits to be sent: bounded, and taken by a thread of its own. Putting something there never waits."""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic, sleep
from typing import Generic, TypeVar

from gateway.outbound.otel.switches import MAX_BYTES, Bounds

T = TypeVar("T")


class Batches(Generic[T]):
    """Sends what is put, in batches, in order."""

    def __init__(
        self, what: str, bounds: Bounds, send: Callable[[Sequence[T]], bool], size: Callable[[T], int] = lambda _: 1
    ) -> None:
        """`send` says whether the backend has them; it may block, and is called by one thread. `size`: in bytes."""
        self.what = what
        """In the plural, for messages."""
        self.dropped = 0
        """What found no room, or was not taken by the backend."""
        self._bounds = bounds
        self._send = send
        self._size = size
        self._waiting: deque[T] = deque()
        self._came = self._went = 0
        """Bytes that were put, and that were taken out again: each is counted by one thread."""
        self._sending = 0
        self._due = threading.Event()
        self._closing = False
        self._ended = threading.Event()
        # A daemon: a hung backend must not hold the process.
        threading.Thread(target=self._run, name=f"counterfoil-{what}", daemon=True).start()

    def put(self, item: T) -> None:
        """It is sent, or counted as dropped."""
        size = self._size(item)
        too_many = len(self._waiting) >= self._bounds.queue or self._came - self._went + size > MAX_BYTES
        if too_many or self._closing:
            self.dropped += 1
            return
        self._came += size
        self._waiting.append(item)
        if len(self._waiting) >= self._bounds.batch and not self._due.is_set():
            self._due.set()

    def close(self) -> None:
        """What waits is sent now, and nothing more is taken. Does not wait."""
        self._closing = True
        self._due.set()

    def flush(self, timeout_s: float) -> None:
        """What waits is sent, or the time is up."""
        until = monotonic() + timeout_s
        while self.left and monotonic() < until:
            self._due.set()
            sleep(0.01)

    def ended(self, timeout_s: float) -> bool:
        """Whether all is sent or dropped, after that long at most."""
        return self._ended.wait(timeout_s)

    @property
    def left(self) -> int:
        """How many were neither sent nor dropped."""
        return len(self._waiting) + self._sending

    def _run(self) -> None:
        while not (self._closing and not self._waiting):
            self._due.wait(self._bounds.pause_s)
            if not self._closing:
                self._due.clear()
            while self._waiting:
                self._hand_on()
        self._ended.set()

    def _hand_on(self) -> None:
        batch = [self._waiting.popleft() for _ in range(min(self._bounds.batch, len(self._waiting)))]
        self._sending = len(batch)
        self._went += sum(map(self._size, batch))
        try:
            taken = self._send(batch)
        except Exception:  # noqa: BLE001 - whatever an exporter meets with: the exporters log what they failed by
            taken = False
        if not taken:
            self.dropped += len(batch)
        self._sending = 0
