"""`counterfoil approvals watch`: what waits for a person, redrawn as it changes, until Ctrl-C."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.live import Live

from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, reviewer, with_ledger
from gateway.cli.waiting import Row, rows_of, screen
from gateway.ports import Ledger
from gateway.runtime.desk import Desk

BEAT_S = 15.0
"""After which it is drawn anew though nothing changed: ages grow."""
NOT_YET = -1
"""A version that nothing has."""
SHOWN = 200


def watch(
    ledger: LedgerOption = None,
    config: FileOption = None,
    once: Annotated[bool, typer.Option("--once", help="Show it as it is now, and end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line for each thing that begins to wait, or waits no more.")
    ] = False,
    bell: Annotated[bool, typer.Option("--bell/--no-bell", help="Ring when something new waits.")] = False,
) -> None:
    """What waits for a person, live. Ends with Ctrl-C."""
    try:
        with_ledger(Where(ledger, config), lambda opened: _watch(opened, once=once, as_json=as_json, bell=bell))
    except KeyboardInterrupt:
        return


async def _watch(ledger: Ledger, *, once: bool, as_json: bool, bell: bool) -> None:
    looks = _looks(ledger, once=once)
    if as_json:
        await _lines(looks)
        return
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not once else None
    known: set[str] | None = None
    with live if live is not None else nullcontext():
        async for rows, total, changed in looks:
            names = {row["name"] for row in rows}
            if live is not None:
                live.update(screen(rows, total), refresh=True)
            elif changed:
                console.print(screen(rows, total))
            if bell and known is not None and names - known:
                console.bell()
            known = names


async def _lines(looks: AsyncIterator[tuple[list[Row], int, bool]]) -> None:
    """JSON, one object a line: for a script that reads while we go on."""
    known: dict[str, Row] = {}
    async for rows, _, _ in looks:
        now = {row["name"]: row for row in rows}
        at = datetime.now(UTC).isoformat(timespec="seconds")
        for line in [*_gone(known, now, at), *_new(known, now, at)]:
            typer.echo(json.dumps(line))  # ASCII: nothing in it can act on a terminal
        sys.stdout.flush()
        known = now


def _gone(known: dict[str, Row], now: dict[str, Row], at: str) -> Sequence[dict[str, Any]]:
    return [{"event": "gone", "at": at, "name": name} for name in known if name not in now]


def _new(known: dict[str, Row], now: dict[str, Row], at: str) -> Sequence[dict[str, Any]]:
    return [
        {"event": "changed" if name in known else "waits", "at": at, **row}
        for name, row in now.items()
        if known.get(name) != row
    ]


async def _looks(ledger: Ledger, *, once: bool) -> AsyncIterator[tuple[list[Row], int, bool]]:
    """What waits, and whether that is news; now, and whenever it changes."""
    written = await book(ledger)
    desk, by, seen = Desk(written), reviewer(), NOT_YET
    while True:
        version = await desk.changed(seen, 0.0 if seen == NOT_YET else BEAT_S)
        page = await desk.inbox(by, limit=SHOWN)
        yield await rows_of(written, page), page.total, version != seen
        if once:
            return
        seen = version
        await asyncio.sleep(0)
