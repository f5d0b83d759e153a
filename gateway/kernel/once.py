"""What does not change is found out once, and kept within a bound."""

from collections.abc import Callable, Hashable, MutableMapping
from typing import TypeVar

T = TypeVar("T")
What = TypeVar("What", bound=Hashable)


def once(found: MutableMapping[What, T], what: What, find: Callable[[], T], most: int) -> T:
    """What `find` gives, which must always be the same for `what`. When `most` are kept, all are let go."""
    known = found.get(what)
    if known is None:
        if len(found) >= most:
            found.clear()
        known = found[what] = find()
    return known
