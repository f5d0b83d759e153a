"""Whose account a call is counted on, in which window, and what is posted there."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from gateway.kernel.accounts import account_of, accounts_for, limits_of, postings, reserved, shown, until
from gateway.kernel.rules import Rules
from gateway.model.account import Posting
from gateway.model.canonical import digest
from gateway.model.events import AttemptRefuted, AttemptUnknown, AttemptUnsent, Charge, IntentRecorded, Reservation
from gateway.model.policy import Limits, Window
from gateway.model.principal import Principal
from tests import world
from tests.kernel import made
from tests.kernel.test_decide import TOOLS, receipt

LATE = datetime(2027, 12, 31, 23, 59, 58, 123456, UTC)
EAST = timezone(timedelta(hours=5, minutes=30))
ENDS: dict[Window, tuple[str, str | None]] = {
    "minute": ("2027-12-31T23:59", "2028-01-01T00:00:00+00:00"),
    "hour": ("2027-12-31T23", "2028-01-01T00:00:00+00:00"),
    "day": ("2027-12-31", "2028-01-01T00:00:00+00:00"),
    "month": ("2027-12", "2028-01-01T00:00:00+00:00"),
    "ever": ("ever", None),
}
PAY = world.proposal("pay", {"to": "x@y.z", "n": 1})


def shared(rules: Rules, name: str = "pay") -> Any:
    return accounts_for(rules.policy, rules.ruled(TOOLS[name]).registered)


@pytest.fixture
def _local_time_of_kolkata(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine itself is not in UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "IST-5:30")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("_local_time_of_kolkata")
@pytest.mark.parametrize("window", ENDS)
@pytest.mark.parametrize("zone", [UTC, EAST])
def test_a_window_is_of_the_calendar_in_utc_wherever_it_is_asked_for(window: Window, zone: Any) -> None:
    name, end = ENDS[window]
    now = LATE.astimezone(zone)
    found = until(window, now)
    assert (found.isoformat() if found is not None else None) == end
    rules = world.rules(accounts={"d": {"per": [], "window": window}})
    (one,) = shared(rules)
    key = account_of(one, PAY, rules.ruled(TOOLS["pay"]).registered, "test", world.SALT, now)
    assert key == f"accounts.d [] {name}"


@pytest.mark.parametrize(
    ("window", "now", "end"),
    [
        ("minute", datetime(2027, 3, 4, 5, 6, 7, 8, UTC), datetime(2027, 3, 4, 5, 7, tzinfo=UTC)),
        ("hour", datetime(2027, 3, 4, 5, 6, 7, 8, UTC), datetime(2027, 3, 4, 6, tzinfo=UTC)),
        ("day", datetime(2027, 3, 4, 5, 6, 7, 8, UTC), datetime(2027, 3, 5, tzinfo=UTC)),
        ("month", datetime(2027, 3, 4, 5, 6, 7, 8, UTC), datetime(2027, 4, 1, tzinfo=UTC)),
        ("month", datetime(2027, 1, 31, 23, tzinfo=UTC), datetime(2027, 2, 1, tzinfo=UTC)),
        ("month", datetime(2027, 2, 1, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC)),
        ("minute", datetime(2027, 3, 4, 5, 6, tzinfo=UTC), datetime(2027, 3, 4, 5, 7, tzinfo=UTC)),
    ],
)
def test_a_window_ends_where_the_next_begins(window: Window, now: datetime, end: datetime) -> None:
    assert until(window, now) == end


def test_an_account_is_named_by_what_it_is_per_and_by_no_argument_in_clear() -> None:
    per = ["tenant", "principal", "tool", "upstream", "workflow", "args.to", "args.gone"]
    rules = world.rules(accounts={"d": {"per": per, "window": "ever"}})
    known = rules.ruled(TOOLS["pay"]).registered
    (one,) = shared(rules)
    mine = replace(PAY, principal=Principal(id="p", tenant="t"))
    parts = ["t", "p", "pay", "fake", "test", *(digest({"argument": of}, world.SALT) for of in ("x@y.z", None))]
    told = ",".join(f'"{part}"' for part in parts)
    assert account_of(one, mine, known, "test", world.SALT, LATE) == f"accounts.d [{told}] ever"
    assert account_of(one, mine, known, "test", b"other", LATE) != account_of(one, mine, known, "test", b"", LATE)


def test_a_call_falls_under_the_accounts_that_name_its_tool_and_its_effect() -> None:
    rules = world.rules(
        accounts={
            "all": {},
            "some": {"tools": ["w*", "read"]},
            "reads": {"effect": ["read"]},
            "writes": {"effect": ["destructive", "write"]},
        },
        tools={"wr*": {"effect": "write", "rate": {"calls": 3, "per": "hour", "by": ["tenant"]}},
               "read": {"effect": "read", "rate": {"calls": 2, "by": []}}},
    )  # fmt: skip
    told = {name: [one.rule for one in shared(rules, name)] for name in ("read", "write", "pay")}
    assert told == {
        "read": ["accounts.all", "accounts.some", "accounts.reads", "tools.read.rate"],
        "write": ["accounts.all", "accounts.some", "accounts.writes", "tools.wr*.rate"],
        "pay": ["accounts.all", "accounts.writes"],
    }
    rate = shared(rules, "write")[-1]
    assert (rate.name, rate.about.per, rate.about.window) == ("wr*", ("tenant", "tool"), "hour")
    assert rate.limits == {"calls": 3, "mutations": None, "tokens": None, "cost": None, "reviews": None}
    assert shared(rules, "read")[-1].about.per == ("tool",)


def test_limits_are_by_unit_and_cost_is_in_millionths() -> None:
    told = limits_of(Limits(calls=1, mutations=2, tokens=3, cost=0.1, reviews=5))
    assert told == {"calls": 1, "mutations": 2, "tokens": 3, "cost": 100_000, "reviews": 5}
    assert limits_of(Limits()) == dict.fromkeys(told)
    assert (shown("cost", 1_500_000), shown("calls", 1_500_000)) == (1.5, 1_500_000)


@pytest.mark.parametrize(
    ("limit", "charge", "units"),
    [
        ({}, Charge(calls=1), ["calls", "tokens"]),
        ({"tokens": 5}, Charge(calls=1), ["calls", "tokens"]),
        ({"calls": 5}, Charge(calls=1), ["calls"]),
        ({"calls": 5}, Charge(calls=1, tokens=2), ["calls", "tokens"]),
        ({}, Charge(mutations=1), ["mutations"]),
        ({}, Charge(reviews=1), ["reviews"]),
        ({"calls": 5, "tokens": 9}, Charge(calls=1, mutations=2, tokens=3, cost=4),
         ["calls", "mutations", "tokens", "cost"]),
    ],
)  # fmt: skip
def test_what_is_taken_is_reserved_and_tokens_wherever_they_count(
    limit: dict[str, Any], charge: Charge, units: list[str]
) -> None:
    rules = world.rules(accounts={"d": {"limit": limit}})
    (one,) = shared(rules)
    for binding in (True, False):
        found = reserved(one, "key", charge, binding=binding, now=LATE)
        assert [each.unit for each in found] == units
        for each in found:
            assert each == Reservation(
                rule="accounts.d",
                account="key",
                unit=each.unit,
                amount=getattr(charge, each.unit),
                limit=limit.get(each.unit) if binding else None,
                until=datetime(2028, 1, 1, tzinfo=UTC),
            )


def test_what_an_event_posts_is_what_it_takes_or_gives_back() -> None:
    rules = world.rules(
        tools={"pay": {"effect": "write", "result_tokens": 100}},
        accounts={"d": {"limit": {"calls": 5}}, "e": {"window": "ever", "per": []}},
        transitions=[{"name": "w", "tools": ["*"], "charge": {"mutations": 0}}],
    )
    run = world.opened(rules)
    intent = made.judge(run, PAY, rules, made.Seen(), world.T0)
    assert isinstance(intent, IntentRecorded)
    day, ever, end = 'accounts.d ["local"] 2027-01-15', "accounts.e [] ever", world.T0 + 57_600
    assert list(postings(run, intent)) == [
        Posting(day, "calls", 1, 5, end),
        Posting(day, "tokens", 100, None, end),
        Posting(ever, "calls", 1, None, None),
        Posting(ever, "tokens", 100, None, None),
    ]
    sent = world.after(run, intent)
    back = [
        Posting(day, "calls", -1, None, end),
        Posting(day, "tokens", -100, None, end),
        Posting(ever, "calls", -1, None, None),
        Posting(ever, "tokens", -100, None, None),
    ]
    assert list(postings(sent, AttemptUnsent(attempt="run_1.2", reason="t"))) == back
    refuted = AttemptRefuted(attempt="run_1.2", source="probe", reason="t")
    doubted = world.after(sent, AttemptUnknown(attempt="run_1.2", reason="t"))
    assert list(postings(doubted, refuted)) == back
    assert list(postings(sent, receipt(size_bytes=401))) == [
        Posting(day, "tokens", 1, None, end), Posting(ever, "tokens", 1, None, None),
    ]  # fmt: skip
    assert list(postings(sent, receipt(size_bytes=400))) == []
    assert list(postings(world.after(doubted, refuted), receipt(size_bytes=8))) == [
        Posting(day, "calls", 1, None, end),
        Posting(day, "tokens", 2, None, end),
        Posting(ever, "calls", 1, None, None),
        Posting(ever, "tokens", 2, None, None),
    ]
    assert list(postings(sent, receipt("run_1.9"))) == []
    assert list(postings(sent, AttemptUnsent(attempt="run_1.9", reason="t"))) == []
    assert list(postings(sent, AttemptUnknown(attempt="run_1.2", reason="t"))) == []
