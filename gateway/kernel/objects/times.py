"""`time.date`, `time.within`: what the calendar and the clock on the wall say in a zone.

The rules of a zone are read once, when a policy that names it is loaded, so that judging a call reads no file. CEL's
own `getHours("Europe/Berlin")` finds its zones in the system's files alone, and has no answer without them.
"""

from datetime import datetime, time
from functools import cache
from typing import TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from gateway.kernel.objects.judged import Function, Unjudged

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

Span: TypeAlias = tuple[time, time]


@cache
def zone(name: str) -> ZoneInfo:
    """The zone, by its name in the IANA list. Only constants come here, so the cache is bounded by policies."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Unjudged(f"there is no time zone `{name[:64]}`") from None


def date(now: datetime, name: str) -> str:
    """The day in that zone, as `2026-11-29`."""
    return now.astimezone(zone(name)).date().isoformat()


def within(now: datetime, name: str, days: str, hours: str) -> bool:
    """Whether it is one of these days and within these hours there; the last minute named is not within."""
    local = now.astimezone(zone(name))
    weekdays, (begin, end) = read_days(days), read_hours(hours)
    clock, today = local.time(), local.weekday()
    if begin < end:
        return today in weekdays and begin <= clock < end
    # Over midnight: what comes after it belongs to the day on which the hours began.
    return (clock >= begin and today in weekdays) or (clock < end and (today - 1) % 7 in weekdays)


@cache
def read_days(days: str) -> frozenset[int]:
    """`Mon-Fri`, `Sat,Sun`, `Fri-Mon`: Monday is 0."""
    found: set[int] = set()
    for part in days.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if first not in DAYS or (dash and last not in DAYS):
            raise Unjudged("days are written as `Mon-Fri` or `Sat,Sun`")
        begin = DAYS.index(first)
        found.update((begin + step) % 7 for step in range((DAYS.index(last) - begin) % 7 + 1 if dash else 1))
    return frozenset(found)


@cache
def read_hours(hours: str) -> Span:
    """`09:00-17:00`; `22:00-06:00` goes over midnight, and `00:00-24:00` is the whole day."""
    begin, _, end = hours.partition("-")
    found = _clock(begin), _clock("00:00" if end == "24:00" else end)
    if found[0] == found[1] and (end, begin) != ("24:00", "00:00"):
        raise Unjudged("the hours end where they begin")
    return found


def _clock(text: str) -> time:
    hour, _, minute = text.partition(":")
    plain = text.isascii() and hour.isdigit() and minute.isdigit() and (len(hour), len(minute)) == (2, 2)
    if not plain or int(hour) > 23 or int(minute) > 59:  # noqa: PLR2004 - of a clock
        raise Unjudged("hours are written as `09:00-17:00`")
    return time(int(hour), int(minute))


FUNCTIONS = (
    Function(
        "time.date",
        ((("timestamp", "string"), "string"),),
        date,
        {1: lambda name: zone(str(name))},
        frozenset({1}),
    ),
    Function(
        "time.within",
        ((("timestamp", "string", "string", "string"), "bool"),),
        within,
        {
            1: lambda name: zone(str(name)),
            2: lambda days: read_days(str(days)),
            3: lambda hours: read_hours(str(hours)),
        },
        frozenset({1, 2, 3}),
    ),
)
