"""Which names two patterns share. `names` in `kernel/globs.py` says what a pattern means."""

from collections.abc import Iterable
from itertools import zip_longest

from gateway.kernel.globs import names


def contains(wide: str, narrow: str) -> bool:
    """Whether `wide` names all that `narrow` names.

    Exact: let a character that `wide` does not spell stand for each `*` of `narrow`. If `wide` names that text, only
    its own `*` can have taken those characters, and they would take anything else in their place as well; if it does
    not, that very text is a name that only `narrow` has.
    """
    fresh = next(chr(code) for code in range(0xE000, 0xF8FF) if chr(code) not in wide)
    return names(wide, narrow.replace("*", fresh))


def covering(wide: Iterable[str], narrow: str) -> str | None:
    """The pattern among `wide` that contains `narrow`; None only if they do not cover it together either.

    By the same argument: the one text stands for all that `narrow` names, and must itself be named by one of them.
    """
    return next((one for one in wide if contains(one, narrow)), None)


def meets(one: str, other: str) -> bool:
    """Whether some name fits both.

    Exact: if both have a `*`, the longer beginning, all that stands between in either, and the longer end make such a
    name, unless the beginnings or the ends contradict one another.
    """
    if "*" not in one:
        return names(other, one)
    if "*" not in other:
        return names(one, other)
    (first, *_, last), (begins, *_, ends) = one.split("*"), other.split("*")
    return _agree(first, begins) and _agree(last[::-1], ends[::-1])


def any_meets(some: Iterable[str], other: str) -> bool:
    """Whether one of them shares a name with `other`."""
    return any(meets(one, other) for one in some)


def _agree(one: str, other: str) -> bool:
    return all(left == right for left, right in zip_longest(one, other) if left is not None and right is not None)
