"""(what a server wants a model to know) -> as much of it as a model is told. Pure, total.

A model takes instructions for words of whoever it works for. So there is nothing in them that a person would not see,
no heading by which one server speaks for another, and an end [hardening T2, T37].
"""

import re

from gateway.model.hidden import MORE, hidden, unhidden

MOST = 20_000
"""Characters of one server's; some have pages, none needs a book."""

_HEADING = re.compile(r"^(?=#{1,5}\s)", re.MULTILINE)


def readable(text: str, *, headed: bool) -> str:
    """What of it is told. With `headed` it stands under a heading of ours, and its own are one level lower."""
    cut = text[:MOST]
    seen = str(unhidden(cut)) if MORE not in hidden(cut) else cut.encode("ascii", "ignore").decode()
    if headed:
        seen = _HEADING.sub("#", seen)
    return seen if len(text) <= MOST else f"{seen}\n[counterfoil: {len(text) - MOST} more characters are left out]"
