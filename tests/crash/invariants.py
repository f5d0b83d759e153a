"""history -> what is wrong with it. Pure; each rule has the number that it has among the invariants, I1 to I22.

A rule reads the records themselves, what reached the servers and what clients were told, and not the kernel's state,
so that it can tell when the kernel is wrong.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tests.crash import rules_of_attempts, rules_of_runs, rules_of_the_world
from tests.crash.history import History

Rule = Callable[[History], Iterator[str]]

INVARIANTS: Mapping[str, Rule] = {
    "I1": rules_of_runs.one_chain,
    "I2": rules_of_attempts.one_intent_a_key,
    "I3": rules_of_the_world.no_call_without_intent,
    "I4": rules_of_the_world.one_effect_a_key,
    "I5": rules_of_the_world.no_success_without_receipt,
    "I6": rules_of_the_world.no_result_of_another_call,
    "I7": rules_of_the_world.no_denied_effect,
    "I8": rules_of_attempts.all_that_is_open_is_listed,
    "I9": rules_of_attempts.only_forward,
    "I10": rules_of_the_world.receipts_are_evidence,
    "I11": rules_of_runs.exact_budgets,
    "I12": rules_of_runs.approvals_are_used_once,
    "I13": rules_of_runs.approvals_are_for_this_action,
    "I14": rules_of_runs.approvals_are_in_time,
    "I15": rules_of_runs.approvals_are_anothers,
    "I16": rules_of_runs.stopped_stays_stopped,
    "I17": rules_of_runs.legal_when_intended,
    "I18": rules_of_runs.one_state_for_all,
    "I19": rules_of_runs.success_is_proven,
    "I20": rules_of_the_world.no_canary,
    "I21": rules_of_attempts.everything_ends,
    "I22": rules_of_the_world.sent_as_judged,
}
"""By number, what `facts` call it; each rule yields a sentence for every violation."""


@dataclass(frozen=True, slots=True)
class Violation:
    """One invariant that does not hold, and where."""

    invariant: str
    says: str


def violations(history: History) -> list[Violation]:
    """All that is wrong, in the order of the numbers."""
    return [Violation(number, says) for number, rule in INVARIANTS.items() for says in rule(history)]
