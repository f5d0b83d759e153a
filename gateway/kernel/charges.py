"""What is spent, after a charge was taken, given back, or measured."""

from __future__ import annotations

from rpds import HashTrieMap

from gateway.model.events import Charge, ReceiptRecorded
from gateway.model.run import Attempt, AttemptState, Run
from gateway.model.trusted import trusted


def plus(spent: Charge, charge: Charge, sign: int) -> Charge:
    """What is spent after this charge was taken, or given back (`sign` -1)."""
    return _charge(
        calls=spent.calls + sign * charge.calls,
        mutations=spent.mutations + sign * charge.mutations,
        tokens=spent.tokens + sign * charge.tokens,
        cost=spent.cost + sign * charge.cost,
        reviews=spent.reviews + sign * charge.reviews,
    )


_charge = trusted(Charge)


def measured(size_bytes: int) -> int:
    """The tokens of a result: a quarter of its bytes, which is an estimate."""
    return -(-size_bytes // 4)


def settled_charge(attempt: Attempt, receipt: ReceiptRecorded) -> Charge:
    """What a receipt adds to what is charged for the attempt; its tokens, and all of it if it had been given back.

    `tokens` may be below 0: what was reserved and not used.
    """
    charge, tokens = attempt.intent.charge, measured(receipt.size_bytes)
    if attempt.state is AttemptState.REFUTED:
        return _charge(
            calls=charge.calls, mutations=charge.mutations, tokens=tokens, cost=charge.cost, reviews=charge.reviews
        )
    return _charge(calls=0, mutations=0, tokens=tokens - charge.tokens, cost=0, reviews=0)


def unmade(run: Run, attempt: Attempt, sign: int) -> HashTrieMap[str, int]:
    """How many equal attempts never happened, once this one is known not to have, or (`sign` -1) to have after all."""
    equal = attempt.intent.equals_key
    return run.unmade.insert(equal, run.unmade.get(equal, 0) + sign)
