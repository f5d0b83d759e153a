"""`counterfoil approvals`: the person's side. A decision is bound to the digest of one exact action."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer
from rich.panel import Panel
from rich.text import Text

from gateway.cli.confirming import NOTHING, ONCE, Reach, confirmed, question
from gateway.cli.durations import duration
from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, reviewer, speaking, with_ledger
from gateway.cli.packets import addressed, found, print_one
from gateway.cli.plain import counted, visible
from gateway.cli.waiting import arguments, every_row, rows_of, table_of
from gateway.cli.watch import watch
from gateway.inbound.told.reach import reach_granted
from gateway.kernel.reduce import CorruptLedger
from gateway.model.packet import Packet
from gateway.model.review import Answer, Refused, Reviewer
from gateway.ports import Ledger
from gateway.runtime.desk import Decided, Desk

app = typer.Typer(no_args_is_help=True, help="See and decide what waits for a person.")

ID = Annotated[str, typer.Argument(metavar="APPROVAL", help="As the agent or `approvals list` names it.")]
IDS = Annotated[list[str], typer.Argument(metavar="APPROVAL", help="As the agent or `approvals list` names them.")]
REASON = Annotated[str, typer.Option("--reason", "-m", help="Kept with the decision, and told to the agent.")]
WANTED = Annotated[str, typer.Option("--reason", "-m", help="Which evidence is wanted. Told to the agent.")]
ROLE = Annotated[
    list[str] | None, typer.Option("--role", help="A role in which you decide, where policy asks for one.")
]
AS_JSON = Annotated[bool, typer.Option("--json", help="Plain JSON.")]
_OPTIONS = {"role": ": `--role` says in which one you decide", "reason": ": `--reason`"}
"""By the check that refused: by which option what it wants is said."""
LIMIT = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="How many at most.")]


@app.command("list")
def list_(
    ledger: LedgerOption = None,
    config: FileOption = None,
    as_json: AS_JSON = False,
    limit: LIMIT = 100,
    everything: Annotated[bool, typer.Option("--all", help="Decided and expired questions too, oldest first.")] = False,
) -> None:
    """What waits for a person, by consequence and then by age; what may be answered together, as one."""

    async def work(opened: Ledger) -> tuple[list[dict[str, Any]], int]:
        written = await book(opened)
        if everything:
            rows = await every_row(written)
            return rows, len(rows)
        page = await Desk(written).inbox(reviewer(), limit=limit)
        return await rows_of(written, page), page.total

    where = Where(ledger, config)
    rows, total = with_ledger(where, work)
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False))
        return
    if not rows:
        console.print("Nothing waits for a person.")
        return
    console.print(table_of(rows))
    if total > len(rows):
        console.print(f"{total - len(rows)} more wait; `--limit {total}` shows all.")
    at = f" Add `{where.option.strip()}` to each." if where.option else ""
    decide = "Decide with `counterfoil approvals approve ID…` or `reject ID…`; `show ID` has every detail."
    console.print(decide + at, soft_wrap=True)


@app.command()
def show(approval: ID, ledger: LedgerOption = None, config: FileOption = None, as_json: AS_JSON = False) -> None:
    """The whole action that is asked about, as `packet` shows it."""

    async def work(opened: Ledger) -> Packet | None:
        one = await found(opened, approval)
        if one is not None and one.about == "approval" and sys.stdout.isatty():
            async with speaking(opened) as written:  # what a script reads, nobody has looked at
                await Desk(written).looked(approval, reviewer())
        return one

    where = Where(ledger, config)
    one = with_ledger(where, work)
    if one is None or one.about != "approval":
        fail(f"no approval `{approval}` is in this ledger; `counterfoil approvals list --all` names them")
    print_one(addressed(one, where), as_markdown=False, plain=as_json)


@app.command()
def approve(
    approvals: IDS,
    ledger: LedgerOption = None,
    config: FileOption = None,
    reason: REASON = "",
    role: ROLE = None,
    times: Annotated[
        int | None, typer.Option("--times", min=1, max=10_000, help="For so many calls, where policy offers it.")
    ] = None,
    for_s: Annotated[
        float | None,
        typer.Option("--for", parser=duration, metavar="DURATION", help="For so long (`30m`), where policy offers it."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Without asking: you have seen what `show` tells.")] = False,
    action: Annotated[
        str | None, typer.Option("--action", metavar="DIGEST", help="Without asking, and only what has this digest.")
    ] = None,
) -> None:
    """Allow this exact action once, or as far as you say and policy offers. It runs nothing: the agent asks again.

    You are shown the whole of it, and asked. Where nobody can be asked, say `--yes`, or `--action` with its digest.
    """
    # Without a word on how often, a yes for some time is for as many calls as policy offers.
    reach: Reach = {"times": 1 if times is None and for_s is None else times, "for_s": for_s}
    names = tuple(dict.fromkeys(approvals))
    where = Where(ledger, config)
    agreed, failed = confirmed(names, where, reach, yes=yes, action=action)
    _decide([name for name in names if name in agreed], where, "approved", reason, role or (), reach, agreed, failed)


@app.command()
def reject(
    approvals: IDS, ledger: LedgerOption = None, config: FileOption = None, reason: REASON = "", role: ROLE = None
) -> None:
    """Refuse this action in its run."""
    _decide(approvals, Where(ledger, config), "rejected", reason, role or ())


@app.command("return")
def return_(
    approvals: IDS, wanted: WANTED, ledger: LedgerOption = None, config: FileOption = None, role: ROLE = None
) -> None:
    """Ask for more evidence before you decide: the agent is told which, and may ask anew with it."""
    _decide(approvals, Where(ledger, config), "returned", wanted, role or ())


@app.command()
def revoke(
    approvals: IDS, ledger: LedgerOption = None, config: FileOption = None, reason: REASON = "", role: ROLE = None
) -> None:
    """Take a yes back by which calls may still be made: yours, or that of somebody else in your role."""
    _decide(approvals, Where(ledger, config), "revoked", reason, role or ())


app.command()(watch)


def _decide(
    names: Sequence[str],
    where: Where,
    decision: Literal["approved", "rejected", "returned", "revoked"],
    reason: str,
    roles: Sequence[str],
    reach: Reach = ONCE,
    shown: Mapping[str, Packet] = NOTHING,
    failed: int = 0,
) -> None:
    """Each stands for itself; one that cannot be taken fails the command once all were said.

    What was `shown` is decided as it was then. So many more have `failed` before.
    """
    total = len(set(names)) + failed

    async def work(ledger: Ledger) -> list[tuple[Packet, Decided] | str]:
        async with speaking(ledger) as written:
            desk, by = Desk(written), reviewer(roles)
            return [
                await _decided(desk, by, shown.get(name), name, Answer(name, "", decision, reason, **reach))
                for name in dict.fromkeys(names)
            ]

    for came in with_ledger(where, work) if names else ():
        if isinstance(came, str):
            print(f"counterfoil: {came}", file=sys.stderr)
            failed += 1
        elif came[0].approval in shown:
            _print_briefly(*came)
        else:
            _print(*came)
    if failed:
        if total > 1:
            print(f"counterfoil: {counted(failed, 'question')} of {total} not decided", file=sys.stderr)
        raise typer.Exit(1)


async def _decided(
    desk: Desk, by: Reviewer, shown: Packet | None, name: str, said: Answer
) -> tuple[Packet, Decided] | str:
    try:
        one = shown or await question(desk, by, name)
        if isinstance(one, str):
            return one
        return one, await desk.decide(replace(said, action=one.action or ""), by)
    except Refused as refused:
        # The kernel's words are for every door; here it can be said by which option.
        return refused.reason + _OPTIONS.get(refused.check, "")
    except CorruptLedger as error:
        return f"the ledger is corrupt: {error}"


def _print_briefly(one: Packet, done: Decided) -> None:
    """What was shown already is not shown again."""
    first, *more = _follows(one, done)
    console.print(f"{done.approval.id}: {first}", *more, sep="\n")


def _print(one: Packet, done: Decided) -> None:
    lines = Text()
    about = {
        "run": one.run,
        "asked by": one.principal,
        "tool": one.tool or "",
        "undoes": one.undoes or "",
        "transition": one.transition or "",
        "reason": one.reason,
        "asked": one.sent_at or "",
        "expires_at": one.expires_at or "",
        "state": done.approval.decision or f"awaiting, {len(done.approval.agreed)} of {done.approval.needed}",
        "action": one.action or "",
    }
    for name, value in about.items():
        if value:
            lines.append(f"{name:<11}", style="dim").append(visible(value) + "\n")
    lines.append("arguments\n", style="dim").append(arguments({"arguments": one.arguments}, indent=2))
    console.print(Panel(lines, title=done.approval.id, expand=False))
    for line in _follows(one, done):
        console.print(line)


def _follows(one: Packet, done: Decided) -> Sequence[str]:
    """What becomes of it now."""
    if not done.complete:
        left = done.approval.needed - len(done.approval.agreed)
        return (f"Recorded. It waits for {left} more {'person' if left == 1 else 'people'}.",)
    match done.approval.decision:
        case "approved" if one.undoes:
            return (f"Approved, once. A gateway makes this call itself, to undo {one.undoes}.",)
        case "approved" if done.approval.granted is not None:
            granted = done.approval.granted
            calls = "calls" if granted.times is None else counted(granted.times, "call")
            far = reach_granted(one.model_copy(update={"granted": granted}), done.approval.until)
            told = (f"  {label}: {value}" for label, value in far if label in {"may differ", "only if"})
            return (f"Approved, for {calls} until {done.approval.until.isoformat(timespec='seconds')}.", *told)
        case "approved":
            return (
                "Approved, for this exact action, once. The agent gets it by repeating the call unchanged in its run;",
                "a window that was closed meanwhile has another run, and asks anew.",
            )
        case "revoked":
            return (f"Taken back; {counted(len(done.approval.uses), 'call')} had been made by it.",)
        case "rejected" if one.undoes:
            return (f"Rejected. {one.undoes} is not undone by itself: somebody must do it.",)
        case "rejected":
            return ("Rejected. The agent is told so when it repeats the call.",)
        case _:
            return ("Returned. The agent is told which evidence is wanted when it repeats the call.",)
