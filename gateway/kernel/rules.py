"""A policy, compiled once for each digest: its conditions as programs, its names as matchers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.kernel.conditions import Condition, compile_condition
from gateway.kernel.globs import names
from gateway.kernel.registry import Registered
from gateway.model.canonical import Digest
from gateway.model.policy import Forbid, Policy, Transition
from gateway.model.principal import Principal


@dataclass(frozen=True, slots=True)
class Rules:
    """What `decide` judges by. Equal policies have equal digests."""

    policy: Policy
    digest: Digest
    conditions: Mapping[tuple[str, str], Condition]
    """By kind and expression."""

    def condition(self, kind: Literal["transition", "verifier"], expression: str) -> Condition:
        """The compiled form of an expression that stands in the policy."""
        return self.conditions[kind, expression]


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
