"""Untrusted text on a terminal: nothing in it may act, hide, or pass for something else."""

from rich import box
from rich.table import Table

from gateway.inbound.told.words import GONE as GONE
from gateway.inbound.told.words import ago as ago
from gateway.inbound.told.words import amount as amount
from gateway.inbound.told.words import counted as counted
from gateway.inbound.told.words import cut as cut
from gateway.inbound.told.words import seconds as seconds
from gateway.inbound.told.words import size as size
from gateway.inbound.told.words import spell as spell
from gateway.inbound.told.words import visible as visible
from gateway.inbound.told.words import whose as whose


def plain_table(title: str | None = None) -> Table:
    """A table without lines, which fits into 80 columns as well as it can."""
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
