"""Accounts for people: how much of each is taken, of what it may hold."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gateway.kernel.accounts import limits_of, shown
from gateway.model.flaws import account_rule, rate_rule
from gateway.model.policy import Limits, Policy
from gateway.model.review import Reviewer
from gateway.ports import Stands
from gateway.runtime.book import Book

MAX_LEVELS = 500
"""Levels of one page that are looked at."""


@dataclass(frozen=True, slots=True)
class Level:
    """What stands on one account in one unit."""

    account: str
    """The rule that it is of."""
    of: tuple[tuple[str, str], ...]
    """Whose it is: each part by its name."""
    window: str
    """When it began, as the ledger has it; `ever`."""
    unit: str
    level: float
    limit: float | None
    """None where nothing limits it, or no policy in force knows it."""
    known: bool
    """Whether a policy in force has the rule."""

    @property
    def part(self) -> float | None:
        """Of its limit, 1 where that is reached."""
        if self.limit is None:
            return None
        return min(1.0, max(0.0, self.level / self.limit)) if self.limit > 0 else 1.0


@dataclass(frozen=True, slots=True)
class Levels:
    """A page of them."""

    rows: tuple[Level, ...]
    next: tuple[str, str] | None
    """Account and unit from beyond which to look further."""


@dataclass(frozen=True, slots=True)
class _Rule:
    per: tuple[str, ...]
    limits: Mapping[str, int | None]


async def levels(book: Book, by: Reviewer, *, after: tuple[str, str] = ("", "")) -> Levels:
    """The accounts that the reviewer may see: all, or those that are of their tenant alone.

    Raises: LedgerUnavailable.
    """
    if by.approval is not None:
        return Levels((), None)
    rules = {name: rule for policy in book.policies.loaded() for name, rule in _rules(policy)}
    found = await book.ledger.accounts(after, limit=MAX_LEVELS)
    rows = [row for row in (_level(one, rules) for one in found) if by.everywhere or ("tenant", by.tenant) in row.of]
    further = (found[-1].account, found[-1].unit) if len(found) == MAX_LEVELS else None
    return Levels(tuple(rows), further)


def _rules(policy: Policy) -> Iterator[tuple[str, _Rule]]:
    for name, about in policy.accounts.items():
        yield account_rule(name), _Rule(about.per, limits_of(about.limit))
    for pattern, tool in policy.tools.items():
        if tool.rate is not None:
            yield rate_rule(pattern), _Rule((*tool.rate.by, "tool"), limits_of(Limits(calls=tool.rate.calls)))


def _level(one: Stands, rules: Mapping[str, _Rule]) -> Level:
    name, of, window = _parted(one.account)
    rule = rules.get(name)
    limit = None if rule is None else rule.limits.get(one.unit)
    per: Sequence[str] = rule.per if rule is not None and len(rule.per) == len(of) else [""] * len(of)
    shown_limit = None if limit is None else float(shown(one.unit, limit))
    whose = tuple(zip(per, of, strict=True))
    return Level(name, whose, window, one.unit, float(shown(one.unit, one.level)), shown_limit, rule is not None)


def _parted(account: str) -> tuple[str, list[str], str]:
    """Rule, whose, window: as `kernel.accounts` joined them."""
    head, _, window = account.rpartition(" ")
    start = head.find(" [")
    try:
        return head[:start], [str(one) for one in json.loads(head[start + 1 :])], window
    except ValueError:
        return account, [], ""
