"""The three streams that whoever starts us gives us, or does not; and words for people that never hold up the work."""

import io
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

MAX_LINES = 10_000
"""Said and not read yet; what is said beyond them is dropped."""
LAST_WORDS_S = 0.5

_STREAMS = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def complete_streams() -> None:
    """Descriptors 0 to 2 are open, on the null device where nobody gave us one.

    Else what is opened next, a ledger or a socket, takes the number and is then read and written as that stream; and
    `print` to a stderr that is None goes to stdout, which belongs to the protocol.
    """
    while (opened := os.open(os.devnull, os.O_RDWR)) < len(_STREAMS):
        pass
    os.close(opened)
    for number, (name, mode) in enumerate(_STREAMS):
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - as sys has them


class Words(io.TextIOBase):
    """Text for a descriptor, written in a thread of its own: who does not read it, or has left, stops nobody."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._queue: queue.Queue[str | None] = queue.Queue(MAX_LINES)
        self._thread = threading.Thread(target=self._write_all, name="words", daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        """The descriptor."""
        return self._descriptor

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str, /) -> int:
        """The text is written in its turn, or dropped."""
        self._put(text)
        return len(text)

    def end(self) -> None:
        """What was said is written, if somebody reads it now."""
        self._put(None)
        self._thread.join(LAST_WORDS_S)

    def _put(self, text: str | None) -> None:
        try:
            self._queue.put_nowait(text)
        except queue.Full:
            return

    def _write_all(self) -> None:
        while (text := self._queue.get()) is not None:
            data = memoryview(text.encode("utf-8", "backslashreplace"))
            while data:
                try:
                    data = data[os.write(self._descriptor, data) :]
                except BlockingIOError:  # whoever gave it to us made it so
                    time.sleep(0.05)
                except OSError:  # nobody reads any more
                    break


@contextmanager
def unhurried_stderr() -> Iterator[Words]:
    """In the block, what is said on `sys.stderr` waits for no reader, and is lost if there is none."""
    sys.stderr.flush()
    words = Words(2)
    with redirect_stderr(words):
        try:
            yield words
        finally:
            words.end()
