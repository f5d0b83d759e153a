"""A flaw of a policy, and the parts of a policy as its file says them: what `flaws` and `evidence_flaws` share."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""Steps from the root of a file's value to one of its parts."""


class Flaw(ValueError):
    """Parts of a policy that are right each for itself do not fit together."""

    def __init__(self, place: Place, message: str, *, in_key: bool = False) -> None:
        super().__init__(message)
        self.place = place
        """Where in the policy, as its file spells the keys."""
        self.message = message
        self.in_key = in_key
        """It is the key at that place, not its value."""


def parts(whole: Any, pattern: Place, place: Place = ()) -> Iterator[tuple[Place, Any]]:
    """The parts of the value at all the places that the pattern means, each with its place."""
    if not pattern:
        yield place, whole
        return
    step, rest = pattern[0], pattern[1:]
    found: Any = ()
    if step == "*" and isinstance(whole, list | tuple):
        found = enumerate(whole)
    elif step == "*" and isinstance(whole, Mapping):
        found = whole.items()
    elif isinstance(whole, Mapping) and step in whole:
        found = [(step, whole[step])]
    for key, part in found:
        yield from parts(part, rest, (*place, key))


def texts(whole: Any, pattern: Place) -> Iterator[tuple[Place, str]]:
    """As `parts`, of those that are texts."""
    return ((place, part) for place, part in parts(whole, pattern) if isinstance(part, str))


def get(part: Any, key: str) -> Any:
    """What stands under the key; None where nothing does."""
    return part.get(key) if isinstance(part, Mapping) else None


def keys(part: Any) -> tuple[str, ...]:
    """Its keys; none where it has none."""
    return tuple(part) if isinstance(part, Mapping) else ()
