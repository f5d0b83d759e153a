"""bytes -> the data of server-sent events [WHATWG HTML, server-sent events: parsing an event stream].

Beside the data of messages, what MCP uses: `id` and `retry`, by which a stream that broke is resumed, and the event
`endpoint` of the HTTP+SSE transport of 2024-11-05.
"""

from collections.abc import Iterator

_MAX_ID = 4096


class EventTooLarge(ValueError):
    """One event is larger than the limit; nothing after it can be trusted to be read in step."""


class Events:
    """Chunks in, payloads out. What the end of the stream cuts off is no event."""

    def __init__(self, limit: int) -> None:
        self.last_id: str | None = None
        """Of the last event that has one: from there the stream can be resumed."""
        self.retry_ms: int | None = None
        """After how long it should be, as far as the server has said."""
        self.endpoint: bytes | None = None
        """The data of the last event `endpoint`."""
        self.limit = limit
        self._size = 0
        self._parts: list[bytes] = []
        self._data: list[bytes] = []
        self._kind = b""
        self._id: bytes | None = None
        self._after_cr = False
        self._first = True

    def again(self) -> "Events":
        """For the next stream, which goes on where this one broke."""
        events = Events(self.limit)
        events.last_id, events.retry_ms = self.last_id, self.retry_ms
        return events

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The data of each message event that this chunk completes, in order.

        Raises: EventTooLarge.
        """
        *ends, rest = self._with_plain_ends(chunk).split(b"\n")
        for end in ends:
            self._add(end)
            line = b"".join(self._parts)
            self._parts.clear()
            yield from self._line(line)
        self._add(rest)

    def _with_plain_ends(self, chunk: bytes) -> bytes:
        # A line ends with CR, LF or both; both may lie in two chunks.
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in chunk else chunk

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self.limit:
            raise EventTooLarge(f"an event is larger than {self.limit} bytes")
        if part:
            self._parts.append(part)

    def _line(self, line: bytes) -> Iterator[bytes]:
        if self._first:
            line, self._first = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            yield from self._event()
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
            return
        self._size -= len(line)  # comments that keep a quiet stream open are no part of an event
        if name == b"event":
            self._kind = value
        elif name == b"id" and b"\0" not in value and len(value) <= _MAX_ID:
            self._id = value
        elif name == b"retry" and value.isdigit() and len(value) < 10:  # noqa: PLR2004 - 31 years are enough
            self.retry_ms = int(value)

    def _event(self) -> Iterator[bytes]:
        data, kind = b"\n".join(self._data), self._kind
        if self._id is not None:  # an event counts as received also if it has no data
            self.last_id, self._id = self._id.decode("utf-8", "replace") or None, None
        self._data.clear()
        self._kind = b""
        self._size = 0
        if data and kind in {b"", b"message"}:
            yield data
        elif kind == b"endpoint":
            self.endpoint = data
