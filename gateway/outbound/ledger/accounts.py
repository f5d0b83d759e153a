"""What the postings of a step make of the accounts. The same for every ledger.

A level is the exact sum of what was posted. It is never held at 0: a level that was would swallow a charge, and
what is given back without one shows as what it is, a level below 0.
"""

from collections.abc import Callable, Sequence
from math import isnan
from typing import NamedTuple, TypeAlias

from gateway.model.account import Posting
from gateway.ports import Append, Exhausted

Account: TypeAlias = tuple[str, str]
"""Account and unit."""

_FORGOTTEN = 2
"""For each account that a step makes it forgets at most so many that are past: more than one, so that their number
falls, and few, so that no step pays for a crowd."""

_SKEW_S = 48 * 3600.0
"""An account is past only so long after its `until`: whose clock is slow may still ask, and one that was set forward by
a day must not let others begin anew."""

_MAX = 2**63 - 1
"""What a column of SQLite holds, and every other ledger too, that they agree."""


class Standing(NamedTuple):
    """An account as it stands."""

    level: int
    until: float | None


class Change(NamedTuple):
    """What a step makes of one account."""

    account: Account
    before: Standing | None
    """None: the step makes the account."""
    after: Standing


def check_postings(step: Append) -> None:
    """The postings can be stored, and a record says why they were made.

    Without one nobody could tell, after a failed commit, whether they were.

    Raises: ValueError: the caller is wrong.
    """
    if not step.postings:
        return
    if not step.records:
        raise ValueError(f"a step of run `{step.run}` has postings, and no record of why")
    for posting in step.postings:
        _check_fits(posting, posting.amount)
        if posting.until is not None and isnan(posting.until):  # SQLite would store it as None
            raise ValueError(f"account `{posting.account}` is asked for until a time that is none")
        for word in (posting.account, posting.unit):
            word.encode()  # lone surrogates cannot be stored
            if "\0" in word:
                raise ValueError(f"account `{word!r}` cannot be stored by every ledger: it holds a NUL")


def posted(postings: Sequence[Posting], standing: Callable[[Account], Standing | None]) -> Sequence[Change]:
    """What the postings make of each account that they touch, none of them being refused.

    Raises: Exhausted; ValueError for a level that no ledger can hold.
    """
    changes: dict[Account, Change] = {}
    for posting in postings:
        if posting.amount == 0:
            continue
        account = posting.account, posting.unit
        change = changes.get(account)
        before = standing(account) if change is None else change.before
        now = before if change is None else change.after
        level = (0 if now is None else now.level) + posting.amount
        if posting.limit is not None and posting.amount > 0 and level > posting.limit:
            raise Exhausted(posting.account, posting.unit, level - posting.amount, posting.limit)
        _check_fits(posting, level)
        until = posting.until if now is None else _furthest(now.until, posting.until)
        changes[account] = Change(account, before, Standing(level, until))
    return list(changes.values())


def past(step: Append) -> float:
    """An account whose `until` is at or before it may be forgotten, as of the time that the step's records tell."""
    return step.records[-1].at.timestamp() - _SKEW_S


def forgettable(changes: Sequence[Change]) -> int:
    """How many accounts may be forgotten at most, the oldest first, once these changes are made: not before, for one
    of them may be of an account that is past.
    """
    return _FORGOTTEN * sum(change.before is None for change in changes)


def _furthest(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else max(one, other)


def _check_fits(posting: Posting, number: int) -> None:
    if not -_MAX <= number <= _MAX:
        raise ValueError(f"account `{posting.account}` would be at or change by {number}: no ledger can hold that")
