"""policy, as its file says it -> what does not fit together in it, whatever else is wrong with it.

pydantic judges each part of a policy for itself; here stands what one part must know of another.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

Place: TypeAlias = tuple[str | int, ...]
"""Steps from the root of a file's value to one of its parts."""

BUILT_IN_RULES = ("default-deny", "pin", "budgets.calls", "budgets.mutations", "budgets.elapsed_s", "stops.deadline_s")
"""What a verdict may cite as its rule, beside the transitions and forbids of the policy."""


class Flaw(ValueError):
    """Parts of a policy that are right each for itself do not fit together."""

    def __init__(self, place: Place, message: str, *, in_key: bool = False) -> None:
        super().__init__(message)
        self.place = place
        """Where in the policy, as its file spells the keys."""
        self.message = message
        self.in_key = in_key
        """It is the key at that place, not its value."""


class UnknownName(Flaw):
    """A policy names something that it does not define."""

    def __init__(self, place: Place, name: str, what: str, known: tuple[str, ...], *, in_key: bool = False) -> None:
        super().__init__(place, f"no {what} is named `{name}`", in_key=in_key)
        self.name = name
        self.known = known


class RepeatedName(Flaw):
    """Two rules, or two cases, of one name: nobody could tell which of them a verdict cites."""

    def __init__(self, place: Place, name: str, what: str) -> None:
        super().__init__(place, f"another {what} is named `{name}`")
        self.name = name


class UselessEdge(Flaw):
    """A failure edge that nothing can take."""

    def __init__(self, place: Place) -> None:
        super().__init__(
            place, "nothing can take this edge, for the transition names no verifier (`verify`)", in_key=True
        )


PHASES_NAMED: tuple[Place, ...] = (
    ("transitions", "*", "from", "*"),
    ("transitions", "*", "to"),
    ("transitions", "*", "on", "*"),
    ("success", "phase"),
    ("cases", "*", "given", "phase"),
)
"""Where a policy names a phase; `*` stands for every item."""

VERIFIERS_NAMED: tuple[Place, ...] = (
    ("transitions", "*", "verify"),
    ("success", "evidence", "*"),
    ("cases", "*", "given", "stale", "*"),
)

EXPRESSIONS: Mapping[Place, Literal["transition", "verifier"]] = {
    ("transitions", "*", "when", "*"): "transition",
    ("forbid", "*", "when", "*"): "transition",
    ("verifiers", "*", "pass", "*"): "verifier",
}
"""Where a policy holds an expression, and of which kind."""


def flaws(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """All that does not fit together in a policy as its file says it, whatever else is wrong with it."""
    rules = [*texts(policy, ("transitions", "*", "name")), *texts(policy, ("forbid", "*", "name"))]
    phases = _keys(policy.get("phases", {"open": {}}))
    verifiers = _keys(policy.get("verifiers", {}))
    yield from _unknown(_named(policy, PHASES_NAMED), "phase", phases)
    yield from _unknown(_named(policy, VERIFIERS_NAMED), "verifier", verifiers)
    for place, _ in parts(policy, ("cases", "*", "given", "evidence", "*")):
        if place[-1] not in verifiers:
            yield UnknownName(place, str(place[-1]), "verifier", verifiers, in_key=True)
    known = (*(name for _, name in rules), *BUILT_IN_RULES)
    yield from _unknown(_named(policy, (("cases", "*", "expect", "rule"),)), "rule", known)
    yield from _repeated(rules, "rule")
    yield from _repeated(list(texts(policy, ("cases", "*", "name"))), "case")
    for index, transition in parts(policy, ("transitions", "*")):
        if "verification_failed" in _keys(_get(transition, "on")) and _get(transition, "verify") is None:
            yield UselessEdge((*index, "on", "verification_failed"))


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


def _named(policy: Mapping[str, Any], patterns: tuple[Place, ...]) -> list[tuple[Place, str]]:
    return [found for pattern in patterns for found in texts(policy, pattern)]


def _unknown(named: list[tuple[Place, str]], what: str, known: tuple[str, ...]) -> Iterator[Flaw]:
    return (UnknownName(place, name, what, known) for place, name in named if name not in known)


def _repeated(named: list[tuple[Place, str]], what: str) -> Iterator[Flaw]:
    seen: set[str] = set()
    for place, name in named:
        if name in seen:
            yield RepeatedName(place, name, what)
        seen.add(name)


def _get(part: Any, key: str) -> Any:
    return part.get(key) if isinstance(part, Mapping) else None


def _keys(part: Any) -> tuple[str, ...]:
    return tuple(part) if isinstance(part, Mapping) else ()
