"""Gateways that are wrong on purpose: each breaks one rule of the commit path or of recovery, and must be caught.

A mutant replaces something of the real code for as long as a world runs, and names the invariants of which one must
fail then. One that is caught by nothing is a hole in the invariants, or a rule that nothing needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from gateway.kernel import asking, decide, evidence, people, reduce, rounds, spending, verify
from gateway.kernel.moves import NEXT
from gateway.model.run import RunState
from gateway.outbound.ledger import memory
from gateway.runtime import book, carry, engine, recover
from gateway.runtime.book import Book
from gateway.runtime.carry import Carrier
from gateway.runtime.leases import Leases
from gateway.runtime.recover import Recovery
from tests.crash import wrong


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule, broken."""

    changes: Sequence[tuple[Any, str, Any]]
    """What is replaced: of which module or class, which attribute, by what."""
    caught_by: frozenset[str]
    """The invariants of which one at least must fail."""
    nature: Mapping[str, Any]
    """What kind of world shows it soonest, where any would do in the end."""

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """The code is wrong in the block."""
        with ExitStack() as stack:
            for where, name, other in self.changes:
                stack.enter_context(mock.patch.object(where, name, other))
            yield


def _mutant(caught_by: str, *changes: tuple[Any, str, Any], **nature: Any) -> Mutant:
    return Mutant(changes, frozenset(caught_by.split()), nature)


_STOPPED = {**NEXT, RunState.STOPPED: {**NEXT[RunState.STOPPED], "attempt.resent": RunState.STOPPED}}
_HEEDLESS = {name: check for name, check in decide.RESENDING.items() if name != "run"}

MUTANTS: Mapping[str, Mutant] = {
    # --- the commit path
    "no call is known again": _mutant("I2 I4", (decide, "CHECKS", {**decide.CHECKS, "key": wrong.never_known})),
    "a key is used with other arguments": _mutant(
        "I6",
        (decide, "CHECKS", {**decide.CHECKS, "key": wrong.any_arguments}),
        tools=("write", "keyed"),
        faults=("none",),
        weights={"again": 9.0},
    ),
    "sent before the intent is on disk": _mutant("I3", (Book, "_append", wrong.append_intents_later)),
    "sent again after a timeout": _mutant("I4", (Carrier, "_dispatch", wrong.dispatch_twice)),
    "a timeout counts as not sent": _mutant("I7", (carry, "observe", wrong.silence_is_unsent)),
    "garbage counts as a receipt": _mutant("I10", (Carrier, "_dispatch", wrong.garbage_is_a_result)),
    "answered before the receipt is on disk": _mutant("I5", (Book, "_append", wrong.append_receipts_later)),
    "told what is still queued": _mutant(
        "I5",
        (Book, "durable_state_of", wrong.with_what_is_queued),
        tools=("read",),
        faults=("against its schema",),
        weights={"time": 4.0},
    ),
    "an account is looked at and then taken from": _mutant(
        "I11", (book, "postings", wrong.unlimited), tools=("fresh",), gateways=3, scarce=True, weights={"ask": 9.0}
    ),
    "a budget forgets what it has spent": _mutant(
        "I11", (spending, "_own_budget", wrong.no_budget), tools=("fresh",), scarce=True, weights={"ask": 9.0}
    ),
    "an approval is for a tool, not for an action": _mutant(
        "I13", (people, "action_digest", wrong.for_the_tool), tools=("approved",), weights={"review": 6.0}
    ),
    "an approval can be used again": _mutant(
        "I12", (asking, "used", lambda run, *_: run), tools=("approved",), refs=1, weights={"review": 6.0}
    ),
    "an approval never ends": _mutant(
        "I14",
        (people, "approval", None),
        (decide, "CHECKS", {**decide.CHECKS, "approval": wrong.endless_approval}),
        tools=("approved",),
        weights={"review": 4.0, "time": 4.0},
    ),
    "who asks may answer": _mutant(
        "I15",
        (wrong.GROUND, "BOSS", wrong.AGENT_HIMSELF),
        (wrong.APPROVE, "answer", wrong.any_answer),
        tools=("approved",),
        weights={"review": 6.0},
    ),
    "what is unknown is given back": _mutant("I11", (book, "postings", wrong.give_back_unknown)),
    "an effect has two holders": _mutant("I4", (memory, "check_holds", lambda *_: None)),
    "a conflict is overlooked": _mutant("I1", (memory, "check_expected", lambda *_: None)),
    "a receipt that breaks its schema is as good as any": _mutant(
        "I10", (verify, "_valid", lambda *_: True), tools=("write",), faults=("against its schema",)
    ),
    "no answer of a probe is a pass": _mutant("I19", (evidence, "judged", wrong.silence_passes)),
    "the phase moves by the receipt alone": _mutant("I19", (verify, "received", wrong.advance_at_once)),
    "an outcome that nobody was told is forgotten": _mutant("I8 I4", (book, "tracked_as", wrong.forget_undelivered)),
    "not executed, without looking": _mutant(
        "I7", (engine, "made_before", lambda *_: False), tools=("write", "keyed"), weights={"fail": 3.0, "again": 6.0}
    ),
    # --- recovery
    "a lease is claimed by the wall clock": _mutant("I8", (Leases, "free", wrong.free_by_the_wall_clock), skew_s=120.0),
    "what another waits for is settled": _mutant("I8", (Leases, "free", lambda *_: True)),
    "a no is believed at once": _mutant(
        "I7",
        (Recovery, "_could_not_act", lambda *_: True),
        tools=("queried", "asked"),
        faults=("done after the deadline",),
        weights={"time": 4.0},
    ),
    "sent again whatever the upstream honours": _mutant(
        "I4",
        (recover, "honours_key", lambda _: True),
        (rounds, "honours_key", lambda _: True),
        (rounds, "key_lives", lambda *_: True),
    ),
    "sent again without its key": _mutant(
        "I4 I22",
        (carry, "keyed", wrong.keyless_again),
        tools=("keyed",),
        faults=("dropped after it was done",),
        weights={"time": 4.0},
    ),
    "sent again after its key was forgotten": _mutant(
        "I4",
        (rounds, "key_lives", lambda *_: True),
        tools=("keyed",),
        faults=("dropped after it was done",),
        weights={"lie": 0.0, "time": 6.0, "die": 3.0},
    ),
    "sent again in a stopped run": _mutant(
        "I16",
        (decide, "RESENDING", _HEEDLESS),
        (reduce, "NEXT", _STOPPED),
        tools=("doom", "keyed"),
        faults=("dropped after it was done",),
        weights={"time": 4.0},
    ),
    "a late answer is dropped": _mutant("I21", (Carrier, "_insist", wrong.drop)),
    "a round is as old as its call": _mutant(
        "I7",
        (reduce, "_acts", lambda *_: {}),
        tools=("write",),
        faults=("asks for input, and is deaf to it",),
        gateways=1,
        weights={
            "bring": 9.0,
            "time": 3.0,
            "person": 9.0,
            "die": 2.0,
            "lie": 0.0,
            "reload": 0.0,
            "swap": 0.0,
            "jump": 0.0,
        },
    ),
    "what was left is never looked at": _mutant("I21", (Recovery, "sweep", wrong.see_nothing)),
    "a probe's yes needs no evidence": _mutant("I10", (recover, "judge_status", wrong.always_happened)),
}
"""By what is wrong with them."""
