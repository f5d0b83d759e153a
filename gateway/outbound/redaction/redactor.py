"""The `Redactor` that looks with all detectors: text by text, each placeholder with a number for the call."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.outbound.redaction.fields import is_secret, plain_name
from gateway.outbound.redaction.patterns import Patterns
from gateway.outbound.redaction.personal import CHECKS, PERSONAL
from gateway.outbound.redaction.secrets import SHAPES, known
from gateway.outbound.redaction.spans import Span, in_characters, is_placeholder, merged, placeholder, replaced

SHORTEST = 6
"""Characters below which no detector of ours finds anything: `a@b.io`."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a deployment says of it; the detectors of secrets are always on."""

    personal: frozenset[str] = frozenset(PERSONAL)
    """Kinds of personal data, of `PERSONAL`."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Its own, in RE2, by the kind that placeholders show."""
    fields: frozenset[str] = frozenset()
    """Its own names of what is secret whatever it is."""


class DetectingRedactor:
    """A `Redactor`. Pure: the same value gives the same value; nothing of it is kept.

    Measured on one core: some 30 ms a MiB of text, 12 us for a short one, so 0.8 s a MiB of JSON that is nothing but
    short texts, and at most 4 s a MiB of what is full of secrets or was made to be slow. All of it is linear.
    """

    def __init__(self, rules: Rules = Rules()) -> None:
        """Raises: BadPattern."""
        self._own = Patterns(rules.patterns)
        self._shortest = 0 if rules.patterns else SHORTEST
        self._fields = frozenset(map(plain_name, rules.fields))
        personal = {kind: pattern for kind, pattern in PERSONAL.items() if kind in rules.personal}
        self._shapes = Patterns({**SHAPES, **personal}, {kind: CHECKS[kind] for kind in personal})

    def redact(self, value: Any) -> Any:
        """As `Redactor.redact`."""
        return self._value(value, _Numbers())

    def redact_text(self, text: str) -> str:
        """As `Redactor.redact_text`."""
        return self._text(text, _Numbers())

    def _value(self, value: Any, numbers: "_Numbers", *, secret: bool = False) -> Any:
        # As deep as a value from a wire is: the strict parse bounds it to 64 levels.
        match value:
            case str():
                return numbers.placeholder("named_secret", value) if secret and value else self._text(value, numbers)
            case Mapping():
                return {
                    self._text(name, numbers) if isinstance(name, str) else name: self._value(
                        one, numbers, secret=secret or (isinstance(name, str) and is_secret(name, self._fields))
                    )
                    for name, one in value.items()
                }
            case list() | tuple():
                return [self._value(one, numbers, secret=secret) for one in value]
            case bool() | None:
                return value
            case int() | float():
                return self._number(value, numbers, secret=secret)
            case _:
                return value

    def _number(self, value: float, numbers: "_Numbers", *, secret: bool) -> Any:
        told = str(value)
        if secret:
            return numbers.placeholder("named_secret", told)
        # A card's number as a number; a short one, or a time in seconds, is nobody's.
        if isinstance(value, int) and len(told) >= 13:  # noqa: PLR2004 - the shortest number of a card
            shown = self._text(told, numbers)
            return value if shown == told else shown
        return value

    def _text(self, text: str, numbers: "_Numbers") -> str:
        if len(text) < self._shortest:
            return text
        spans = merged(list(self._found(text)))
        return replaced(text, spans, numbers.placeholder) if spans else text

    def _found(self, text: str) -> Iterator[Span]:
        """In characters; of two that are the same, what is surer of its kind comes first."""
        body = text.encode(errors="replace")  # a lone surrogate is one character either way
        plain = text.isascii()
        own, shapes = list(self._own.found(body)), list(self._shapes.found(body))
        yield from own if plain else in_characters(own, body)
        yield from known(text if plain else body.decode())
        yield from shapes if plain else in_characters(shapes, body)


class _Numbers:
    """Numbers of what was replaced in one call. It knows the secrets, and is gone with the call."""

    def __init__(self) -> None:
        self._given: dict[str, int] = {}

    def placeholder(self, kind: str, stood: str) -> str:
        if is_placeholder(stood):
            return stood
        return placeholder(kind, self._given.setdefault(stood, len(self._given) + 1), len(stood))
