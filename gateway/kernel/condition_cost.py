"""What the engine's own limit on steps leaves open: steps that copy. A step of `map` or `filter` copies all that was
gathered before it, and a `+` within a loop copies its texts each time, into memory that is let go at the end alone.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

STEPS = 10_000
"""The engine's limit on steps of one evaluation."""
MOST_GATHERED = 1_000
"""Elements of a list that is mapped or filtered: 0.04 s and 20 MB; ten times as many take 4 s and 1.5 GB."""
MOST_COPIED = 200_000_000
"""Characters that a loop may copy, at the most: the longest text in each step. A statement of SQL passes that is as
long as may be, in as many steps as may be.
"""

_LOOPS = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(")
_GATHERING = re.compile(r"\.\s*(?:map|filter)\s*\(")


class _Looks(NamedTuple):
    loops: int
    gathers: bool
    joins: bool


@lru_cache(maxsize=4096)
def _looks(expression: str) -> _Looks:
    """By the looks of the text, which may find too many and never too few."""
    loops = len(_LOOPS.findall(expression))
    return _Looks(loops, _GATHERING.search(expression) is not None, bool(loops) and "+" in expression)


def too_much(expression: str, values: Mapping[str, Any]) -> str | None:
    """Why the expression is not evaluated over these values, in half a sentence; None if it is."""
    looks = _looks(expression)
    if not looks.gathers and not looks.joins:
        return None
    longest_list, longest_text = _longest(values)
    if looks.gathers and longest_list > MOST_GATHERED:
        return f"it maps or filters, and a list has more than {MOST_GATHERED} elements"
    if looks.joins and longest_text * min(STEPS, longest_list**looks.loops) > MOST_COPIED:
        return "it joins texts in a loop, and they are too long for that"
    return None


def _longest(values: Mapping[str, Any]) -> tuple[int, int]:
    """Elements of the longest list or object in the values, and characters of the longest text."""
    elements, characters = 1, 0
    left: list[Any] = list(values.values())
    while left:
        one = left.pop()
        if isinstance(one, str):
            characters = max(characters, len(one))
        elif isinstance(one, Mapping | list):
            elements = max(elements, len(one))
            left.extend(one.values() if isinstance(one, Mapping) else one)
    return elements, characters
