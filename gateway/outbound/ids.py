"""Ids that sort by the time at which they were made, and cannot be guessed."""

import os
from collections.abc import Callable


def id_maker(now: Callable[[], float], random: Callable[[int], bytes] = os.urandom) -> Callable[[str], str]:
    """A maker of ids: `run` becomes `run_` and 32 hex digits, 48 bits of milliseconds before 80 random ones.

    `now` tells seconds since the epoch. The layout is that of a version 7 UUID without its version bits.
    """

    def make_id(prefix: str) -> str:
        return f"{prefix}_{int(now() * 1000):012x}{random(10).hex()}"

    return make_id
