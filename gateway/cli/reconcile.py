"""`counterfoil reconcile`: what is not settled, what is being done about it, and what only a person can say."""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, settings_of, with_ledger
from gateway.cli.packets import addressed, as_json, print_one
from gateway.cli.plain import ago, plain_table, visible
from gateway.model.packet import Packet
from gateway.outbound.unsaid import Discreet
from gateway.ports import Ledger, LedgerUnavailable, NotOurLedger
from gateway.runtime.packets import Packets, Unreadable


def reconcile(
    attempt: Annotated[str | None, typer.Argument(metavar="[ATTEMPT]", help="One attempt in full.")] = None,
    ledger: LedgerOption = None,
    config: FileOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
    markdown_: Annotated[bool, typer.Option("--markdown", help="One attempt, for a ticket.")] = False,
    seconds: Annotated[
        float | None,
        typer.Option(
            "--for",
            metavar="SECONDS",
            min=0,
            max=86_400,
            help="Settle what the servers of --config can tell, for so long at most.",
        ),
    ] = None,
) -> None:
    """What is not settled yet: asked after, sent again under a key, or left to a person."""
    where = Where(ledger, config)
    if seconds is not None:
        if config is None or attempt is not None or json_ or markdown_:
            fail("`--for` asks the servers of `--config` about all that is not settled; name the file alone", code=2)
        _drive(config, where, seconds)
        return
    if attempt is not None:
        one = with_ledger(where, lambda opened: _one(opened, attempt))
        if one is None:
            fail(f"no unsettled attempt `{attempt}` is in this ledger; `counterfoil reconcile` lists them")
        if isinstance(one, Unreadable):
            fail(f"attempt `{attempt}` cannot be read: {one.trouble}", code=2)
        print_one(addressed(one, where), as_markdown=markdown_, plain=json_)
        return
    packets = with_ledger(where, _packets)
    if json_:
        told = [asdict(one) if isinstance(one, Unreadable) else as_json(one) for one in packets]
        typer.echo(json.dumps(told))
    else:
        _print_all(packets, where)


async def _packets(ledger: Ledger) -> list[Packet | Unreadable]:
    return await Packets(await book(ledger)).unsettled()


async def _one(ledger: Ledger, attempt: str) -> Packet | Unreadable | None:
    """The packet of an attempt that is not settled; None if there is no such attempt."""
    return await Packets(await book(ledger)).of_unsettled(attempt)


def _print_all(found: Sequence[Packet | Unreadable], where: Where) -> None:
    if not found:
        console.print("Everything is settled. What a person must undo by hand, `counterfoil runs` shows.")
        return
    table = plain_table()
    for name in ("attempt", "sent"):
        table.add_column(name, no_wrap=True)
    table.add_column("tool, state", overflow="fold")
    table.add_column("what goes on", ratio=1, overflow="fold")
    packets = [one for one in found if isinstance(one, Packet)]
    for one in sorted(packets, key=lambda each: (not each.person, each.sent_at)):
        what = Text(visible(one.tool or ""), style="bold").append(f"\n{one.state}", style="not bold")
        last = f"\nlast: {visible(one.tried[-1].says)}" if one.tried else ""
        table.add_row(
            one.attempt,
            ago(datetime.fromisoformat(one.sent_at or ""), datetime.now(UTC)),
            what,
            f"{'A PERSON MUST SAY' if one.person else one.goes_on}{last}",
            style="yellow" if one.person else "",
        )
    for lost in (one for one in found if isinstance(one, Unreadable)):
        table.add_row(lost.attempt, "", lost.state, f"CANNOT BE READ: {lost.trouble}", style="red")
    console.print(table)
    if any(one.person for one in packets):
        look = f"`counterfoil reconcile ATTEMPT{where.option}` has what is known of one"
        console.print(f"{look}; `counterfoil resolve` settles it.", soft_wrap=True)


def _drive(config: Path, where: Where, seconds: float) -> None:
    """Sweeps by the servers of that file until nothing is left that they could settle, or the time is over."""
    from gateway.app import running  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.plan import plan_of  # noqa: PLC0415

    settings = settings_of(config, None)

    async def work() -> int:
        plan = plan_of(replace(settings, ledger=where.ledger or settings.ledger))
        told.setFormatter(Discreet("%(message)s", plan.unsaid))
        async with running(plan) as gateway:
            loop = asyncio.get_running_loop()
            until, pause_s = loop.time() + seconds, 0.1
            while True:
                _ = await gateway.recovery.sweep()
                packets = await _packets(gateway.book.ledger)
                left = [one for one in packets if isinstance(one, Packet) and not one.person]
                if not left or loop.time() >= until:
                    _print_all(packets, where)
                    return len(packets)
                if pause_s > 1:  # what is just being settled needs no word
                    console.print(
                        f"{len(left)} attempts may still be settled; going on for {until - loop.time():.0f} s"
                    )
                await asyncio.sleep(min(pause_s, max(0.1, until - loop.time())))
                pause_s = min(2 * pause_s, 5.0)

    told = logging.StreamHandler(sys.stderr)
    logging.basicConfig(handlers=[told], level=logging.WARNING, format="%(message)s")
    try:
        left = asyncio.run(work())
    except (NotOurLedger, LedgerUnavailable, ValueError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if left:
        raise typer.Exit(3)
