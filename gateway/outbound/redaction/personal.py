"""Personal data by its shape: (candidate) -> what of it is meant. E-mail, phone, IBAN, cards, public IP addresses.

The shapes are bounded, so each candidate is short, and each is checked by its own rule where there is one.
"""

import ipaddress
import re

from gateway.outbound.redaction.patterns import Check

# Separators as people and forms write them; what else stands between digits makes them other numbers.
PERSONAL: dict[str, str] = {
    "email": r"[A-Za-z0-9._%+\-]{1,64}@[A-Za-z0-9\-]{1,63}(?:\.[A-Za-z0-9\-]{1,63}){1,8}",
    "iban": r"\b[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b",
    "card": r"\b(?:[0-9]{4}(?:[ \-][0-9]{4}){3}(?:[ \-][0-9]{1,3})?|[0-9]{4}[ \-][0-9]{6}[ \-][0-9]{5}|[0-9]{13,19})\b",
    "phone": r"(?:\+|\b00)[1-9][0-9 ().\-/]{5,24}[0-9]"
    r"|(?:\([2-9][0-9]{2}\) ?|\b[2-9][0-9]{2}[ .\-])[2-9][0-9]{2}[ .\-][0-9]{4}\b",
    # Of IPv6 what is written in full or with a gap within: `12:30:45` is a time.
    "ip": r"\b(?:[0-9]{1,3}\.){3}[0-9]{1,3}\b|\b(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}\b"
    r"|\b(?:[0-9A-Fa-f]{1,4}:){1,6}(?::[0-9A-Fa-f]{1,4}){1,6}\b",
}
"""Kinds of personal data, with the patterns of their candidates."""

CARD_DIGITS = range(13, 20)
"""[ISO/IEC 7812-1]"""

_SPARE = re.compile(r"[^0-9]")


def email(candidate: str) -> str | None:
    """An address; its domain has a top level of letters, and no sentence's full stop."""
    address = candidate.rstrip(".-")
    return address if address.rpartition(".")[2].isalpha() else None


def iban(candidate: str) -> str | None:
    """The longest beginning of it, up to a space, that has the right check digits [ISO 13616: MOD 97-10]."""
    while len(candidate) >= 15:  # noqa: PLR2004 - Norway's, the shortest
        told = candidate.replace(" ", "")
        if int("".join(str(int(letter, 36)) for letter in told[4:] + told[:4])) % 97 == 1:
            return candidate
        candidate = candidate.rpartition(" ")[0]
    return None


def card(candidate: str) -> str | None:
    """A number of a network of cards with the right check digit [ISO/IEC 7812-1: Luhn]."""
    digits = _SPARE.sub("", candidate)
    if len(digits) not in CARD_DIGITS or digits[0] not in "23456":
        return None
    total = sum(
        int(digit) if place % 2 == 0 else sum(divmod(2 * int(digit), 10)) for place, digit in enumerate(digits[::-1])
    )
    return candidate if total % 10 == 0 else None


def ip(candidate: str) -> str | None:
    """An address that is somebody's: loopback, private and documentation's ones say nothing of a person."""
    try:
        return candidate if ipaddress.ip_address(candidate).is_global else None
    except ValueError:
        return None


def phone(candidate: str) -> str | None:
    """A phone number in it that there can be. One in the form of North America is one as it stands."""
    if candidate[0] not in "+0":
        return candidate
    # Only here: 50 ms that a process which meets no phone number need not spend.
    from phonenumbers import PhoneNumberMatcher  # noqa: PLC0415

    told = f"+{candidate[2:]}" if candidate[0] == "0" else candidate
    found = next(iter(PhoneNumberMatcher(told, None)), None)
    return candidate if found is not None else None


CHECKS: dict[str, tuple[Check, int]] = {
    "email": (email, 20_000),
    "iban": (iban, 20_000),
    "card": (card, 20_000),
    "phone": (phone, 200),  # some 0.1 ms each
    "ip": (ip, 20_000),
}
"""By kind, with how many candidates of one text are checked."""
