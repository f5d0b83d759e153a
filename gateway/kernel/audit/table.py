"""The invariants of a ledger, by number. What a row has no function for, its other column says who sees to it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.kernel.audit import people, steps
from gateway.kernel.audit.breach import Breach, Step


@dataclass(frozen=True, slots=True)
class Invariant:
    """A promise about every ledger."""

    promise: str
    of_steps: Sequence[Callable[[Step], str | None]] = ()
    """Asked of every record; each says in a sentence what is wrong, or None."""
    elsewhere: str = ""
    """What else sees to it."""


INVARIANTS: Mapping[str, Invariant] = {
    "I1": Invariant(
        "each run is a gapless chain, and the log is what it was at every checkpoint and at the head outside",
        elsewhere="the chain, `reduce`, the checkpoints, the head",
    ),
    "I2": Invariant("a key has at most one intent", (steps.key_used_twice,), "`reduce`"),
    "I3": Invariant("nothing is said of an attempt that was not intended before", elsewhere="`reduce`"),
    "I4": Invariant(
        "nothing is sent while an equal effect is open or unknown in any run, and nothing twice but under a key",
        (steps.sent_again_without_key,),
        "`Together`",
    ),
    "I5": Invariant("what is answered was recorded first", (steps.replay_of_nothing,), "`reduce`"),
    "I6": Invariant(
        "no call is answered from another's record",
        (steps.replay_of_another_call, steps.reference_to_another_result),
    ),
    "I7": Invariant("that nothing happened is said only when nothing can happen", (steps.absence_too_early,)),
    "I8": Invariant("what is not settled is listed, so that somebody settles it", elsewhere="the table of attempts"),
    "I9": Invariant("an attempt that ended stays as it ended", elsewhere="`reduce`"),
    "I10": Invariant("a receipt holds evidence", (steps.receipt_without_evidence,), "the stored payloads"),
    "I11": Invariant(
        "no budget and no account is overspent, and nothing is given back that was not taken",
        (steps.budget_overspent, steps.spent_below_nothing),
        "`Together`, the table of accounts",
    ),
    "I12": Invariant("an approval is decided once and used once", elsewhere="`reduce`"),
    "I13": Invariant(
        "an approval is used for the very action that it was given for", (people.approval_of_another_action,)
    ),
    "I14": Invariant("no approval is given or used after its time", (people.approval_expired,)),
    "I15": Invariant(
        "an approval is given by who may give it, and as it may be given",
        (people.approval_by_the_wrong, people.approval_beyond_its_terms, people.taken_back_by_another),
    ),
    "I16": Invariant(
        "a run that is over stays over, and so do those that were opened from it", elsewhere="`reduce`, `Together`"
    ),
    "I17": Invariant(
        "what was sent was legal in the state and by the policy of its run",
        (steps.verdict_in_another_state, steps.intent_against_checks, steps.intent_against_policy),
        "judging again",
    ),
    "I18": Invariant("the tables beside the log are what the log says", elsewhere="`reduce`, the tables"),
    "I19": Invariant(
        "success is proven by fresh evidence",
        (steps.success_unproven, steps.phase_unproven, steps.evidence_from_the_future),
    ),
}


def breaches(step: Step) -> Iterator[Breach]:
    """What one record, a legal move, breaks."""
    for number, invariant in INVARIANTS.items():
        for rule in invariant.of_steps:
            says = rule(step)
            if says is not None:
                yield Breach(number, step.record.id, says)
