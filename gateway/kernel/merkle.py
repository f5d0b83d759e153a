"""The tree over the ledger's log: its root, and proofs that a record is in it or that it only grew [RFC 9162, 2.1].

A leaf is a record's link, in the order of the log. What is kept of a log is its peaks: the roots of the perfect
subtrees that it is made of, the largest first, one for each bit of its size. The next leaf joins the last of them, so a
log grows by some two hashes a record, whatever its length.
"""

from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import TypeAlias

Range: TypeAlias = tuple[int, int]
"""Leaves from the first number up to but not including the second, counted from 0."""

_LEAF, _NODE = b"\0", b"\1"
"""What tells a leaf's hash from a node's, so that neither passes for the other [RFC 9162, 2.1.1]."""

EMPTY = sha256().digest()
"""The root of a log without records [RFC 9162, 2.1.1]."""


class BadProof(ValueError):
    """The proof does not prove what it is for."""


class Tree:
    """A log's peaks, while it grows."""

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Raises: ValueError if a log of that size does not have so many peaks."""
        if size < 0 or size.bit_count() != len(peaks):
            raise ValueError(f"a log of {size} records has {size.bit_count()} peaks, not {len(peaks)}")
        self.size = size
        self._peaks = list(peaks)

    @property
    def peaks(self) -> tuple[bytes, ...]:
        """The largest first."""
        return tuple(self._peaks)

    @property
    def root(self) -> bytes:
        """Of the whole log."""
        if not self._peaks:
            return EMPTY
        root = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            root = node(peak, root)
        return root

    def add(self, data: bytes) -> None:
        """One more leaf."""
        made, size = leaf(data), self.size
        while size & 1:
            made, size = node(self._peaks.pop(), made), size >> 1
        self._peaks.append(made)
        self.size += 1


def leaf(data: bytes) -> bytes:
    """The hash of a leaf."""
    return sha256(_LEAF + data).digest()


def node(left: bytes, right: bytes) -> bytes:
    """The hash of what two subtrees make together."""
    return sha256(_NODE + left + right).digest()


# --- proofs ---------------------------------------------------------------------------------------------------------
#
# Whoever proves needs the roots of some parts of the log. These functions say of which, so that a log that fits into no
# memory is read once, from the front, for all of them.


def path(index: int, size: int) -> tuple[Range, ...]:
    """The parts whose roots prove that a leaf is in a log of that size, in the order of the proof [RFC 9162, 2.1.3.1].

    Raises: ValueError for a leaf that is not in it.
    """
    if not 0 <= index < size:
        raise ValueError(f"a log of {size} records has no record {index}")
    parts: list[Range] = []
    start, end = 0, size
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            parts.append((middle, end))
            end = middle
        else:
            parts.append((start, middle))
            start = middle
    return tuple(reversed(parts))


def growth(old: int, size: int) -> tuple[Range, ...]:
    """The parts whose roots prove that a log of `size` begins with the one of `old` [RFC 9162, 2.1.4.1].

    Raises: ValueError if the older log was empty, or larger.
    """
    if not 0 < old <= size:
        raise ValueError(f"no proof leads from {old} records to {size}")
    parts: list[Range] = []
    start, end = 0, size
    while end > old:
        middle = start + _split(end - start)
        if old <= middle:
            parts.append((middle, end))
            end = middle
        else:
            parts.append((start, middle))
            start = middle
    if start:  # else the verifier has that root: it is the older log's
        parts.append((start, end))
    return tuple(reversed(parts))


class Parts:
    """The roots of these parts of a log, which do not overlap, from one pass over its leaves."""

    def __init__(self, parts: Iterable[Range]) -> None:
        self.roots: dict[Range, bytes] = {}
        """Of the parts that are complete."""
        self._waiting = sorted(parts, reverse=True)
        self._tree = Tree()
        self._index = 0

    @property
    def complete(self) -> bool:
        """Whether nothing more need be read."""
        return not self._waiting

    def add(self, data: bytes) -> None:
        """The next leaf."""
        if self._waiting and self._index >= self._waiting[-1][0]:
            self._tree.add(data)
            if self._index == self._waiting[-1][1] - 1:
                self.roots[self._waiting.pop()], self._tree = self._tree.root, Tree()
        self._index += 1


def included(data: bytes, index: int, size: int, proof: Sequence[bytes]) -> bytes:
    """The root of the log of that size in which the proof puts the leaf [RFC 9162, 2.1.3.2].

    Whoever asks compares it with a root that they trust.

    Raises: BadProof if no proof of that length can be about that leaf.
    """
    if not 0 <= index < size:
        raise BadProof(f"a log of {size} records has no record {index}")
    root = leaf(data)
    for part, left in _sides(index, size - 1, proof):
        root = node(part, root) if left else node(root, part)
    return root


def _sides(at: int, last: int, proof: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Each part of a proof, and whether it stands to the left of what is proven [RFC 9162, 2.1.3.2 and 2.1.4.2].

    Raises: BadProof at the end of one that is too short or too long.
    """
    for part in proof:
        if last == 0:
            raise BadProof("the proof is too long")
        left = bool(at & 1) or at == last
        yield part, left
        while left and not at & 1 and at:
            at, last = at >> 1, last >> 1
        at, last = at >> 1, last >> 1
    if last:
        raise BadProof("the proof is too short")


def check_grown(old: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]) -> None:
    """The log with the one root begins with all of the log with the other [RFC 9162, 2.1.4.2].

    Raises: BadProof.
    """
    if not 0 < old <= size:
        raise BadProof(f"no proof leads from {old} records to {size}")
    if old == size:
        if proof or old_root != root:
            raise BadProof("two logs of one size have two roots")
        return
    parts = list(proof) if old & (old - 1) else [old_root, *proof]
    if not parts:
        raise BadProof("the proof is too short")
    at, last = old - 1, size - 1
    while at & 1:
        at, last = at >> 1, last >> 1
    was = now = parts[0]
    for part, left in _sides(at, last, parts[1:]):
        was, now = (node(part, was), node(part, now)) if left else (was, node(now, part))
    if was != old_root or now != root:
        raise BadProof("the log does not begin with what it was")


def _split(count: int) -> int:
    """The largest power of two below the count of leaves, which is more than one."""
    return 1 << ((count - 1).bit_length() - 1)
