"""What a program prints, bounded: its head and its tail are kept."""

from collections.abc import Iterable

HEAD = 32 * 1024
TAIL = 32 * 1024


class Kept:
    """A stream of bytes of which only so much is kept, and no part of a secret at either cut."""

    def __init__(self, head: int = HEAD, tail: int = TAIL, secrets: Iterable[bytes] = ()) -> None:
        self._most = head, tail
        self._secrets = tuple(secrets)
        self._margin = max(map(len, self._secrets), default=1) - 1
        """Beyond a cut; a secret that lies across it ends there."""
        self._size = 0
        self._head = bytearray()
        self._tail = bytearray()

    def add(self, piece: bytes) -> None:
        """It goes on with these bytes."""
        head, tail = self._most[0] + self._margin, self._most[1] + self._margin
        self._size += len(piece)
        self._head += piece[: head - len(self._head)]
        self._tail += piece
        if len(self._tail) > tail:
            del self._tail[: len(self._tail) - tail]

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self._size > sum(self._most)

    def text(self) -> str:
        """What was kept, with a line in the middle that says how much was not."""
        head, tail = self._most
        if not self.truncated:
            rest = self._size - min(self._size, head)
            return bytes(self._head[:head] + self._tail[len(self._tail) - rest :]).decode(errors="replace")
        first = bytes(self._head[: self._clear(self._head, head, at_its_begin=True)])
        last = bytes(self._tail[self._clear(self._tail, len(self._tail) - tail, at_its_begin=False) :])
        cut = f"\n[{self._size - len(first) - len(last)} bytes are left out here]\n".encode()
        return (first + cut + last).decode(errors="replace")

    def _clear(self, body: bytearray, cut: int, *, at_its_begin: bool) -> int:
        """The cut, or where one goes through a secret, that one's begin or end."""
        moved = True
        while moved:
            moved = False
            for one in self._secrets:
                find = body.find if at_its_begin else body.rfind
                found = find(one, max(0, cut - len(one) + 1), cut + len(one) - 1)
                if found >= 0:
                    cut, moved = found if at_its_begin else found + len(one), True
        return cut
