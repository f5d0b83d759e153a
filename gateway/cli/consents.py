"""What principals agreed to at other providers, as commands drop it."""

from rich.text import Text

from gateway.cli.plain import counted
from gateway.ports import Ledger


async def disconnected(ledger: Ledger, name: str, tenant: str | None, *, dry: bool = False) -> int:
    """How many accounts of that principal at other providers are connected no more, or would not be."""
    holders = await ledger.consents.held(name, tenant)
    for holder in () if dry else holders:
        await ledger.consents.drop(holder)
    return len(holders)


def told(connections: int, *, dry: bool = False) -> Text:
    """That in words."""
    gone = "would be disconnected" if dry else "disconnected, of which their providers are not told"
    return Text(f"{counted(connections, 'account')} at other providers {gone}")
