"""`counterfoil runs` and `counterfoil show`: the ledger read back, as a person wants to read it."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any, assert_never

import typer
from rich.table import Table
from rich.text import Text

from gateway.cli.ledgers import LedgerOption, book, console, fail, with_ledger
from gateway.cli.plain import GONE, ago, counted, cut, plain_table, seconds, visible
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import (
    ApprovalDecided,
    ApprovalRequested,
    AttemptAbandoned,
    AttemptQueried,
    AttemptRefuted,
    AttemptResent,
    AttemptResumed,
    AttemptSuspended,
    AttemptUnknown,
    AttemptUnsent,
    CompensationFailed,
    CompensationOwed,
    Denied,
    Event,
    EvidenceRecorded,
    Held,
    IntentRecorded,
    PhaseMoved,
    ReceiptRecorded,
    Replayed,
    RunOpened,
    RunStopped,
)
from gateway.model.record import Record
from gateway.model.run import Run
from gateway.ports import Ledger, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in

NARROW = 100
"""Columns below which things stand under each other, not beside each other."""

AS_JSON = Annotated[bool, typer.Option("--json", help="Plain JSON.")]


def runs(
    ledger: LedgerOption = None,
    as_json: AS_JSON = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 20,
) -> None:
    """The runs in the ledger, newest first."""
    rows = with_ledger(ledger, lambda opened: _summaries(opened, limit))
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
        who, where = visible(row["principal"]), f"{row['workflow']}\n{row['phase']}"
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
    as_json: AS_JSON = False,
    checks: Annotated[bool, typer.Option("--checks", help="Every check of every verdict, with what it saw.")] = False,
    step: Annotated[
        int | None, typer.Option("--step", help="One step alone: its arguments and what came back, in full.")
    ] = None,
) -> None:
    """What happened in a run, step by step."""
    if step is not None:
        _show_step(run, step, ledger)
        return
    found = with_ledger(ledger, lambda opened: _read(opened, run))
    if found is None:
        fail(f"no run `{run}` is in this ledger; `counterfoil runs` lists them")
    state, records, payloads = found
    if as_json:
        typer.echo(json.dumps([one.model_dump(mode="json") for one in records], ensure_ascii=False))
        return
    console.print(table_of(state, records, payloads, console.width))
    console.print(_closing(state))
    if checks:
        _print_checks(records)


def _show_step(wanted: str, step: int, url: str | None) -> None:
    """A record with its payloads as JSON: what was asked, what was judged, what came back."""

    async def work(ledger: Ledger) -> dict[str, Any] | None:
        found = await _read(ledger, wanted)
        record = next((one for one in found[1] if one.seq == step), None) if found is not None else None
        if found is None or record is None:
            return None
        attempt = found[0].attempts.get(getattr(record.event, "attempt", None) or "")
        cited = {"arguments": getattr(record.event, "arguments", None), "result": attempt.result if attempt else None}
        stored = {name: await stored_in(ledger, digest) for name, digest in cited.items() if digest is not None}
        return {"record": record.model_dump(mode="json"), **stored}

    told = with_ledger(url, work)
    if told is None:
        fail(f"run `{wanted}` has no step {step} in this ledger; `counterfoil show {wanted}` lists them")
    typer.echo(json.dumps(told, indent=2))  # ASCII: nothing in it can act on a terminal


async def _read(ledger: Ledger, wanted: str) -> tuple[Run, list[Record], dict[str, Any]] | None:
    if wanted == "last":
        newest = await ledger.find(["run.opened"], limit=1)
        wanted = newest[0].run if newest else ""
    records = [record for record, _ in await ledger.read(wanted)]
    if not records:
        return None
    payloads = {}
    for record in records:
        cited = getattr(record.event, "arguments", None)
        if cited is not None and cited not in payloads:
            payloads[cited] = await stored_in(ledger, cited)
    try:
        return await (await book(ledger)).state_of(wanted), records, payloads
    except CorruptLedger as error:
        fail(f"the ledger is corrupt: {error}", code=2)


def table_of(run: Run, records: list[Record], payloads: dict[str, Any], width: int) -> Table:
    """Step, transition, verdict, charge, duration and result: one row for each proposal and what came of it."""
    table = plain_table(f"{run.id}  ({run.workflow})")
    narrow = width < NARROW
    table.add_column("step", justify="right")
    table.add_column("transition, call, result" if narrow else "transition, call", ratio=5, overflow="fold")
    table.add_column("verdict", no_wrap=True)
    table.add_column("charge", no_wrap=True)
    table.add_column("duration", justify="right", no_wrap=True)
    if not narrow:
        table.add_column("result", ratio=5, overflow="fold")
    for row in _rows(run, records, payloads):
        what = Text(visible(row.transition), style="bold")
        if row.call:
            what.append("\n" if row.transition else "").append(visible(row.call), style="not bold dim")
        result = Text(visible("\n".join(row.results), keep="\n"))
        cells: list[Text | str] = [str(row.step), what, row.verdict, row.charge, seconds(row.duration_s)]
        if narrow:
            cells[1] = Text("\n").join(part for part in (what, result) if part)
        table.add_row(*cells, *(() if narrow else (result,)), style=row.style)
    return table


@dataclass(slots=True)
class Row:
    """A line of the table, while what came of its proposal is still being read."""

    step: int
    transition: str
    call: str
    verdict: str
    charge: str = ""
    duration_s: float | None = None
    results: list[str] = field(default_factory=list)
    style: str = ""


def _rows(run: Run, records: list[Record], payloads: dict[str, Any]) -> list[Row]:
    rows: list[Row] = []
    attempts: dict[str, Row] = {}
    for record in records:
        event = record.event
        attempt = getattr(event, "attempt", None)
        if isinstance(event, IntentRecorded):
            charge = "\n".join(counted(count, what[:-1]) for what, count in event.charge.model_dump().items() if count)
            waived = [
                f"not enforced: {_why(one.check, one.rule, one.reason)}" for one in event.checks if not one.passed
            ]
            style = "yellow" if waived else ""
            call = _call(event, payloads)
            row = Row(record.seq, event.transition or "", call, "allowed", charge, None, waived, style)
            if (undone := attempts.get(event.compensates or "")) is not None:
                row.results.append(f"to undo step {undone.step}")
            attempts[event.attempt] = row
            rows.append(row)
        elif attempt in attempts and not isinstance(event, Held | Replayed):
            _follow(attempts[attempt], event)
        elif (told := _told(record, payloads, attempts)) is not None:
            rows.append(told)
    for name, undoing in run.undo.items():
        if undoing.state == "undone" and (by := attempts.get(undoing.by or "")) is not None:
            attempts[name].results.append(f"UNDONE by step {by.step}")
    return rows


_ENDED = {
    "attempt.unsent": "NOT SENT",
    "attempt.unknown": "UNKNOWN",
    "attempt.abandoned": "ABANDONED",
    "attempt.refuted": "DID NOT HAPPEN",
}


def _follow(row: Row, event: Event) -> None:
    """What became of an attempt, in its own row."""
    match event:
        case ReceiptRecorded():
            row.duration_s = event.duration_s
            said = _said_by(event)
            late = ", late" if event.late and event.source == "upstream" else ""
            broken = ", breaks its schema" if event.schema_valid is False else ""
            row.results.append(f"{said}{late}{broken}" + (f", {event.size_bytes} bytes" if event.size_bytes else ""))
        case AttemptUnsent() | AttemptUnknown() | AttemptAbandoned() | AttemptRefuted():
            who = f" ({event.by.id})" if isinstance(event, AttemptRefuted) and event.by else ""
            row.results.append(f"{_ENDED[event.kind]}: {event.reason}{who}")
            row.style = "red" if isinstance(event, AttemptUnknown) else row.style
        case AttemptSuspended() | AttemptQueried() | AttemptResent() | AttemptResumed():
            row.results.append(_goes_on(event))
            row.style = "" if isinstance(event, AttemptResent) else row.style
        case EvidenceRecorded():
            row.results.append(f"{event.verdict.upper()}: {event.says} ({seconds(event.duration_s)})")
            row.style = "green" if event.verdict == "pass" else "yellow"
        case CompensationOwed():
            row.results.append("to be undone")
        case CompensationFailed():
            row.results.append(f"NOT UNDONE, a person must: {event.reason}")
            row.style = "red"
        case PhaseMoved():
            row.results.append(f"phase {event.source} → {event.target}")
        case _:
            pass


def _goes_on(event: AttemptSuspended | AttemptQueried | AttemptResent | AttemptResumed) -> str:
    match event:
        case AttemptSuspended():
            return f"waits for {event.awaits}"
        case AttemptQueried():
            return f"asked: {event.says}"
        case AttemptResent():
            return "sent again under its key"
        case AttemptResumed():
            return "goes on with the client's input"
        case _:
            assert_never(event)


def _said_by(receipt: ReceiptRecorded) -> str:
    match receipt.source:
        case "person":
            return f"{receipt.by.id if receipt.by else '?'}: {receipt.reason}"
        case "probe":
            return f"HAPPENED: {receipt.reason}"
        case "upstream":
            return "error" if receipt.is_error else "ok"
        case _:
            assert_never(receipt.source)


def _told(record: Record, payloads: dict[str, Any], attempts: dict[str, Row]) -> Row | None:
    """A row of its own for what is no attempt's."""
    event, step = record.event, record.seq
    match event:
        case RunOpened():
            goal = [event.goal] if event.goal else []
            return Row(step, "", "", "run opened", results=[f"{event.principal.id}, phase {event.phase}", *goal])
        case Denied():
            rule = event.transition or event.rule or ""
            other = f"{event.rule}: " if event.rule and event.rule != rule else ""
            told = [f"{other}{event.reason}"]
            return Row(step, rule, _call(event, payloads), str(event.outcome), results=told, style="yellow")
        case Held():
            why = [event.reason] if not event.approval else [f"{event.approval} is pending"]
            call = _call(event, payloads)
            return Row(step, event.transition or "", call, str(event.outcome), results=why, style="yellow")
        case ApprovalRequested():
            asked = [f"{event.approval}: {event.reason}"]
            return Row(step, event.rule, _call(event, payloads), "needs_approval", results=asked, style="magenta")
        case Replayed():
            first = attempts.get(event.attempt)
            told = [f"answered from the record of step {first.step}" if first else "answered from the record"]
            return Row(step, event.transition or "", _call(event, payloads), "replayed", results=told)
        case ApprovalDecided():
            reason = f": {event.reason}" if event.reason else ""
            told = [f"{event.approval} by {event.by.id}{reason}"]
            return Row(step, "", "", event.decision, results=told, style="magenta")
        case RunStopped():
            return Row(step, event.rule or "", "", f"STOP {event.outcome}", results=[event.reason], style="bold")
        case _:
            return None


def _why(check: str, rule: str | None, reason: str | None) -> str:
    named = f" ({rule})" if rule else ""
    return f"{check}{named}: {reason}" if reason else f"{check}{named}"


def _call(event: Denied | Held | IntentRecorded | ApprovalRequested | Replayed, payloads: dict[str, Any]) -> str:
    arguments = payloads.get(event.arguments)
    shown = json.dumps(arguments, ensure_ascii=False) if arguments is not None else GONE
    undoing = f" to undo {event.compensates}" if event.compensates and not isinstance(event, IntentRecorded) else ""
    return f"{event.tool} {cut(shown, 100)}{undoing}"


def _closing(run: Run) -> str:
    spent = f"{counted(run.spent.calls, 'call')}, {counted(run.spent.mutations, 'mutation')}"
    over = f"over: {run.stopped.outcome}" if run.stopped else f"going on in phase {run.phase}"
    unsettled = f"; unsettled: {', '.join(sorted(run.unsettled))} (`counterfoil resolve`)" if run.unsettled else ""
    owed = f"; to be undone: {', '.join(sorted(run.owed))}" if run.owed else ""
    failed = sorted(name for name, one in run.undo.items() if one.state == "failed")
    person = f"; a person must undo: {', '.join(failed)}" if failed else ""
    return f"{spent}; {over}{unsettled}{owed}{person}"


def _print_checks(records: list[Record]) -> None:
    for record in records:
        for finding in getattr(record.event, "checks", ()):
            mark = "pass" if finding.passed else "REFUSED"
            inputs = visible(json.dumps(finding.inputs, ensure_ascii=False, default=str))
            console.print(Text(f"  {record.seq:>4}  {finding.check:<14}{mark:<8} {inputs} {finding.reason or ''}"))
