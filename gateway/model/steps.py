"""What a run did again: its steps by what was done and what came of it, and how often since something new came."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from rpds import HashTrieMap

Kind: TypeAlias = Literal["denied", "error", "verifier", "read", "write"]
"""Of a step: a call that was refused, an error answer, a verdict that is a fail, and what succeeded."""


class Seen(NamedTuple):
    """How often a step was taken."""

    times: int
    """Since something new came, as of its last time."""
    seq: int
    """Place of its last time."""


class Peak(NamedTuple):
    """The step that came most often, of its kind, and first of those that did."""

    kind: Kind
    step: str
    times: int
    seq: int
    """Where it came to that count."""


class Steps(NamedTuple):
    """The steps of a run. `kernel/steps.py` moves them."""

    young: HashTrieMap[str, Seen] = HashTrieMap()
    """The latest different steps."""
    old: HashTrieMap[str, Seen] = HashTrieMap()
    """Those before them; what is in neither was forgotten."""
    peaks: tuple[Peak, ...] = ()
    """At most one of each kind; one from before `since` counts no more."""
    since: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """By kind, in the order of `KINDS`: the place from which on steps of that kind are counted."""


KINDS: tuple[Kind, ...] = ("denied", "error", "verifier", "read", "write")
