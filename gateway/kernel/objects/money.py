"""`money.at_most`: amounts compared exactly, as decimals. `0.1 + 0.2` is more than `"0.3"`; `"1e3"` is no amount."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gateway.kernel.objects.judged import Function, Unjudged

MAX_DIGITS = 40


def at_most(amount: float | str, limit: str) -> bool:
    """Whether the amount, which is never negative, is the limit or less."""
    return _amount(amount) <= _limit(limit)


def at_most_in(amount: float | str, currency: str, limits: Mapping[Any, Any]) -> bool:
    """Whether it is the limit of its currency or less; a currency without a limit is never."""
    _code(currency)
    found = _amount(amount)
    return currency in limits and found <= _limit(limits[currency])


def _code(currency: str) -> None:
    if not (len(currency) == 3 and currency.isascii() and currency.isalpha() and currency.isupper()):  # noqa: PLR2004
        raise Unjudged("the currency is no code of three capital letters")  # [ISO 4217]


def _amount(amount: float | str) -> Decimal:
    if isinstance(amount, str):
        return _decimal(amount, "the amount")
    found = Decimal(repr(amount))  # the shortest decimal that is this very number
    if not found.is_finite() or (found.is_signed() and found):
        raise Unjudged("the amount is negative or no number")
    return found


def _limit(limit: Any) -> Decimal:
    return _decimal(limit, "the limit") if isinstance(limit, str) else _amount(limit)


def _decimal(text: str, what: str) -> Decimal:
    """A plain decimal: digits, and a dot with digits behind it. Everything else means something else somewhere."""
    whole, dot, part = text.partition(".")
    digits = whole + part
    plain = text.isascii() and whole.isdigit() and (part.isdigit() or not dot) and len(digits) <= MAX_DIGITS
    if not plain or (len(whole) > 1 and whole.startswith("0")):
        raise Unjudged(f"{what} is no plain decimal number")
    return Decimal(text)


def _limits(constant: object) -> None:
    for code, limit in (constant if isinstance(constant, dict) else {}).items():
        at_most_in("0", str(code), {code: limit})


_AMOUNTS = ("int", "double", "string")

FUNCTIONS = (
    Function(
        "money.at_most",
        (
            *(((amount, "string"), "bool") for amount in _AMOUNTS),
            *(((amount, "string", "map(string, string)"), "bool") for amount in _AMOUNTS),
        ),
        lambda amount, *others: at_most(amount, *others) if len(others) == 1 else at_most_in(amount, *others),
        {(1, 2): lambda limit: _decimal(str(limit), "the limit"), (1, 3): lambda code: _code(str(code)), 2: _limits},
    ),
)
