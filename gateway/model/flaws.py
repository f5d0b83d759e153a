"""policy, as its file says it -> what does not fit together in it, whatever else is wrong with it.

pydantic judges each part of a policy for itself; here stands what one part must know of another.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from gateway.model.canonical import NotStrictJson, digest
from gateway.model.evidence_flaws import UNSAMPLED, looking, proofs, unaccepted
from gateway.model.flaw import Flaw as Flaw
from gateway.model.flaw import Place as Place
from gateway.model.flaw import get, keys
from gateway.model.flaw import parts as parts
from gateway.model.flaw import texts as texts
from gateway.model.people_flaws import asking

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
    ("transitions", "*", "approval", "unchanged"),
    ("transitions", "*", "approval", "unchanged", "*"),
    ("success", "evidence", "*"),
    ("cases", "*", "given", "stale", "*"),
)

Kind: TypeAlias = Literal["transition", "verifier", "probe", "status", "query"]
"""Of an expression: what it may name. `VARIABLES` in `kernel/variables.py` has the lists."""

EXPRESSIONS: Mapping[Place, Kind] = {
    ("transitions", "*", "when", "*"): "transition",
    ("transitions", "*", "approval", "when", "*"): "transition",
    ("transitions", "*", "approval", "reuse", "within", "*"): "transition",
    ("forbid", "*", "when", "*"): "transition",
    ("verifiers", "*", "pass", "*"): "verifier",
    ("tools", "*", "failures", "*", "*"): "verifier",
    ("tools", "*", "idempotency", "query", "happened", "*"): "status",
    ("tools", "*", "idempotency", "query", "absent", "*"): "status",
}
"""Where a policy holds a condition, and of which kind."""

FORMULAS: Mapping[Place, Kind] = {
    ("verifiers", "*", "probe", "arguments_from", "*"): "probe",
    ("verifiers", "*", "http", "path_from"): "probe",
    ("verifiers", "*", "http", "query_from", "*"): "probe",
    ("verifiers", "*", "http", "json_from"): "probe",
    ("verifiers", "*", "sql", "parameters_from", "*"): "probe",
    ("verifiers", "*", "file", "path_from"): "probe",
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
    phases = keys(policy.get("phases", {"open": {}}))
    verifiers = keys(policy.get("verifiers", {}))
    yield from _unknown(_named(policy, PHASES_NAMED), "phase", phases)
    yield from _unknown(_named(policy, VERIFIERS_NAMED), "verifier", verifiers)
    named = tuple(name for _, name in texts(policy, ("transitions", "*", "name")))
    yield from _unknown(_named(policy, TRANSITIONS_NAMED), "transition", named)
    for pattern, part in _CASE_KEYS.items():
        defined = keys(policy.get(part, {}))
        for place, _ in parts(policy, pattern):
            if place[-1] not in defined:
                yield UnknownName(place, str(place[-1]), part.removesuffix("s"), defined, in_key=True)
    accounts = (account_rule(name) for name in keys(policy.get("accounts", {})))
    rates = (rate_rule(name) for name in keys(policy.get("tools", {})))
    known = (*(name for _, name in rules), *accounts, *rates, *BUILT_IN_RULES)
    yield from _unknown(_named(policy, (("cases", "*", "expect", "rule"),)), "rule", known)
    yield from _repeated(rules, "rule")
    yield from _repeated(list(texts(policy, ("cases", "*", "name"))), "case")
    for index, transition in parts(policy, ("transitions", "*")):
        own = [place for place, name in texts(transition, ("merges", "*")) if name == get(transition, "name")]
        yield from (MergesItself((*index, *place)) for place in own)
        proven_by = proofs(policy, transition)
        if "verification_failed" in keys(get(transition, "on")) and not proven_by:
            yield UselessEdge((*index, "on", "verification_failed"))
        if get(transition, "sample") not in {None, 1} and (not proven_by or get(transition, "to") is not None):
            yield Flaw((*index, "sample"), UNSAMPLED)
    yield from unaccepted(policy)
    yield from looking(policy)
    yield from asking(policy)
    yield from (Flaw((*place, "digest"), UNTRUE) for place, pin in parts(policy, ("pins", "*")) if _is_untrue(pin))


UNTRUE = "is not the digest of this definition: a review of the file would approve what it does not show"


def _is_untrue(pin: Any) -> bool:
    definition, cited = get(pin, "definition"), get(pin, "digest")
    if not isinstance(definition, Mapping) or not isinstance(cited, str):
        return False  # told already
    try:
        return digest(definition, b"") != cited
    except NotStrictJson:
        return True


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
