"""An account: a level that many runs share, and what one step adds to it or takes off."""

from typing import NamedTuple


class Posting(NamedTuple):
    """One amount for one account, refused together with the step that it belongs to."""

    account: str
    """The whole key, its window included: `refunds-per-day/tenant=acme/2026-11-29`."""
    unit: str
    """`calls`, `mutations`, `tokens`, `cost` or `reviews`; an account has a level for each."""
    amount: int
    """What is taken; below 0: what is given back. Cost in micro-units."""
    limit: int | None
    """Refused if the level would be above it. None: never refused, nor is anything that is not above 0."""
    until: float | None
    """Seconds since the epoch after which nobody asks for this account, so that it may be forgotten; None: never.
    Of all that was said about an account the furthest counts, so what is given back says what the taking said."""
