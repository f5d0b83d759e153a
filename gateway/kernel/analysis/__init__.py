"""policy -> what its author should know before it judges anything.

A policy that loads is well-formed; here is found what it can never do, what is said twice, and what is forgotten.
Nothing is reported that is only unusual: each finding is about something that cannot be, or about a default that its
author may not know.
"""

from collections.abc import Callable, Iterator

from gateway.kernel.analysis import conditions, spending, tools, undo, workflow
from gateway.kernel.analysis.facts import Facts
from gateway.kernel.analysis.found import CODES as CODES
from gateway.kernel.analysis.found import Found as Found
from gateway.kernel.analysis.found import Severity as Severity
from gateway.model.policy import Policy

LOOKS: tuple[Callable[[Facts], Iterator[Found]], ...] = (
    workflow.phases,
    workflow.transitions,
    workflow.forbids,
    workflow.success,
    workflow.contradicting,
    workflow.evidence,
    conditions.conditions,
    conditions.verifiers,
    conditions.unread,
    tools.registry,
    undo.compensations,
    undo.merges,
    tools.pins,
    tools.grants,
    tools.cases,
    spending.budgets,
    spending.soft,
    spending.accounts,
    spending.rates,
    spending.stops,
    spending.values,
)
"""Each looks at one side of the policy."""


def findings(policy: Policy) -> tuple[Found, ...]:
    """All that is found, each once. Total: it never raises, for any policy that loads."""
    facts = Facts(policy)
    return tuple(dict.fromkeys(found for look in LOOKS for found in look(facts)))
