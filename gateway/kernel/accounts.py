"""(case, charge) -> what is reserved on accounts that many runs share. Whose account it is, and which window of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway.kernel.charges import settled_charge
from gateway.kernel.globs import names
from gateway.kernel.once import once
from gateway.kernel.registry import Registered
from gateway.model.account import Posting
from gateway.model.alike import alike
from gateway.model.canonical import digest, dump
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptRefuted,
    AttemptUnsent,
    Charge,
    Event,
    IntentRecorded,
    ReceiptRecorded,
    Reservation,
)
from gateway.model.flaws import account_rule, rate_rule
from gateway.model.policy import AccountRule, Limits, Policy, Window, micro
from gateway.model.proposal import Proposal
from gateway.model.run import Run
from gateway.model.trusted import trusted

MAX_KEPT = 4_096
"""Of what is found out about accounts and kept: their keys, and what charges take from them."""


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """An account rule that a tool falls under."""

    name: str
    """As conditions call it; the registry's pattern for a rate."""
    rule: str
    """As verdicts cite it."""
    about: AccountRule
    limits: Mapping[str, int | None]
    """By unit, as `limits_of`."""
    limited: tuple[tuple[str, int], ...]
    """Of them those that there are."""
    measures: bool
    """Whether tokens count, which are known only afterwards: they are limited, or nothing is."""
    by_argument: bool
    """Whether each value of an argument has an account of its own."""
    keys: dict[tuple[str, str, str], str] = field(default_factory=dict, repr=False)
    """By tenant, principal and window, where no argument has a part in it."""


def _shared(name: str, rule: str, about: AccountRule) -> Shared:
    limits = limits_of(about.limit)
    limited = limited_by(limits)
    by_argument = any(part.startswith("args.") for part in about.per)
    return Shared(name, rule, about, limits, limited, limits["tokens"] is not None or not limited, by_argument)


def accounts_for(policy: Policy, tool: Registered) -> tuple[Shared, ...]:
    """The accounts that calls of this tool are counted on, its registry entry's rate among them."""
    found = [
        _shared(name, account_rule(name), about)
        for name, about in policy.accounts.items()
        if any(names(pattern, tool.tool.name) for pattern in about.tools)
        and (not about.effect or tool.effect in about.effect)
    ]
    rate = tool.rule.rate
    if rate is not None and tool.pattern is not None:
        about = AccountRule(per=(*rate.by, "tool"), window=rate.per, limit=Limits(calls=rate.calls))
        found.append(_shared(tool.pattern, rate_rule(tool.pattern), about))
    return tuple(found)


def account_of(shared: Shared, proposal: Proposal, tool: Registered, workflow: str, salt: bytes, now: datetime) -> str:
    """The key of the account that the proposal falls under, in the window that is now."""
    asked = (proposal.principal.tenant, proposal.principal.id, window_of(shared.about.window, now))
    if shared.by_argument:
        return _account_of(shared, proposal, tool, workflow, salt, asked[2])
    return once(shared.keys, asked, lambda: _account_of(shared, proposal, tool, workflow, salt, asked[2]), MAX_KEPT)


def _account_of(shared: Shared, proposal: Proposal, tool: Registered, workflow: str, salt: bytes, window: str) -> str:
    known = {
        "tenant": proposal.principal.tenant,
        "principal": proposal.principal.id,
        "tool": tool.tool.name,
        "upstream": tool.tool.upstream,
        "workflow": workflow,
    }
    # An argument stands there as its salted digest: a ledger's keys are no place for an address of somebody. 2000.0
    # is 2000: to most servers they are one amount, and must not have two accounts.
    of = [
        known[part]
        if part in known
        else digest({"argument": alike(proposal.arguments.get(part.partition(".")[2]))}, salt)
        for part in shared.about.per
    ]
    return f"{shared.rule} {dump(of)} {window}"


def accounts_of(
    shared: Sequence[Shared], proposal: Proposal, tool: Registered, workflow: str, salt: bytes, now: datetime
) -> tuple[tuple[Shared, str], ...]:
    """These accounts, each with the key of the one that the proposal falls under now."""
    return tuple((one, account_of(one, proposal, tool, workflow, salt, now)) for one in shared)


def looked_at(accounts: Iterable[str], found: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """What stands on these accounts, those on which nothing stands too: so it is known that they were looked at."""
    return {**dict.fromkeys(((account, "calls") for account in accounts), 0), **found}


def until(window: Window, now: datetime) -> datetime | None:
    """When the window that is now ends; None for `ever`."""
    day = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    match window:
        case "minute":
            return now.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
        case "hour":
            return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        case "day":
            return day + timedelta(days=1)
        case "month":
            return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
        case "ever":
            return None


_LENGTHS: Mapping[Window, int] = {"minute": 16, "hour": 13, "day": 10, "month": 7, "ever": 0}
"""Characters of a time, as ISO 8601 writes it, that tell one window from the next."""


def window_of(window: Window, now: datetime) -> str:
    """Its name: the same for all times within it."""
    return now.astimezone(UTC).isoformat()[: _LENGTHS[window]] or window


def limits_of(limits: Limits) -> dict[str, int | None]:
    """The limits by unit, cost in millionths."""
    return {
        "calls": limits.calls,
        "mutations": limits.mutations,
        "tokens": limits.tokens,
        "cost": None if limits.cost is None else micro(limits.cost),
        "reviews": limits.reviews,
    }


def limited_by(limits: Mapping[str, int | None]) -> tuple[tuple[str, int], ...]:
    """The limits that there are."""
    return tuple((unit, limit) for unit, limit in limits.items() if limit is not None)


_RESERVED: dict[tuple[Any, ...], tuple[Reservation, ...]] = {}


def reserved(shared: Shared, account: str, charge: Charge, *, binding: bool, now: datetime) -> tuple[Reservation, ...]:
    """What the charge takes from the account. Tokens are there even if none are reserved: they are measured later."""
    # The account's name has its rule and its window, and so the end of that.
    asked = (account, shared.limited, binding, *vars(charge).values())
    return once(_RESERVED, asked, lambda: _reserved_of(shared, account, charge, binding=binding, now=now), MAX_KEPT)


def _reserved_of(
    shared: Shared, account: str, charge: Charge, *, binding: bool, now: datetime
) -> tuple[Reservation, ...]:
    limits, end = shared.limits, until(shared.about.window, now)
    taken: dict[str, Any] = dict(vars(charge))
    return tuple(
        _reservation(
            rule=shared.rule,
            account=account,
            unit=unit,
            amount=amount,
            limit=limits[unit] if binding else None,
            until=end,
        )
        for unit, amount in taken.items()
        if amount or (unit == "tokens" and charge.calls and shared.measures)
    )


_reservation = trusted(Reservation)


def shown(unit: str, amount: int) -> float | int:
    """The amount as the policy's author counts it."""
    return amount / 1_000_000 if unit == "cost" else amount


def postings(run: Run, event: Event) -> Iterator[Posting]:
    """What an event takes from accounts, or gives back to them; `run` is as it was before the event."""
    match event:
        case IntentRecorded() | ApprovalRequested() | ApprovalDecided():
            yield from (_posting(one, one.amount, one.limit) for one in event.accounts if one.amount)
        case AttemptUnsent() | AttemptRefuted():
            yield from (_posting(one, -one.amount, None) for one in _reserved(run, event.attempt) if one.amount)
        case ReceiptRecorded() if event.attempt in run.attempts:
            more = vars(settled_charge(run.attempts[event.attempt], event))
            for one in _reserved(run, event.attempt):
                if more[one.unit]:
                    yield _posting(one, more[one.unit], None)
        case _:
            pass


def held_back(before: Run, after: Run) -> Iterator[Posting]:
    """What an event sets aside on accounts for compensations, or gives back of that."""
    for attempt, undo in before.set_aside.items():
        if attempt not in after.set_aside:
            yield from (_posting(one, -one.amount, None) for one in undo.accounts if one.amount)
    for attempt, undo in after.set_aside.items():
        if attempt not in before.set_aside:
            limited = attempt not in before.attempts  # with the intent; later it is only put back
            yield from (
                _posting(one, one.amount, one.limit if limited else None) for one in undo.accounts if one.amount
            )


def _reserved(run: Run, attempt_id: str) -> tuple[Reservation, ...]:
    attempt = run.attempts.get(attempt_id)
    return attempt.intent.accounts if attempt is not None else ()


def _posting(one: Reservation, amount: int, limit: int | None) -> Posting:
    return Posting(one.account, one.unit, amount, limit, one.until.timestamp() if one.until is not None else None)
