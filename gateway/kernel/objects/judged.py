"""What a function over objects is, and how it says that it cannot tell: by `Unjudged`, never by a guess.

Each function answers what is certain. A value of which two readers could think differently has no answer:
neither "true" nor "false" would be safe, because the one opens a transition and the other slips by a `forbid`.
"""

import unicodedata
from collections.abc import Callable, Mapping
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

    @property
    def guarded(self) -> Callable[..., Any]:
        """`run` as the engine calls it: whatever goes wrong is a ValueError that says why and shows no value."""
        run = self.run

        @wraps(run)
        def judged(*given: Any) -> Any:
            try:
                return run(*given)
            except Unjudged as why:
                raise ValueError(f"{MARK}{why.reason}") from None
            except Exception:  # noqa: BLE001 - a parser's own failing is no answer, whatever it is
                raise ValueError(f"{MARK}it cannot be read") from None

        return judged


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
