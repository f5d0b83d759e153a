"""A policy, compiled once for each digest, and for each tool that it rules: what no call changes is found out once."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from gateway.kernel.accounts import Shared, accounts_for, limited_by, limits_of
from gateway.kernel.conditions import Condition, Value, compile_condition, compile_value
from gateway.kernel.globs import names
from gateway.kernel.once import once
from gateway.kernel.registry import Registered, is_pinned, registered
from gateway.model.canonical import Digest
from gateway.model.events import Charge, Effect
from gateway.model.flaws import EXPRESSIONS, FORMULAS, Kind, texts
from gateway.model.policy import Compensation, Forbid, Policy, Spend, Transition, micro
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
    accounts: tuple[Shared, ...]
    """Those that its calls are counted on."""
    undone: bool
    """Policy names a call that undoes it, whatever the transition."""
    _found: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, find: Callable[[], T]) -> T:
        """What `find` gives, asked once for each `what`, for which it must always be the same."""
        return cast("T", once(self._found, what, find, MAX_FOUND))

    def charge(self, transition: Transition | None) -> Charge:
        """What a call takes from the budgets under this transition."""
        return self.once(("charge", transition.name if transition else None), lambda: self._charge(transition))

    def _charge(self, transition: Transition | None) -> Charge:
        default, rule = 0 if self.registered.effect is Effect.READ else 1, self.registered.rule
        spend = Spend() if transition is None else transition.charge
        tokens = rule.result_tokens if spend.tokens is None else spend.tokens
        return kept(
            Charge(
                calls=spend.calls,
                mutations=default if spend.mutations is None else spend.mutations,
                tokens=tokens or 0,
                cost=micro(rule.cost if spend.cost is None else spend.cost),
            )
        )


@dataclass(frozen=True, slots=True)
class Rules:
    """What `decide` judges by. Equal policies have equal digests."""

    policy: Policy
    digest: Digest
    conditions: Mapping[tuple[Kind, str], Condition]
    """By kind and expression."""
    values: Mapping[tuple[Kind, str], Value]
    """By kind and formula."""
    limited: tuple[tuple[str, int], ...]
    """The limits of the run's own budgets that there are, by unit, as `limited_by`."""
    _ruled: dict[str, Ruled] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[Hashable, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, what: Hashable, find: Callable[[], T]) -> T:
        """As `Ruled.once`, of what hangs on no tool."""
        return cast("T", once(self._found, what, find, MAX_FOUND))

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
        transitions, forbids = transitions_for(self.policy, found), forbids_for(self.policy, tool.name, found.effect)
        asked = [expression for rules in (forbids, transitions) for rule in rules for expression in _asked(rule)]
        reads = frozenset(root for one in asked for root in self.condition("transition", one).roots)
        accounts = accounts_for(self.policy, found)
        undone = found.rule.compensation is not None or any(one.compensation is not None for one in transitions)
        return Ruled(found, is_pinned(tool, self.policy), transitions, forbids, reads, accounts, undone)

    def imagined(self, name: str, upstream: str, own_name: str) -> Ruled:
        """The tool of that name as this policy rules it, whatever its upstream says of it."""
        return self.once(("imagined", name, upstream), lambda: self._rule(Tool(name, upstream, own_name, {})))

    def proofs(self, transition: Transition) -> tuple[str, ...]:
        """As of the policy."""
        return self.once(("proofs", transition.name), lambda: self.policy.proofs(transition))

    @property
    def merged(self) -> frozenset[str]:
        """Transitions whose effects another one takes over."""
        return self.once("merged", lambda: frozenset(name for one in self.policy.transitions for name in one.merges))

    def condition(self, kind: Kind, expression: str) -> Condition:
        """The compiled form of a condition that stands in the policy."""
        return self.conditions[kind, expression]

    def value(self, kind: Kind, formula: str) -> Value:
        """The compiled form of a formula that stands in the policy."""
        return self.values[kind, formula]


def _same(one: Tool, other: Tool) -> bool:
    """Whether nothing can be found out of the one that does not hold for the other. Their definition is one object:
    to Python 1, 1.0 and True are equal, and to a schema they are not.
    """
    return one is other or (one.definition is other.definition and one == other)


def _asked(rule: Transition | Forbid) -> tuple[str, ...]:
    approval = rule.approval if isinstance(rule, Transition) else None
    if approval is None:
        return rule.when
    within = approval.reuse.within if approval.reuse is not None else ()
    return (*rule.when, *approval.when, *within)


def compile_rules(policy: Policy, digest: Digest) -> Rules:
    """The policy, ready to judge.

    Raises: BadCondition, of the first expression that does not compile; `policy_files` reports all, with places.
    """
    whole = policy.model_dump(mode="json", by_alias=True)
    conditions = {
        (kind, expression): compile_condition(expression, kind)
        for pattern, kind in EXPRESSIONS.items()
        for _, expression in texts(whole, pattern)
    }
    values = {
        (kind, formula): compile_value(formula, kind)
        for pattern, kind in FORMULAS.items()
        for _, formula in texts(whole, pattern)
    }
    return Rules(policy, digest, conditions, values, limited_by(limits_of(policy.budgets)))


def transitions_for(policy: Policy, tool: Registered) -> tuple[Transition, ...]:
    """The transitions that name this tool, in the order of the file."""
    return tuple(
        transition
        for transition in policy.transitions
        if any(names(pattern, tool.tool.name) for pattern in transition.tools)
        and (not transition.effect or tool.effect in transition.effect)
    )


def forbids_for(policy: Policy, name: str, effect: Effect | None) -> tuple[Forbid, ...]:
    """The forbid rules that name this tool, whether or not there is such a tool; without an effect any effect fits."""
    return tuple(
        forbid
        for forbid in policy.forbid
        if any(names(pattern, name) for pattern in forbid.tools)
        and (not forbid.effect or effect is None or effect in forbid.effect)
    )


def compensation_of(policy: Policy, tool: str, transition: str | None) -> Compensation | None:
    """The call by which a call of this tool, made under this transition, is undone; None where policy names none."""
    told = next((one.compensation for one in policy.transitions if one.name == transition), None)
    if told is not None:
        return told
    return next((rule.compensation for pattern, rule in policy.tools.items() if names(pattern, tool)), None)


def authority_of(policy: Policy, principal: Principal) -> frozenset[str]:
    """All that the grants give this principal."""
    return frozenset(
        name
        for grant in policy.grants
        if names(grant.principal, principal.id)
        and names(grant.tenant, principal.tenant)
        and principal.roles.issuperset(grant.roles)
        and principal.scopes.issuperset(grant.scopes)
        for name in grant.authority
    )


def held_by(policy: Policy, principal: Principal, ceiling: frozenset[str] | None) -> frozenset[str]:
    """What the principal may do in a run with that ceiling: never more than either gives."""
    held = authority_of(policy, principal)
    return held if ceiling is None else held & ceiling
