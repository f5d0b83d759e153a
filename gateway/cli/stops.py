"""`counterfoil stop` and `counterfoil stops`: kill switches. Every gateway on the ledger obeys at its next decision."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, reviewer, with_ledger
from gateway.cli.plain import ago, plain_table, visible
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import IntentRecorded, RunOpened, SwitchThrown
from gateway.model.review import Refused
from gateway.model.switch import NAMES, Switch, what
from gateway.ports import Ledger
from gateway.runtime.desk import Desk

LOOKED_AT = 2_000
"""Newest calls and runs of the ledger in which a name is looked for, to find a slip of the pen."""


def stop(
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="This run, for good.")] = None,
    principal: Annotated[str | None, typer.Option("--principal", metavar="ID", help="Whatever they ask.")] = None,
    tool: Annotated[str | None, typer.Option("--tool", metavar="TOOL", help="By the name that agents use.")] = None,
    upstream: Annotated[str | None, typer.Option("--upstream", metavar="NAME", help="All tools of a server.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="All that is of a tenant.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Everything.")] = False,
    lift: Annotated[int | None, typer.Option("--lift", min=1, metavar="NUMBER", help="Let it go on.")] = None,
    reason: Annotated[str, typer.Option("--reason", "-m", help="Why. Kept for ever, told to whoever is refused.")] = "",
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """Stop a run, a principal, a tool, an upstream, a tenant, or everything, on every gateway at once.

    Names together mean calls to which all of them apply. What is under way is recorded to its end; nothing new is sent.
    A run is over for good; what else is stopped goes on once its switch is lifted.
    """
    names = {"principal": principal, "tool": tool, "upstream": upstream, "tenant": tenant}
    given = {name: value for name, value in names.items() if value is not None}
    if sum([run is not None, bool(given), everything, lift is not None]) != 1:
        fail("say what is stopped, with `--run`, with some of `--principal`, `--tool`, `--upstream`, `--tenant`, "
             "or with `--all`; or what goes on, with `--lift`", code=2)  # fmt: skip
    if "" in given.values():
        fail("a name is empty; leave the option out where any is meant", code=2)
    if not reason.strip():
        fail("say why, with `--reason`; it is kept for ever, and told to whoever is refused", code=2)
    where = Where(ledger, config)
    if run is not None:
        _say(with_ledger(where, lambda opened: _end(opened, run, reason), reads_payloads=False))
    elif lift is not None:
        _say(with_ledger(where, lambda opened: _lift(opened, lift, reason), reads_payloads=False))
    else:
        _say(with_ledger(where, lambda opened: _throw(opened, given, reason, where), reads_payloads=False))


def _say(told: Sequence[str] | Refused) -> None:
    if isinstance(told, Refused):
        fail(told.reason)
    for line in told:
        console.print(Text(visible(line)), soft_wrap=True)


async def _end(ledger: Ledger, run: str, reason: str) -> Sequence[str] | Refused:
    try:
        await Desk(await book(ledger)).stop_run(run, reviewer(), reason)
    except Refused as refused:
        return refused
    except CorruptLedger as error:
        return Refused("damaged", f"the ledger is corrupt: {error}")
    return [f"Stopped the run `{run}` for good. What is under way in it is recorded to its end."]


async def _throw(ledger: Ledger, names: dict[str, Any], reason: str, where: Where) -> Sequence[str] | Refused:
    """It says where it was thrown: a switch in another ledger than a gateway's stops nothing there."""
    by, desk = reviewer(), Desk(await book(ledger))
    try:
        switch = await desk.throw(SwitchThrown(**names, by=by.who, via=by.via, reason=reason), by)
    except Refused as refused:
        return refused
    strange = [
        f"Nothing in this ledger has the {name} `{value}`: look whether it is spelled so, and whether this is the "
        "gateway's ledger; `--ledger` names another, `--config` a gateway's."
        for name, value in names.items()
        if value not in await _known(ledger, name)
    ]
    lifting = f"`counterfoil stop --lift {switch.number} --reason …{where.option}` lets it go on."
    return [
        f"Stopped {what(switch.event)} for every gateway on {where.shown}: switch {switch.number}.",
        lifting,
        *strange,
    ]


async def _known(ledger: Ledger, name: str) -> set[str | None]:
    """The names of that sort that the newest records have."""
    if name in {"tool", "upstream"}:
        found = [one.event for one in await ledger.find(["intent.recorded"], limit=LOOKED_AT)]
        return {getattr(event, name) for event in found if isinstance(event, IntentRecorded)}
    opened = [one.event for one in await ledger.find(["run.opened"], limit=LOOKED_AT)]
    whose = [event.principal for event in opened if isinstance(event, RunOpened)]
    return {one.tenant if name == "tenant" else one.id for one in whose}


async def _lift(ledger: Ledger, number: int, reason: str) -> Sequence[str] | Refused:
    try:
        await Desk(await book(ledger)).lift(number, reviewer(), reason)
    except Refused as refused:
        return Refused(refused.check, f"{refused.reason}; `counterfoil stops` lists those that are")
    return [f"Lifted switch {number}. What was refused meanwhile stays refused: agents must ask again."]


def stops(
    ledger: LedgerOption = None,
    config: FileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
) -> None:
    """What people have stopped, and not lifted. Runs that are over are in `runs`."""

    async def work(opened: Ledger) -> Sequence[Switch]:
        return await Desk(await book(opened)).switches(reviewer())

    where = Where(ledger, config)
    found = with_ledger(where, work, reads_payloads=False)
    if as_json:
        typer.echo(json.dumps([_plain(one) for one in found], ensure_ascii=False))
        return
    if not found:
        console.print(f"Nothing is stopped on {where.shown}.", soft_wrap=True)
        return
    table, now = plain_table(), datetime.now(UTC)
    for title in ("switch", "stops", "since", "by", "why"):
        table.add_column(title, overflow="fold")
    for one in found:
        event = one.event
        table.add_row(str(one.number), *map(visible, (what(event), ago(one.at, now), event.by.id, event.reason)))
    console.print(table)
    console.print(f"`counterfoil stop --lift NUMBER --reason …{where.option}` lets one go on.", soft_wrap=True)


def _plain(one: Switch) -> dict[str, Any]:
    event = one.event
    names = {name: getattr(event, name) for name in NAMES}
    return {"switch": one.number, "at": one.at.isoformat(), **names, "by": event.by.id, "reason": event.reason}
