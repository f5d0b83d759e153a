"""What the ledger's log was at one moment: so many records under one Merkle root, signed by whoever keeps it.

Frozen; `runtime/sealing.py` makes them, `kernel/merkle.py` says what a root is.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The log's size and root, with what is needed to go on from there without reading it again."""

    size: int
    """How many records it was made over."""
    place: int
    """Of the last of them in the ledger."""
    peaks: tuple[str, ...]
    """Roots of the perfect subtrees that the log is made of, in hex, the largest first [RFC 9162, 2.1]."""
    at: float
    """When, in seconds since the epoch."""
    note: str
    """Origin, size and root, with the signature if there is a key [C2SP tlog-checkpoint, signed-note]."""
