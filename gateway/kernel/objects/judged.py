"""What a function over objects is, and how it says that it cannot tell: by `Unjudged`, never by a guess.

Each function answers what is certain. A value of which two readers could think differently has no answer:
neither "true" nor "false" would be safe, because the one opens a transition and the other slips by a `forbid`.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from types import MappingProxyType
from typing import Any

MAX_TEXT = 100_000
"""Characters of a text that is judged."""
MAX_LIST = 1_000
"""Elements of a list that is judged."""

MARK = "objects: "
"""What the message of a refusal begins with, so that it can be told from the engine's own."""


class Unjudged(Exception):
    """The value cannot be judged for certain."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        """Half a sentence that shows no value: "the path has a step `..`"."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that conditions may call."""

    name: str
    """With its subject: `path.within`."""
    forms: tuple[tuple[tuple[str, ...], str], ...]
    """Types that it takes and type that it gives, as CEL writes them; one pair for each overload."""
    run: Callable[..., Any]
    """Pure and total but for `Unjudged`."""
    literals: Mapping[int | tuple[int, int], Callable[[Any], object]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """By place, or by place and count of arguments: raises `Unjudged` if a constant there is none that it can take."""
    fixed: frozenset[int] = frozenset()
    """Places that only a constant may take."""
    prepare: Callable[[], object] = lambda: None
    """Loads what the function needs, once a policy names it."""
    rate: int = 1
    """What a character costs that it is asked about, beside what one costs that is compared."""

    @property
    def guarded(self) -> Callable[..., Any]:
        """`run` as the engine calls it: whatever goes wrong is a ValueError that says why and shows no value."""
        run, rate = self.run, self.rate

        @wraps(run)
        def judged(*given: Any) -> Any:
            try:
                _spend(given, rate)
                return run(*given)
            except Unjudged as why:
                raise ValueError(f"{MARK}{why.reason}") from None
            except Exception:  # noqa: BLE001 - a parser's own failing is no answer, whatever it is
                raise ValueError(f"{MARK}it cannot be read") from None

        return judged


# --- how much one evaluation may ask --------------------------------------------------------------------------------

MOST = 4_000_000
"""Characters that functions may be asked about in one evaluation. A list in the arguments can make it ask ten thousand
times, each time about a text as long as may be; these are some tenths of a second.
"""
PARSED = 40
"""The rate of what a parser reads: a second of SQL."""


_LEFT: ContextVar[list[int] | None] = ContextVar("_LEFT", default=None)
"""What is left for the evaluation under way. None: nobody counts, as when a policy is loaded."""


@contextmanager
def counted() -> Iterator[None]:
    """What functions are asked while the block runs is one evaluation."""
    token = _LEFT.set([MOST])
    try:
        yield
    finally:
        _LEFT.reset(token)


def _spend(given: Iterable[Any], rate: int) -> None:
    left = _LEFT.get()
    if left is None:
        return
    left[0] -= rate * sum(_length(one) for one in given)
    if left[0] < 0:
        raise Unjudged("it asks about more text than one condition may")


def _length(value: Any) -> int:
    if isinstance(value, str):
        return len(value) + 1
    if isinstance(value, list):
        return sum(len(one) + 1 for one in value if isinstance(one, str))
    return 1


# --- what functions are made of -------------------------------------------------------------------------------------


def texts(given: Any, what: str) -> list[str]:
    """The list, if it is one of texts and not too long. A list from arguments may hold anything."""
    if len(given) > MAX_LIST:
        raise Unjudged(f"there are more than {MAX_LIST} {what}")
    if not all(isinstance(one, str) for one in given):
        raise Unjudged(f"not all {what} are texts")
    return list(given)


def bounded(text: str, what: str, most: int = MAX_TEXT) -> str:
    """The text, if it is not too long."""
    if len(text) > most:
        raise Unjudged(f"{what} is longer than {most} characters")
    return text


_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def hides(text: str) -> bool:
    """Whether it has characters that no reader sees, or sees as a plain space."""
    if text.isascii():
        return not text.isprintable()
    return any(unicodedata.category(char) in _HIDDEN or (char != " " and char.isspace()) for char in text)


def any_of(judge: Callable[[str], bool], many: list[str]) -> bool:
    """Whether it holds for one at least; what could not be judged counts only if no other holds."""
    unjudged: Unjudged | None = None
    for one in many:
        try:
            if judge(one):
                return True
        except Unjudged as why:
            unjudged = unjudged or why
    if unjudged is not None:
        raise unjudged
    return False
