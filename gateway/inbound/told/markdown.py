"""Markdown in which untrusted text is text: it makes no markup, no link, and calls nobody."""

import re
from collections.abc import Iterable, Iterator, Sequence

from gateway.inbound.told.words import cut, visible

MAX_CELL = 300
"""Characters of one cell of a table."""


def escaped(text: str) -> str:
    """Untrusted text that no Markdown reader takes for markup, a link, or somebody who is to be told.

    It must not stand at the beginning of a line, where a digit or a dash would begin a list.
    """
    marked = "".join(f"\\{letter}" if letter in "\\`*_{}[]<>()#!|~&" else letter for letter in text)
    return re.sub(r"(?i)(@|www\.|://)", lambda found: f"{found[0][0]}<!-- -->{found[0][1:]}", marked)


def cell(text: str) -> str:
    """Untrusted text for a table or a line: cut, on one line, escaped. A dash where there is none."""
    return escaped(visible(cut(text, MAX_CELL))) or "-"


def code(text: str) -> str:
    """Text as code, on one line, whatever ticks are in it; not for tables, in which a bar would end the cell."""
    shown = visible(text)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table; what is in its cells is escaped already."""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"
