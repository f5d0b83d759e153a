"""What a program prints, bounded: its head and its tail are kept."""

HEAD = 32 * 1024
TAIL = 32 * 1024


class Kept:
    """A stream of bytes of which only so much is kept."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0

    def add(self, piece: bytes) -> None:
        """It goes on with these bytes."""
        head, tail = self._most
        room = head - len(self._head)
        self._head += piece[:room]
        self._tail += piece[room:]
        if len(self._tail) > tail:
            self._left_out += len(self._tail) - tail
            del self._tail[: len(self._tail) - tail]

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self._left_out > 0

    def text(self) -> str:
        """What was kept, with a line in the middle that says how much was not."""
        cut = f"\n[{self._left_out} bytes are left out here]\n".encode() if self._left_out else b""
        return bytes(self._head + cut + self._tail).decode(errors="replace")
