"""A policy, compiled once for each digest, and for each tool that it rules: what no call changes is found out once."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

from gateway.kernel.conditions import Condition, compile_condition
from gateway.kernel.globs import names
from gateway.kernel.registry import Registered, is_pinned, registered
from gateway.model.canonical import Digest
from gateway.model.events import Charge, Effect
from gateway.model.policy import Forbid, Policy, Transition
from gateway.model.principal import Principal
from gateway.model.spelling import kept
from gateway.model.tool import Tool

T = TypeVar("T")

MAX_TOOLS = 4096
"""Tools of a policy that are kept; beyond, they are found out anew."""
MAX_FOUND = 256
"""What is kept of each: a few findings, and one more for every principal in every phase."""


@dataclass(frozen=True, slots=True)
class Ruled:
    """A tool as one policy rules it."""

    registered: Registered
    pinned: bool
    """It is defined as policy pins it, or policy pins nothing."""
    transitions: tuple[Transition, ...]
    """Those that name it, in the order of the file."""
    forbids: tuple[Forbid, ...]
    reads: frozenset[str]
    """What its forbid rules and transitions may ask about, as `Condition.roots`."""
    _found: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, find: Callable[[], T]) -> T:
        """What `find` gives, asked once for each `what`, for which it must always be the same."""
        known = self._found.get(what)
        if known is None:
            if len(self._found) >= MAX_FOUND:
                self._found.clear()
            known = self._found[what] = find()
        return cast("T", known)

    def charge(self, transition: Transition | None) -> Charge:
        """What a call takes from the budgets under this transition."""
        return self.once(("charge", transition.name if transition else None), lambda: self._charge(transition))

    def _charge(self, transition: Transition | None) -> Charge:
        default = 0 if self.registered.effect is Effect.READ else 1
        if transition is None:
            return kept(Charge(calls=1, mutations=default))
        spend = transition.charge
        return kept(Charge(calls=spend.calls, mutations=default if spend.mutations is None else spend.mutations))


@dataclass(frozen=True, slots=True)
class Rules:
    """What `decide` judges by. Equal policies have equal digests."""

    policy: Policy
    digest: Digest
    conditions: Mapping[tuple[str, str], Condition]
    """By kind and expression."""
    _ruled: dict[str, Ruled] = field(default_factory=dict, repr=False, compare=False)

    def ruled(self, tool: Tool) -> Ruled:
        """The tool as this policy rules it: found out once for as long as its upstream does not list it anew."""
        known = self._ruled.get(tool.name)
        if known is None or not _same(known.registered.tool, tool):
            if len(self._ruled) >= MAX_TOOLS:
                self._ruled.clear()
            known = self._ruled[tool.name] = self._rule(tool)
        return known

    def _rule(self, tool: Tool) -> Ruled:
        found = registered(tool, self.policy)
        transitions, forbids = transitions_for(self.policy, found), forbids_for(self.policy, tool.name)
        asking: tuple[Transition | Forbid, ...] = (*forbids, *transitions)
        asked = [expression for rule in asking for expression in rule.when]
        reads = frozenset(root for one in asked for root in self.condition("transition", one).roots)
        return Ruled(found, is_pinned(tool, self.policy), transitions, forbids, reads)

    def condition(self, kind: Literal["transition", "verifier"], expression: str) -> Condition:
        """The compiled form of an expression that stands in the policy."""
        return self.conditions[kind, expression]


def _same(one: Tool, other: Tool) -> bool:
    """Whether nothing can be found out of the one that does not hold for the other. Their definition is one object:
    to Python 1, 1.0 and True are equal, and to a schema they are not.
    """
    return one is other or (one.definition is other.definition and one == other)


def compile_rules(policy: Policy, digest: Digest) -> Rules:
    """The policy, ready to judge.

    Raises: BadCondition, of the first expression that does not compile; `policy_files` reports all, with places.
    """
    rules: tuple[Transition | Forbid, ...] = (*policy.transitions, *policy.forbid)
    conditions = {
        ("transition", expression): compile_condition(expression, "transition")
        for rule in rules
        for expression in rule.when
    }
    checks = {
        ("verifier", expression): compile_condition(expression, "verifier")
        for verifier in policy.verifiers.values()
        for expression in verifier.passes
    }
    return Rules(policy, digest, conditions | checks)


def transitions_for(policy: Policy, tool: Registered) -> tuple[Transition, ...]:
    """The transitions that name this tool, in the order of the file."""
    return tuple(
        transition
        for transition in policy.transitions
        if any(names(pattern, tool.tool.name) for pattern in transition.tools)
        and (not transition.effect or tool.effect in transition.effect)
    )


def forbids_for(policy: Policy, name: str) -> tuple[Forbid, ...]:
    """The forbid rules that name this tool, whether or not there is such a tool."""
    return tuple(forbid for forbid in policy.forbid if any(names(pattern, name) for pattern in forbid.tools))


def authority_of(policy: Policy, principal: Principal) -> frozenset[str]:
    """All that the grants give this principal."""
    return frozenset(
        name
        for grant in policy.grants
        if names(grant.principal, principal.id)
        and names(grant.tenant, principal.tenant)
        and principal.roles.issuperset(grant.roles)
        for name in grant.authority
    )
