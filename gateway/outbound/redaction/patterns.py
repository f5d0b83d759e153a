"""Patterns in RE2: linear in the text, whatever the pattern, so one from a file can do no harm.

They run on bytes: the binding would encode a text again for each look.
"""

from collections.abc import Callable, Iterator, Mapping

import re2

from gateway.outbound.redaction.spans import Span, is_placeholder

MAX_PATTERN = 1000
"""Characters of a deployment's own pattern; RE2 bounds what it compiles to by itself."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False

Check = Callable[[str], str | None]
"""What of a candidate, which is ASCII, is meant; None for nothing of it."""


class BadPattern(ValueError):
    """It is no pattern, or one that finds a place and not a text."""


def pattern_trouble(pattern: str) -> str | None:
    """Why the pattern cannot be used, in one line; None if it can."""
    if len(pattern) > MAX_PATTERN:
        return f"a pattern has at most {MAX_PATTERN} characters"
    try:
        compiled = re2.compile(pattern.encode(), _OPTIONS)
    except re2.error as error:
        return f"not a pattern of RE2: {_told(error)}"
    if compiled.search(b"") is not None:
        return "the pattern finds nothing as well (it matches the empty text)"
    return None


def _told(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


class Patterns:
    """Patterns by the kind of what they find, looked for in one pass; of several at one place the first counts.

    Only so many candidates of a text are checked; further ones count as what they look like, for a text that is made to
    be slow is to cost a bounded time and to give nothing away.

    Where a pattern has a group, what stands in the group is meant, and what is around it only says where it is.
    """

    def __init__(self, patterns: Mapping[str, str], checks: Mapping[str, tuple[Check, int]] | None = None) -> None:
        """Raises: BadPattern."""
        for kind, pattern in patterns.items():
            trouble = pattern_trouble(pattern)
            if trouble is not None:
                raise BadPattern(f"`{kind}`: {trouble}")
        self._checks = checks or {}
        joined = "|".join(f"({pattern})" for pattern in patterns.values())
        try:
            self._compiled = re2.compile(joined.encode(), _OPTIONS) if patterns else None
        except re2.error as error:
            raise BadPattern(f"the patterns cannot be used together: {_told(error)}") from None
        self._groups: list[tuple[str, int, int]] = []
        """Kind, group of its pattern, and the group after the last one within it."""
        first = 1
        for kind, pattern in patterns.items():
            after = first + 1 + re2.compile(pattern.encode(), _OPTIONS).groups
            self._groups.append((kind, first, after))
            first = after

    def found(self, body: bytes) -> Iterator[Span]:
        """What stands in the UTF-8 of a text, in order and apart, in bytes."""
        at = 0
        left = {kind: budget for kind, (_, budget) in self._checks.items()}
        while self._compiled is not None:
            match = self._compiled.search(body, at)
            if match is None:
                return
            kind, first, after = next(one for one in self._groups if match.start(one[1]) >= 0)
            within = (group for group in range(first + 1, after) if match.start(group) >= 0)
            start, end = match.span(next(within, first))
            span = self._checked(kind, body, start, end, left)
            if span is not None and span.kind and span.end > span.start:
                yield span
            # What was refused may hide another candidate: look again from its second byte.
            at = match.start() + 1 if span is None else max(span.end, match.start() + 1)

    def _checked(self, kind: str, body: bytes, start: int, end: int, left: dict[str, int]) -> Span | None:
        if body.startswith(b"[redacted ", start) and is_placeholder(body[start:end].decode(errors="replace")):
            return Span(start, end, "")
        if not left.get(kind):
            return Span(start, end, kind)
        left[kind] -= 1
        candidate = body[start:end].decode("latin-1")
        meant = self._checks[kind][0](candidate)
        if not meant:
            return None
        start += candidate.index(meant)
        return Span(start, start + len(meant), kind)
