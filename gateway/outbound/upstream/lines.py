"""bytes -> whole lines. asyncio's own reader dies at 64 KiB; real servers send one line of 16 MB."""

from collections.abc import Iterator


class Lines:
    """Chunks in, lines out, without their ends. A line beyond the limit is thrown away, all of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[bytes | None]:
        """The lines that this chunk completes, in order; None stands for one that was too long."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._add(end)
            yield self._line()
        self._add(rest)

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        elif part:
            self._parts.append(part)

    def _line(self) -> bytes | None:
        line = None if self._size > self._limit else b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        return line
