"""How far a yes goes beyond one call, in words: how often, until when, and in what the calls may differ."""

from collections.abc import Iterator
from datetime import datetime

from gateway.inbound.told.words import counted, visible
from gateway.model.asked import Offer
from gateway.model.packet import Packet

TOO_LONG = "say for how long as a number of seconds beyond 0, and at most 30 days"

_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def is_beyond_one(times: int | None, for_s: float | None) -> bool:
    """Whether a yes that is said so is for more than the one call that is shown."""
    return times != 1 or for_s is not None


def reach_asked(one: Packet, times: int | None, for_s: float | None) -> tuple[tuple[str, str], ...]:
    """What a yes to this question would allow, said so: label and value."""
    offer = one.offer or Offer()
    most = offer.times if times is None else times
    return tuple(_told(offer, most, _until(one, offer, for_s)))


def reach_granted(one: Packet, until: datetime | None) -> tuple[tuple[str, str], ...]:
    """What the yes that was given allows, until then; nothing where that is the one call alone. None: while others must
    agree as well.
    """
    if one.granted is None:
        return ()
    offer = one.offer or Offer()
    stands = _until(one, offer, one.granted.for_s) if until is None else f"until {_at(until)}"
    return tuple(_told(offer, one.granted.times, stands))


def _told(offer: Offer, times: int | None, until: str) -> Iterator[tuple[str, str]]:
    yield "how often", "as many calls as there are" if times is None else f"{counted(times, 'call')} in all"
    yield "how long", until
    if offer.varies:
        yield "may differ", f"{', '.join(map(visible, offer.varies))}; any value, and all else as shown"
    else:
        yield "may differ", "nothing: exactly these arguments"
    for condition in offer.within:
        yield "only if", visible(condition)


def _until(one: Packet, offer: Offer, for_s: float | None) -> str:
    said = offer.for_s if for_s is None else for_s
    lasts = one.valid_s if said is None else said
    if lasts is not None:
        several = sum(stage.quorum for stage in one.stages) > 1
        return f"for {spell(lasts)} from the {'last answer that is needed' if several else 'answer'} on"
    return f"until {_at(datetime.fromisoformat(one.expires_at))}" if one.expires_at else "as long as any answer"


def spell(spell_s: float) -> str:
    """Exactly so long: `30 minutes`, `90 seconds`."""
    for size, unit in _UNITS:
        if spell_s >= size and spell_s % size == 0:
            return counted(int(spell_s // size), unit)
    return f"{spell_s:g} seconds"


def _at(when: datetime) -> str:
    return when.isoformat(timespec="seconds")
