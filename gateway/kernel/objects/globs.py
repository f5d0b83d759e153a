"""Patterns with `*` and `?` over texts and over the steps of paths; never more work than one length times the other."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from gateway.kernel.objects.judged import MAX_TEXT, Function, bounded

T = TypeVar("T")

MAX_PATTERN = 256
"""Characters of a pattern: times the longest text, some hundredth of a second."""


def fits(pattern: Sequence[T], given: Sequence[T], equal: Callable[[T, T], bool], star: object = "**") -> bool:
    """Whether the pattern takes all of what is given; `star` takes any run of elements, also none.

    Only the last star that was met is ever tried again, which is enough, since an earlier one can take no more than
    it did [Krauss, "Matching Wildcards: An Algorithm", 2008].
    """
    at = of = 0
    retry, taken = -1, 0
    while at < len(given):
        if of < len(pattern) and pattern[of] == star:
            retry, taken = of, at
            of += 1
        elif of < len(pattern) and equal(pattern[of], given[at]):
            of, at = of + 1, at + 1
        elif retry >= 0:
            taken += 1
            of, at = retry + 1, taken
        else:
            return False
    return all(one == star for one in pattern[of:])


def text_glob(text: str, pattern: str) -> bool:
    """Whether the whole text fits the pattern: `*` any run of characters, `?` one, no case folding."""
    bounded(text, "the text", MAX_TEXT // 10)
    bounded(pattern, "the pattern", MAX_PATTERN)
    return fits(pattern, text, lambda one, char: one in {char, "?"}, "*")


def text_lower(text: str) -> str:
    """The text in lower case."""
    return bounded(text, "the text").lower()


FUNCTIONS = (
    Function(
        "text.glob",
        ((("string", "string"), "bool"),),
        text_glob,
        {1: lambda pattern: bounded(str(pattern), "the pattern", MAX_PATTERN)},
    ),
    Function("text.lower", ((("string",), "string"),), text_lower),
)
