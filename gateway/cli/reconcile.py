"""`counterfoil reconcile`: what is not settled, what is being done about it, and what only a person can say."""

import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gateway.cli.ledgers import LedgerOption, book, console, fail, with_ledger
from gateway.cli.packets import arguments, as_json, facts, markdown
from gateway.cli.plain import ago, plain_table, visible
from gateway.kernel.packet import Packet, packet
from gateway.kernel.reduce import CorruptLedger
from gateway.kernel.registry import Registered, registered
from gateway.model.record import Record, utc
from gateway.model.run import Attempt, Run, Tracked
from gateway.model.tool import Tool
from gateway.ports import Ledger, LedgerUnavailable, NotOurLedger, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import rules_in, stored_in

UNSETTLED = ("open", "unverified", "unknown", "owed")


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An unsettled attempt of which the ledger cannot tell more."""

    attempt: str
    run: str
    state: str
    trouble: str
    """Why its run cannot be read."""


def reconcile(
    attempt: Annotated[str | None, typer.Argument(metavar="[ATTEMPT]", help="One attempt in full.")] = None,
    ledger: LedgerOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
    markdown_: Annotated[bool, typer.Option("--markdown", help="One attempt, for a ticket.")] = False,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config", metavar="FILE", help="Settle what can be settled, by the servers of this gateway.yaml."
        ),
    ] = None,
    seconds: Annotated[
        float, typer.Option("--for", min=0, max=86_400, help="With --config: how long to go on, in seconds.")
    ] = 120.0,
) -> None:
    """What is not settled yet: asked after, sent again under a key, or left to a person."""
    if config is not None:
        _drive(config, seconds)
        return
    packets = with_ledger(ledger, lambda opened: _packets(opened, attempt))
    if attempt is not None:
        if not packets:
            fail(f"no unsettled attempt `{attempt}` is in this ledger; `counterfoil reconcile` lists them")
        if isinstance(packets[0], Unreadable):
            fail(f"attempt `{attempt}` cannot be read: {packets[0].trouble}", code=2)
        _print_one(packets[0], f"counterfoil resolve {attempt}", as_markdown=markdown_, plain=json_)
    elif json_:
        told = [asdict(one) if isinstance(one, Unreadable) else as_json(one) for one in packets]
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        _print_all(packets)


async def _packets(ledger: Ledger, wanted: str | None) -> list[Packet | Unreadable]:
    """One damaged run hides no other."""
    written = await book(ledger)
    found = [one for one in await ledger.tracked(states=UNSETTLED) if wanted in {None, one.attempt}]
    read: dict[str, tuple[Run, list[Record]] | str] = {}
    for name in dict.fromkeys(one.run for one in found):
        try:
            read[name] = await written.state_of(name), [record for record, _ in await ledger.read(name)]
        except (CorruptLedger, UnreadableRecord) as error:
            read[name] = str(error)
    return [await _packet(ledger, written, one, read[one.run]) for one in found]


async def _packet(
    ledger: Ledger, written: Book, seen: Tracked, read: tuple[Run, list[Record]] | str
) -> Packet | Unreadable:
    if isinstance(read, str):
        return Unreadable(seen.attempt, seen.run, seen.state, read)
    run, records = read
    attempt = run.attempts.get(seen.attempt)
    if attempt is None:
        return Unreadable(
            seen.attempt, seen.run, seen.state, "its run does not know it; `counterfoil verify` says more"
        )
    known = await _known(ledger, run, attempt)
    told = await stored_in(ledger, attempt.intent.arguments)
    return packet(run, records, attempt, known, told, utc(written.clock.now()))


async def _known(ledger: Ledger, run: Run, attempt: Attempt) -> Registered | None:
    """The tool as the run's policy sees it, defined as it was when it was called."""
    intent = attempt.intent
    rules, definition = await rules_in(ledger, run.policy), await stored_in(ledger, intent.definition)
    if rules is None:
        return None
    own_name = str((definition or {}).get("name", intent.tool))
    return registered(Tool(intent.tool, intent.upstream or "", own_name, definition or {}), rules.policy)


def _print_all(found: Sequence[Packet | Unreadable]) -> None:
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
        what = Text(visible(one.tool), style="bold").append(f"\n{one.state}", style="not bold")
        last = f"\nlast: {visible(one.tried[-1].says)}" if one.tried else ""
        table.add_row(
            one.attempt,
            ago(one.sent_at, datetime.now(UTC)),
            what,
            f"{'A PERSON MUST SAY' if one.person else one.goes_on}{last}",
            style="yellow" if one.person else "",
        )
    for lost in (one for one in found if isinstance(one, Unreadable)):
        table.add_row(lost.attempt, "", lost.state, f"CANNOT BE READ: {lost.trouble}", style="red")
    console.print(table)
    if any(one.person for one in packets):
        console.print("`counterfoil reconcile ATTEMPT` has what is known of one; `counterfoil resolve` settles it.")


def _print_one(one: Packet, settle: str, *, as_markdown: bool, plain: bool) -> None:
    if plain:
        typer.echo(json.dumps(as_json(one), ensure_ascii=False))
        return
    if as_markdown:
        typer.echo(markdown(one, settle), nl=False)
        return
    lines = Text()
    for label, value in facts(one):
        lines.append(f"{label:<13}", style="dim").append(value + "\n")
    lines.append("arguments\n", style="dim").append(arguments(one) + "\n\n").append(one.question, style="bold")
    for option in one.options:
        lines.append(f"\n  {settle} {option.says} --reason …\n      {option.follows}")
    console.print(lines)


def _drive(config: Path, seconds: float) -> None:
    """Sweeps by the servers of that file until nothing is left that they could settle, or the time is over."""
    from gateway.app import plan_of, running  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.settings import load_settings  # noqa: PLC0415 - the same

    async def work() -> int:
        plan = plan_of(load_settings(config))
        async with running(plan) as gateway:
            loop = asyncio.get_running_loop()
            until = loop.time() + seconds
            while True:
                _ = await gateway.recovery.sweep()
                packets = await _packets(gateway.book.ledger, None)
                left = [one for one in packets if isinstance(one, Packet) and not one.person]
                if not left or loop.time() >= until:
                    _print_all(packets)
                    return len(packets)
                console.print(f"{len(left)} attempts may still be settled; going on for {until - loop.time():.0f} s")
                await asyncio.sleep(min(5.0, max(0.1, until - loop.time())))

    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    try:
        left = asyncio.run(work())
    except (NotOurLedger, LedgerUnavailable, ValueError, OSError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    if left:
        raise typer.Exit(3)
