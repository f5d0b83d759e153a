"""`counterfoil purge`: payloads of runs that are over are erased, and that they are is recorded."""

import asyncio
import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, TypeAlias

import typer
from rich.text import Text

from gateway.cli import consents
from gateway.cli.durations import duration
from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, reviewer, with_ledger
from gateway.cli.plain import counted, visible
from gateway.cli.runs import AS_JSON
from gateway.model.citation import Citation
from gateway.outbound.citations import CitationsOnDisk
from gateway.ports import Ledger
from gateway.runtime.erasing import Erased, Eraser, Erasure

IDLE_S = 3_600.0
"""A run that was not ended in so many words is over once nothing was recorded in it for so long."""
SHOWN = 20
"""Runs that are named."""

_Free: TypeAlias = Callable[[Citation], bool]


def purge(
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="Of this run.")] = None,
    before: Annotated[
        str | None,
        typer.Option("--before", metavar="AGE|DATE", help="Recorded longer ago (`30d`), or before that day (UTC)."),
    ] = None,
    data_class: Annotated[
        str | None, typer.Option("--class", metavar="CLASS", help="Of calls whose results are of this class of data.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", metavar="[TENANT/]NAME", help="Of runs of this principal.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Erase nothing: say what would go.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    ledger: LedgerOption = None,
    config: FileOption = None,
    as_json: AS_JSON = False,
) -> None:
    """Erase what agents asked and servers answered, for good; what happened stays recorded, and verifies as before.

    With `--principal` alone, what they let gateways do at other providers is dropped as well.

    Several options narrow it together. Runs of which something is open, unknown, held, owed or waiting are left as they
    are, and so are those that something was recorded in within the last hour and that are not ended.
    """
    told = {"run": run, "before": before, "class": data_class, "principal": principal}
    if not any(told.values()):
        fail("say what is to be erased: `--run`, `--before`, `--class` or `--principal`", code=2)
    rule = "purge: " + ", ".join(f"{name} {value}" for name, value in told.items() if value)
    until = _until(before)

    def free_at(now: float) -> _Free:
        return _wanted(run, until, data_class, principal, now)

    where = Where(ledger, config)
    whose = principal if not (run or before or data_class) else None

    async def pass_over(opened: Ledger, *, dry: bool) -> tuple[Erased, int]:
        if run is not None and not await opened.read(run, limit=1):
            raise ValueError(f"no run `{run}` is in this ledger; `counterfoil runs` lists them")
        return await _erased(opened, rule, free_at, dry=dry), await _disconnected(opened, whose, dry=dry)

    if not dry_run and not yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            fail("nobody can be asked here: look with `--dry-run`, and say `--yes`", code=2)
        _print(*with_ledger(where, partial(pass_over, dry=True)), dry=True)
        if not typer.confirm("Erase them for good?", default=False):
            fail("nothing was erased")
    found, connections = with_ledger(where, partial(pass_over, dry=dry_run))
    if as_json:
        told_of = {"connections": connections, **_told(found)}
        typer.echo(json.dumps({"erased": 0 if dry_run else found.payloads, **told_of}))
    else:
        _print(found, connections, dry=dry_run)
    raise typer.Exit(1 if found.unread else 0)


def _until(before: str | None) -> Callable[[float], float] | None:
    """(now) -> the time up to which payloads are meant."""
    if before is None:
        return None
    try:
        day = datetime.fromisoformat(before)
    except ValueError:
        age = duration(before)
        return lambda now: now - age
    at = (day if day.tzinfo is not None else day.replace(tzinfo=UTC)).timestamp()
    return lambda _now: at


def _wanted(
    run: str | None,
    until: Callable[[float], float] | None,
    data_class: str | None,
    principal: str | None,
    now: float,
) -> _Free:
    def free(cited: Citation) -> bool:
        return (
            (cited.stopped or cited.last_at <= now - IDLE_S)
            and (run is None or cited.run == run)
            and (until is None or cited.at < until(now))
            and (data_class is None or cited.data_class == data_class)
            and (principal is None or is_meant(principal, cited.tenant, cited.principal))
        )

    return free


def is_meant(told: str, tenant: str, name: str) -> bool:
    """Whether `[TENANT/]NAME` is that principal; names may have slashes themselves, as those of certificates do."""
    return told in {name, f"{tenant}/{name}"}


async def _erased(ledger: Ledger, rule: str, free_at: Callable[[float], _Free], *, dry: bool) -> Erased:
    written, citations = await book(ledger), CitationsOnDisk()
    wanted = Erasure(rule, free_at(written.clock.now()), reviewer().who)
    try:
        return await Eraser(written, citations, wanted, lambda: asyncio.sleep(0)).run(dry=dry)
    finally:
        citations.close()


async def _disconnected(ledger: Ledger, whose: str | None, *, dry: bool) -> int:
    if whose is None:
        return 0
    everywhere = await consents.disconnected(ledger, whose, None, dry=dry)
    steps = whose.split("/")
    parts = [("/".join(steps[:at]), "/".join(steps[at:])) for at in range(1, len(steps))]
    return everywhere + sum([await consents.disconnected(ledger, name, of, dry=dry) for of, name in parts])


def _told(found: Erased) -> dict[str, object]:
    return {"payloads": found.payloads, "runs": found.runs, "left": found.left, "not_recorded": found.unread}


def _print(found: Erased, connections: int, *, dry: bool) -> None:
    what = "would be erased" if dry else "erased"
    if connections:
        console.print(consents.told(connections, dry=dry))
    console.print(Text(f"{counted(found.payloads, 'payload')} of {counted(len(found.runs), 'run')} {what}"))
    if not (found.payloads or connections or found.left):
        # Somebody may have to show that this was done: nothing must not look like everything.
        console.print(
            "Nothing that may go is meant by that. Look whether it is spelled so (`counterfoil runs`); a run that has "
            "not ended keeps what it has until an hour after its last record."
        )
    for name, count in list(found.runs.items())[:SHOWN]:
        console.print(Text(f"  {visible(name)}  {count}"))
    if len(found.runs) > SHOWN:
        console.print(f"  and {len(found.runs) - SHOWN} more runs")
    if found.left:
        more = f" and {len(found.left) - SHOWN} more" if len(found.left) > SHOWN else ""
        names = visible(", ".join(found.left[:SHOWN]))
        console.print(Text(f"left as they are, for something in them is not settled: {names}{more}"))
    if found.unread:
        console.print(f"{counted(found.unread, 'run')} could not be written to, so nothing of them was erased")
