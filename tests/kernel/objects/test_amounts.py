"""Money and time."""

from datetime import UTC, datetime

import pytest

from tests.kernel.objects import Judged, judged

NO_AMOUNT = "the amount is no plain decimal number"
NEGATIVE = "the amount is negative or no number"


@pytest.mark.parametrize(
    ("amount", "expected"),
    [
        (0, True),
        (500, True),
        (501, False),
        (-1, NEGATIVE),
        (9_007_199_254_740_993, False),
        (500.0, True),
        (499.995, True),
        (500.00000000000006, False),
        (0.1 + 0.2, True),
        (1e300, False),
        (5e-324, True),
        (-0.0, True),
        (-0.01, NEGATIVE),
        ("500", True),
        ("500.00", True),
        ("500.000000001", False),
        ("0", True),
        ("0.01", True),
        ("-1", NO_AMOUNT),
        ("+1", NO_AMOUNT),
        ("1e3", NO_AMOUNT),
        ("1E-3", NO_AMOUNT),
        ("1,000", NO_AMOUNT),
        ("1.000,00", NO_AMOUNT),
        ("1'000", NO_AMOUNT),
        ("1_000", NO_AMOUNT),
        ("0x10", NO_AMOUNT),
        ("0500", NO_AMOUNT),
        ("007", NO_AMOUNT),
        (".5", NO_AMOUNT),
        ("5.", NO_AMOUNT),
        ("1.2.3", NO_AMOUNT),
        ("NaN", NO_AMOUNT),
        ("Infinity", NO_AMOUNT),
        ("", NO_AMOUNT),
        (" 5", NO_AMOUNT),
        ("5 EUR", NO_AMOUNT),
        ("\u0665", NO_AMOUNT),
        ("\uff15", NO_AMOUNT),
        ("5\u00b2", NO_AMOUNT),
        ("9" * 41, NO_AMOUNT),
        (True, "`money.at_most` cannot take a truth value and a string"),
        (None, "`money.at_most` cannot take null and a string"),
    ],
    ids=repr,
)
def test_an_amount_is_at_most_a_limit_exactly(amount: object, expected: Judged) -> None:
    assert judged('money.at_most(args.a, "500.00")', amount) == expected


def test_what_is_computed_may_be_no_number() -> None:
    assert judged('money.at_most(0.0 / 0.0, "500")') == NEGATIVE
    assert judged('money.at_most(1.0 / 0.0, "500")') == NEGATIVE
    assert judged('money.at_most(args.a + args.b, "0.3")', 0.1, 0.2) is False


@pytest.mark.parametrize(
    ("amount", "currency", "expected"),
    [
        (500, "EUR", True),
        (501, "EUR", False),
        ("550", "USD", True),
        (0.5, "JPY", False),
        (0, "XXX", False),
        (1, "eur", "the currency is no code of three capital letters"),
        (1, "€", "the currency is no code of three capital letters"),
        (1, "", "the currency is no code of three capital letters"),
        (1, "\uff25\uff35\uff32", "the currency is no code of three capital letters"),
        ("1k", "EUR", NO_AMOUNT),
        ("1k", "JPY", NO_AMOUNT),
        (1, 978, "`money.at_most` cannot take an integer and an integer and an object"),
    ],
)
def test_a_limit_may_depend_on_the_currency(amount: object, currency: object, expected: Judged) -> None:
    assert judged('money.at_most(args.a, args.b, {"EUR": "500", "USD": "550"})', amount, currency) == expected


def test_a_currency_may_be_constant() -> None:
    assert judged('money.at_most(args.a, "EUR", {"EUR": "500"})', 500) is True
    assert judged('money.at_most(args.a, "USD", {"EUR": "500"})', 500) is False


def test_limits_from_elsewhere_are_read_as_amounts() -> None:
    assert judged("money.at_most(args.a, args.b, args.c)", 5, "EUR", {"EUR": 5}) is True
    assert judged("money.at_most(args.a, args.b, args.c)", 6, "EUR", {"EUR": 5.5}) is False
    assert judged("money.at_most(args.a, args.b, args.c)", 6, "EUR", {"EUR": None}) == "it cannot be read"
    assert judged("money.at_most(args.a, args.b, args.c)", 1, "EUR", {"EUR": True}) == "it cannot be read"
    assert judged("money.at_most(args.a, args.b)", 5, "x") == "the limit is no plain decimal number"


def test_a_day_is_that_of_the_zone() -> None:
    assert judged('time.date(now, "Europe/Berlin") == "2026-11-30"') is True
    assert judged('time.date(now, "America/New_York") == "2026-11-29"') is True
    assert judged('time.date(timestamp(args.a), "UTC") == "2026-12-24"', "2026-12-24T23:59:59Z") is True
    assert judged('time.date(timestamp(args.a), "UTC") == ""', "tomorrow") == "a string is no time"
    edge = judged('time.date(now, "Pacific/Kiritimati") == ""', now=datetime(9999, 12, 31, 20, tzinfo=UTC))
    assert edge == "it cannot be read"


@pytest.mark.parametrize(
    ("when", "days", "hours", "expected"),
    [
        ("2026-11-27T08:00:00Z", "Mon-Fri", "09:00-17:00", True),
        ("2026-11-27T07:59:59.999Z", "Mon-Fri", "09:00-17:00", False),
        ("2026-11-27T15:59:59Z", "Mon-Fri", "09:00-17:00", True),
        ("2026-11-27T16:00:00Z", "Mon-Fri", "09:00-17:00", False),
        ("2026-11-28T10:00:00Z", "Mon-Fri", "09:00-17:00", False),
        ("2026-11-28T10:00:00Z", "Sat,Sun", "00:00-24:00", True),
        ("2026-11-28T10:00:00Z", "Fri-Mon", "00:00-24:00", True),
        ("2026-11-25T10:00:00Z", "Fri-Mon", "00:00-24:00", False),
        ("2026-07-01T07:00:00Z", "Mon-Fri", "09:00-17:00", True),  # summer time
        ("2026-11-27T22:30:00Z", "Fri", "22:00-06:00", True),
        ("2026-11-28T04:30:00Z", "Fri", "22:00-06:00", True),
        ("2026-11-28T05:30:00Z", "Fri", "22:00-06:00", False),
        ("2026-11-27T04:30:00Z", "Fri", "22:00-06:00", False),
        ("2026-11-28T22:30:00Z", "Fri", "22:00-06:00", False),
    ],
)
def test_hours_are_those_of_the_wall_clock(when: str, days: str, hours: str, expected: Judged) -> None:
    asked = f'time.within(now, "Europe/Berlin", "{days}", "{hours}")'
    assert judged(asked, now=datetime.fromisoformat(when)) == expected
