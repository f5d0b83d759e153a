"""`counterfoil resolve`: a person's word on an attempt whose outcome nobody knows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from gateway.cli.ledgers import LedgerOption, book, console, fail, reviewer, with_ledger
from gateway.cli.plain import GONE, visible
from gateway.kernel.approve import resolve as judged
from gateway.kernel.rules import Rules
from gateway.model.canonical import canonical
from gateway.model.events import Event
from gateway.model.review import Refused
from gateway.model.run import Run
from gateway.ports import Ledger
from gateway.runtime.explain import stored_in


def resolve(
    attempt: Annotated[str, typer.Argument(metavar="ATTEMPT", help="As the agent, `runs` or `show` names it.")],
    happened: Annotated[
        bool | None, typer.Option("--happened/--did-not-happen", help="What you found when you looked.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", "-m", help="How you know. Kept for ever.")] = "",
    ledger: LedgerOption = None,
) -> None:
    """Settle an attempt that is held as unknown, after you have looked at the real system."""
    if happened is None:
        fail("say which it is: `--happened` or `--did-not-happen`", code=2)
    if not reason:
        fail("say how you know, with `--reason`; somebody will ask in three weeks", code=2)
    found = happened

    async def work(opened: Ledger) -> str | None:
        def step(run: Run, _rules: Rules, now: datetime) -> Sequence[Event]:
            return judged(
                run, attempt, what="happened" if found else "did_not_happen", by=reviewer().who, reason=reason, now=now
            )

        run_id = attempt.rpartition(".")[0]
        if not run_id or not await opened.read(run_id):
            return f"no attempt `{attempt}` is in this ledger; `counterfoil runs` shows which runs have unsettled ones"
        try:
            run = await (await book(opened)).say(run_id, step)
        except Refused as error:
            return str(error)
        intent = run.attempts[attempt].intent
        arguments = await stored_in(opened, intent.arguments)
        shown = GONE if arguments is None else visible(canonical(arguments).decode())
        console.print(Text(f"{visible(intent.tool)} {shown}"))
        return None

    if (trouble := with_ledger(ledger, work)) is not None:
        fail(trouble)
    console.print(
        "Recorded as happened; an equal call is answered from that."
        if found
        else "Recorded as not happened: its charge is given back, and the call may be made again."
    )
