"""policy, as its file says it -> what does not fit together in it, whatever else is wrong with it.

pydantic judges each part of a policy for itself; here stands what one part must know of another.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from gateway.model.canonical import NotStrictJson, digest

Place: TypeAlias = tuple[str | int, ...]
"""Steps from the root of a file's value to one of its parts."""

BUILT_IN_RULES = (
    "default-deny",
    "pin",
    "name",
    "run.principal",
    "run.parent",
    "budgets.calls",
    "budgets.mutations",
    "budgets.tokens",
    "budgets.cost",
    "budgets.reviews",
    "budgets.reported_tokens",
    "budgets.elapsed_s",
    "stops.deadline_s",
)
"""What a verdict may cite as its rule, beside the transitions, forbids, accounts and rates of the policy."""


def account_rule(name: str) -> str:
    """How a verdict cites an account."""
    return f"accounts.{name}"


def rate_rule(pattern: str) -> str:
    """How a verdict cites the rate of the tools that a registry entry names."""
    return f"tools.{pattern}.rate"


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


class MergesItself(Flaw):
    """A transition that takes over its own effects."""

    def __init__(self, place: Place) -> None:
        super().__init__(place, "a transition cannot take over its own effects: name those that came before it")


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

TRANSITIONS_NAMED: tuple[Place, ...] = (("transitions", "*", "merges", "*"),)

VERIFIERS_NAMED: tuple[Place, ...] = (
    ("transitions", "*", "verify"),
    ("transitions", "*", "verify", "*"),
    ("phases", "*", "verify"),
    ("phases", "*", "verify", "*"),
    ("transitions", "*", "preconditions", "*"),
    ("success", "evidence", "*"),
    ("cases", "*", "given", "stale", "*"),
)

Kind: TypeAlias = Literal["transition", "verifier", "probe", "status", "query"]
"""Of an expression: what it may name. `VARIABLES` in `kernel/variables.py` has the lists."""

EXPRESSIONS: Mapping[Place, Kind] = {
    ("transitions", "*", "when", "*"): "transition",
    ("transitions", "*", "approval", "when", "*"): "transition",
    ("forbid", "*", "when", "*"): "transition",
    ("verifiers", "*", "pass", "*"): "verifier",
    ("tools", "*", "failures", "*", "*"): "verifier",
    ("tools", "*", "idempotency", "query", "happened", "*"): "status",
    ("tools", "*", "idempotency", "query", "absent", "*"): "status",
}
"""Where a policy holds a condition, and of which kind."""

FORMULAS: Mapping[Place, Kind] = {
    ("verifiers", "*", "probe", "arguments_from", "*"): "probe",
    ("verifiers", "*", "scope_from", "*"): "verifier",
    ("verifiers", "*", "about", "*"): "verifier",
    ("tools", "*", "objects", "*"): "probe",
    ("transitions", "*", "charge", "cost_from"): "probe",
    ("transitions", "*", "compensation", "arguments_from", "*"): "verifier",
    ("tools", "*", "compensation", "arguments_from", "*"): "verifier",
    ("tools", "*", "idempotency", "query", "probe", "arguments_from", "*"): "query",
}
"""Where a policy holds an expression that gives any value, and of which kind."""

_CASE_KEYS: Mapping[Place, str] = {
    ("cases", "*", "given", "evidence", "*"): "verifiers",
    ("cases", "*", "given", "scope", "*"): "verifiers",
    ("cases", "*", "given", "probes", "*"): "verifiers",
    ("cases", "*", "given", "accounts", "*"): "accounts",
}
"""Where a case has keys that are names, and which part of the policy defines them."""


def flaws(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """All that does not fit together in a policy as its file says it, whatever else is wrong with it."""
    rules = [*texts(policy, ("transitions", "*", "name")), *texts(policy, ("forbid", "*", "name"))]
    phases = _keys(policy.get("phases", {"open": {}}))
    verifiers = _keys(policy.get("verifiers", {}))
    yield from _unknown(_named(policy, PHASES_NAMED), "phase", phases)
    yield from _unknown(_named(policy, VERIFIERS_NAMED), "verifier", verifiers)
    named = tuple(name for _, name in texts(policy, ("transitions", "*", "name")))
    yield from _unknown(_named(policy, TRANSITIONS_NAMED), "transition", named)
    for pattern, part in _CASE_KEYS.items():
        defined = _keys(policy.get(part, {}))
        for place, _ in parts(policy, pattern):
            if place[-1] not in defined:
                yield UnknownName(place, str(place[-1]), part.removesuffix("s"), defined, in_key=True)
    accounts = (account_rule(name) for name in _keys(policy.get("accounts", {})))
    rates = (rate_rule(name) for name in _keys(policy.get("tools", {})))
    known = (*(name for _, name in rules), *accounts, *rates, *BUILT_IN_RULES)
    yield from _unknown(_named(policy, (("cases", "*", "expect", "rule"),)), "rule", known)
    yield from _repeated(rules, "rule")
    yield from _repeated(list(texts(policy, ("cases", "*", "name"))), "case")
    for index, transition in parts(policy, ("transitions", "*")):
        own = [place for place, name in texts(transition, ("merges", "*")) if name == _get(transition, "name")]
        yield from (MergesItself((*index, *place)) for place in own)
        proofs = _proofs(policy, transition)
        if "verification_failed" in _keys(_get(transition, "on")) and not proofs:
            yield UselessEdge((*index, "on", "verification_failed"))
        if _get(transition, "sample") not in {None, 1} and (not proofs or _get(transition, "to") is not None):
            yield Flaw((*index, "sample"), UNSAMPLED)
    yield from _unaccepted(policy)
    yield from (Flaw((*place, "digest"), UNTRUE) for place, pin in parts(policy, ("pins", "*")) if _is_untrue(pin))


UNSAMPLED = "only a transition that names a verifier and leads to no phase can be verified now and then"


def _proofs(policy: Mapping[str, Any], transition: Any) -> list[str]:
    """As `Policy.proofs`, of a policy as its file says it."""
    target = _get(policy.get("phases", {}), str(_get(transition, "to")))
    return [*_names(_get(transition, "verify")), *_names(_get(target, "verify"))]


def _names(told: Any) -> list[str]:
    listed = [told] if isinstance(told, str) else told
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list | tuple) else []


GRADES = ("independent", "opinion", "self_reported")
"""Of evidence, the best first."""


def _unaccepted(policy: Mapping[str, Any]) -> Iterator[Flaw]:
    """Gates that are to be passed by evidence that they do not accept, or by none at all."""
    success = policy.get("success")
    for place, name in texts(success, ("evidence", "*")):
        yield from _too_weak(policy, ("success", *place), name, _get(success, "accept") or "independent", "success")
    for index, transition in parts(policy, ("transitions", "*")):
        target = _get(transition, "to")
        accepted = _get(_get(policy.get("phases", {}), str(target)), "accept") or "self_reported"
        if accepted == "self_reported":
            continue
        proofs = _proofs(policy, transition)
        if not proofs:
            yield Flaw(
                (*index, "to"), f"the phase `{target}` accepts only evidence, and nothing is verified on this way"
            )
        for name in proofs:
            yield from _too_weak(policy, (*index, "verify"), name, accepted, f"the phase `{target}`")


def _too_weak(policy: Mapping[str, Any], place: Place, name: str, accepted: Any, gate: str) -> Iterator[Flaw]:
    grade = grade_of(_get(policy.get("verifiers", {}), name))
    if accepted in GRADES and GRADES.index(grade) > GRADES.index(accepted):
        yield Flaw(place, f"{gate} accepts no evidence of this kind, and `{name}` is {GRADE_WORDS[grade]}")


GRADE_WORDS = {"opinion": "an opinion (`accept: opinion`)", "self_reported": "self-reported (`accept: self_reported`)"}


def grade_of(verifier: Any) -> str:
    """Of the evidence of a verifier, as its policy's file says it."""
    if _get(verifier, "result") is not None:
        return "self_reported"
    return "opinion" if _get(verifier, "opinion") is True else "independent"


UNTRUE = "is not the digest of this definition: a review of the file would approve what it does not show"


def _is_untrue(pin: Any) -> bool:
    definition, cited = _get(pin, "definition"), _get(pin, "digest")
    if not isinstance(definition, Mapping) or not isinstance(cited, str):
        return False  # told already
    try:
        return digest(definition, b"") != cited
    except NotStrictJson:
        return True


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
