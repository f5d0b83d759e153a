"""`counterfoil approvals`: the person's side. A decision is bound to the digest of one exact action."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.panel import Panel
from rich.text import Text

from gateway.cli.ledgers import LedgerOption, book, console, fail, reviewer, with_ledger
from gateway.cli.packets import found, print_one
from gateway.cli.plain import GONE, ago, cut, plain_table, visible
from gateway.kernel.approve import answer, pending
from gateway.kernel.packet import standing
from gateway.kernel.reduce import CorruptLedger
from gateway.model.events import ApprovalRequested
from gateway.model.record import Record, utc
from gateway.model.review import Answer, Refused
from gateway.model.run import Run
from gateway.ports import Ledger, UnreadableRecord
from gateway.runtime.book import Book
from gateway.runtime.explain import stored_in

app = typer.Typer(no_args_is_help=True, help="See and decide what waits for a person.")

ID = Annotated[str, typer.Argument(metavar="APPROVAL", help="As the agent or `approvals list` names it.")]
REASON = Annotated[str, typer.Option("--reason", "-m", help="Kept with the decision, and told to the agent.")]
ROLE = Annotated[
    list[str] | None, typer.Option("--role", help="A role in which you decide, where policy asks for one.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Plain JSON.")]


@app.command("list")
def list_(
    ledger: LedgerOption = None,
    as_json: AS_JSON = False,
    everything: Annotated[bool, typer.Option("--all", help="Decided and expired ones too.")] = False,
) -> None:
    """What waits for a person, oldest first."""
    rows = with_ledger(ledger, lambda opened: _rows(opened, everything=everything))
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        console.print("Nothing waits for a person.")
        return
    table = plain_table()
    table.add_column("approval", no_wrap=True)
    table.add_column("asked", no_wrap=True)
    table.add_column("tool, arguments", ratio=1, overflow="fold")
    table.add_column("state", overflow="fold")
    for row in rows:
        what = Text(visible(row["tool"]), style="bold")
        what.append("\n" + cut(_arguments(row), 160), style="not bold")
        table.add_row(
            f"{row['approval']}\n{visible(row['principal'])}",
            ago(datetime.fromisoformat(row["asked"]), datetime.now(UTC)),
            what,
            row["state"],
        )
    console.print(table)
    console.print("Decide with `counterfoil approvals approve ID` or `reject ID`; `show ID` has every detail.")


@app.command()
def show(approval: ID, ledger: LedgerOption = None, as_json: AS_JSON = False) -> None:
    """The whole action that is asked about, as `packet` shows it."""
    one = with_ledger(ledger, lambda opened: found(opened, approval))
    if one is None or one.about != "approval":
        fail(f"no approval `{approval}` is in this ledger; `counterfoil approvals list --all` names them")
    print_one(one, as_markdown=False, plain=as_json)


@app.command()
def approve(approval: ID, ledger: LedgerOption = None, reason: REASON = "", role: ROLE = None) -> None:
    """Allow this exact action once. It runs nothing: the agent has to ask again."""
    _decide(approval, ledger, reason, role or (), agree=True)


@app.command()
def reject(approval: ID, ledger: LedgerOption = None, reason: REASON = "", role: ROLE = None) -> None:
    """Refuse this action in its run."""
    _decide(approval, ledger, reason, role or (), agree=False)


def _decide(approval: str, url: str | None, reason: str, roles: Sequence[str], *, agree: bool) -> None:
    async def work(ledger: Ledger) -> dict[str, Any] | str:
        found = await _find(ledger, approval)
        if found is None:
            return f"no approval `{approval}` is in this ledger; `counterfoil approvals list --all` names them"
        row, run = found
        written: Book = await book(ledger)
        seen = run.approvals[approval].action
        try:
            said = Answer(approval, seen, "approved" if agree else "rejected", reason)
            await written.say(run.id, lambda state, _rules, now: [answer(state, said, reviewer(roles), now)])
        except Refused as error:
            return str(error)
        return row

    done = with_ledger(url, work)
    if isinstance(done, str):
        fail(done)
    _print(done)
    if agree:
        if done["undoes"]:
            console.print(f"Approved, once. A gateway makes this call itself, to undo {done['undoes']}.")
            return
        console.print(
            "Approved, for this exact action, once. The agent gets it by repeating the call unchanged in the same run;"
        )
        console.print("a window that was closed meanwhile has another run, and asks anew.")
    elif done["undoes"]:
        console.print(f"Rejected. {done['undoes']} is not undone by itself: somebody must do it.")
    else:
        console.print("Rejected. The agent is told so when it repeats the call.")


def _print(row: dict[str, Any]) -> None:
    lines = Text()
    undoing = ("undoes",) if row["undoes"] else ()
    for name in (
        "run",
        "principal",
        "tool",
        *undoing,
        "transition",
        "reason",
        "asked",
        "expires_at",
        "state",
        "action",
    ):
        lines.append(f"{name:<11}", style="dim").append(visible(str(row[name])) + "\n")
    lines.append("arguments\n", style="dim").append(_arguments(row, indent=2))
    console.print(Panel(lines, title=row["approval"], expand=False))


def _arguments(row: dict[str, Any], indent: int | None = None) -> str:
    if row["arguments"] is None:
        return GONE
    return visible(json.dumps(row["arguments"], ensure_ascii=False, indent=indent), keep="\n" if indent else "")


async def _rows(ledger: Ledger, *, everything: bool) -> list[dict[str, Any]]:
    """One damaged run hides no other."""
    written, rows = await book(ledger), []
    for record in reversed(await ledger.find(["approval.requested"], limit=10_000)):
        event = record.event
        if not isinstance(event, ApprovalRequested):
            continue
        try:
            run = await written.state_of(record.run)
        except (CorruptLedger, UnreadableRecord):
            rows.append(await _row(ledger, written, None, record, event))
            continue
        if everything or (pending(run.approvals[event.approval], utc(written.clock.now())) and run.stopped is None):
            rows.append(await _row(ledger, written, run, record, event))
    return rows


async def _find(ledger: Ledger, approval_id: str) -> tuple[dict[str, Any], Run] | None:
    written = await book(ledger)
    for record in await ledger.find(["approval.requested"], limit=10_000):
        if isinstance(record.event, ApprovalRequested) and record.event.approval == approval_id:
            run = await written.state_of(record.run)
            return await _row(ledger, written, run, record, record.event), run
    return None


async def _row(
    ledger: Ledger, written: Book, run: Run | None, record: Record, event: ApprovalRequested
) -> dict[str, Any]:
    """What is known of the approval; its run is None if it cannot be read."""
    approval = None if run is None else run.approvals[event.approval]
    return {
        "approval": event.approval,
        "state": _UNREADABLE if run is None or approval is None else standing(run, approval, utc(written.clock.now())),
        "asked": record.at.isoformat(timespec="seconds"),
        "expires_at": event.expires_at.isoformat(timespec="seconds"),
        "run": record.run,
        "principal": run.principal.id if run is not None and run.principal is not None else "",
        "tool": event.tool,
        "transition": event.rule,
        "reason": event.reason,
        "action": event.action,
        "arguments": await stored_in(ledger, event.arguments),
        "undoes": event.compensates,
        "by": None if approval is None else approval.by,
        "said": "" if approval is None else approval.reason,
    }


_UNREADABLE = "cannot be read: `counterfoil verify` says why"
