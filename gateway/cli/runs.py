"""`counterfoil runs` and `counterfoil show`: the ledger read back, as a person wants to read it."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, with_ledger
from gateway.cli.pages import page_of, write
from gateway.cli.plain import ago, counted, plain_table, seconds, visible, whose
from gateway.cli.totals import totals
from gateway.inbound.told.rows import Row, rows_of
from gateway.kernel.reduce import CorruptLedger
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.ports import Ledger, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in
from gateway.runtime.story import Story, story_of

NARROW = 100
"""Columns below which, in the list of runs, things stand under each other, not beside each other."""
WIDE = 120
"""Columns from which a result stands beside its call, and not below it."""

USAGE = 2

AS_JSON = Annotated[bool, typer.Option("--json", help="Plain JSON.")]


def runs(
    ledger: LedgerOption = None,
    config: FileOption = None,
    as_json: AS_JSON = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
) -> None:
    """The runs in the ledger, newest first."""
    rows = with_ledger(Where(ledger, config), lambda opened: _summaries(opened, limit))
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    narrow = console.width < NARROW
    table = plain_table()
    for name in ("run", *(() if narrow else ("opened",)), "workflow", *(() if narrow else ("spent",))):
        table.add_column(name, no_wrap=True)
    table.add_column("state", overflow="fold")
    for row in rows:
        calls, mutations = counted(row["calls"], "call"), counted(row["mutations"], "mutation")
        opened = ago(datetime.fromisoformat(row["opened"]), datetime.now(UTC))
        who, where = whose(row["tenant"], row["principal"]), f"{row['workflow']}\n{row['phase']}"
        if narrow:
            table.add_row(f"{row['run']}\n{who}, {opened}", where, f"{row['state']}\n{calls}, {mutations}")
        else:
            table.add_row(f"{row['run']}\n{who}", opened, where, f"{calls}\n{mutations}", row["state"])
    console.print(table if rows else "No run is in this ledger yet.")


async def _summaries(ledger: Ledger, limit: int) -> list[dict[str, Any]]:
    written = await book(ledger)
    return [await _summary_of(written, one.run) for one in await ledger.find(["run.opened"], limit=limit)]


async def _summary_of(written: Book, name: str) -> dict[str, Any]:
    """One damaged run hides no other."""
    try:
        return _summary(await written.state_of(name))
    except (CorruptLedger, UnreadableRecord):
        return _summary(Run(name)) | {"state": "cannot be read: `counterfoil verify` says why"}


def _summary(run: Run) -> dict[str, Any]:
    unsettled = len(run.unsettled)
    failed = sum(one.state == "failed" for one in run.undo.values())
    told = [str(run.stopped.outcome)] if run.stopped else ["open", *([f"{unsettled} unsettled"] if unsettled else [])]
    counts = (len(run.owed), "to be undone"), (failed, "for a person to undo")
    state = ", ".join([*told, *(f"{count} {what}" for count, what in counts if count)])
    return {
        "run": run.id,
        "opened": run.opened_at.isoformat(timespec="seconds") if run.opened_at else "",
        "workflow": run.workflow,
        "tenant": run.principal.tenant if run.principal else "",
        "principal": run.principal.id if run.principal else "",
        "phase": run.phase,
        "calls": run.spent.calls,
        "mutations": run.spent.mutations,
        "unsettled": unsettled,
        "to_be_undone": len(run.owed),
        "not_undone": failed,
        "state": state,
    }


def show(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or `last`.")],
    ledger: LedgerOption = None,
    config: FileOption = None,
    as_json: AS_JSON = False,
    checks: Annotated[bool, typer.Option("--checks", help="Every check of every verdict, with what it saw.")] = False,
    changes: Annotated[
        bool, typer.Option("--changes", help="Only what changed the world, or may have, and how that is known.")
    ] = False,
    step: Annotated[
        int | None, typer.Option("--step", help="One step alone: its arguments and what came back, in full.")
    ] = None,
    html: Annotated[
        bool, typer.Option("--html", help="One page for a browser, a phone or paper, which needs nothing else.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Where to write the page, instead of printing it.")
    ] = None,
) -> None:
    """What happened in a run, step by step."""
    if out is not None and not html:
        fail("`--out` is for `--html`", USAGE)
    if html and (as_json or checks or changes or step is not None):
        fail("`--html` has all of the run; it goes with `--out`, `--ledger` and `--config` alone", USAGE)
    where = Where(ledger, config)
    if html:
        _show_page(run, out, where)
        return
    if step is not None:
        _show_step(run, step, where)
        return
    found = with_ledger(where, lambda opened: read(opened, run))
    if found is None:
        fail(f"no run `{run}` is in this ledger; `counterfoil runs` lists them")
    if as_json:
        told = _changes(found) if changes else [one.model_dump(mode="json") for one in found.records]
        typer.echo(json.dumps(told, ensure_ascii=False))
        return
    console.print(table_of(found, console.width, changes=changes))
    if found.run.workflow:
        console.print(Text("\n".join(totals(found.run, found.records))))
    if checks:
        _print_checks(found.records)


def _show_page(wanted: str, out: Path | None, where: Where) -> None:
    async def work(ledger: Ledger) -> str | None:
        return await page_of(ledger, await named(ledger, wanted), where.option)

    try:
        page = with_ledger(where, work)
    except CorruptLedger as error:
        fail(f"the ledger is corrupt: {error}", code=2)
    if page is None:
        fail(f"no run `{wanted}` is in this ledger; `counterfoil runs` lists them")
    write(page, out)


def _show_step(wanted: str, step: int, where: Where) -> None:
    """A record with its payloads as JSON: what was asked, what was judged, what came back."""

    async def work(ledger: Ledger) -> dict[str, Any] | None:
        found = await read(ledger, wanted)
        record = next((one for one in found.records if one.seq == step), None) if found is not None else None
        if found is None or record is None:
            return None
        attempt = found.run.attempts.get(getattr(record.event, "attempt", None) or "")
        cited = {"arguments": getattr(record.event, "arguments", None), "result": attempt.result if attempt else None}
        stored = {name: await stored_in(ledger, digest) for name, digest in cited.items() if digest is not None}
        return {"record": record.model_dump(mode="json"), **stored}

    told = with_ledger(where, work)
    if told is None:
        fail(f"run `{wanted}` has no step {step} in this ledger; `counterfoil show {wanted}` lists them")
    typer.echo(json.dumps(told, indent=2))  # ASCII: nothing in it can act on a terminal


async def named(ledger: Ledger, wanted: str) -> str:
    """The run's id, where `last` stands for the one that was opened last; empty if there is none."""
    if wanted != "last":
        return wanted
    newest = await ledger.find(["run.opened"], limit=1)
    return newest[0].run if newest else ""


async def read(ledger: Ledger, wanted: str) -> Story | None:
    """The story of that run, or of the last one that was opened; None if there is none."""
    try:
        return await story_of(await book(ledger), await named(ledger, wanted))
    except CorruptLedger as error:
        fail(f"the ledger is corrupt: {error}", code=2)


def _changes(story: Story) -> list[dict[str, Any]]:
    """What changed the world, or may have: the oldest first."""
    return [
        {"attempt": one.id, "step": one.seq, "tool": one.intent.tool, "transition": one.intent.transition}
        | {"standing": stands.says, "by": stands.undone_by}
        for stands in story.stands
        if stands.changed and (one := story.run.attempts[stands.attempt])
    ]


def table_of(story: Story, width: int, *, changes: bool = False) -> Table:
    """Step, transition with the phases that it led through, verdict, charge, time of the tool and result: one row for
    each proposal and what came of it; of those that changed the world alone, or may have, if only these are asked for.
    """
    # What no policy judges, such as the stops of the ledger, has no workflow.
    table = plain_table(f"{story.run.id}  ({story.run.workflow})" if story.run.workflow else story.run.id)
    narrow = width < WIDE
    table.add_column("step", justify="right")
    table.add_column("transition, call, result" if narrow else "transition, call", ratio=5, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("charge", no_wrap=True)
    table.add_column("tool time", justify="right", no_wrap=True)
    if not narrow:
        table.add_column("result", ratio=5, overflow="fold")
    for row in rows_of(story):
        if changes and not row.changed:
            continue
        result = Text(visible("\n".join([*row.results, row.stands]).strip("\n"), keep="\n"))
        cells: list[Text | str] = [str(row.step), _what(row), row.verdict, row.charge, seconds(row.duration_s)]
        if narrow:
            cells[1] = Text("\n").join(part for part in (_what(row), result) if part)
        table.add_row(*cells, *(() if narrow else (result,)), style=row.style)
    return table


def _what(row: Row) -> Text:
    """The transition, the phases that it led through, and the call."""
    head = Text("  ").join(
        part for part in (Text(visible(row.transition), style="bold"), Text(visible(" → ".join(row.phases)))) if part
    )
    call = Text(visible(row.call), style="not bold dim")
    return Text("\n").join(part for part in (head, call) if part)


def _print_checks(records: Sequence[Record]) -> None:
    for record in records:
        for finding in getattr(record.event, "checks", ()):
            mark = "pass" if finding.passed else "REFUSED"
            inputs = visible(json.dumps(finding.inputs, ensure_ascii=False, default=str))
            console.print(Text(f"  {record.seq:>4}  {finding.check:<14}{mark:<8} {inputs} {finding.reason or ''}"))
