"""`counterfoil resolve`: a person's word on an attempt whose outcome nobody knows."""

from typing import Annotated

import typer
from rich.text import Text

from gateway.cli.ledgers import FileOption, LedgerOption, Where, console, fail, reviewer, speaking, with_ledger
from gateway.cli.plain import GONE, visible
from gateway.kernel.reduce import CorruptLedger
from gateway.model.canonical import canonical
from gateway.model.packet import Packet
from gateway.model.review import Refused, Settlement
from gateway.ports import Ledger
from gateway.runtime.desk import Desk

SAYS: dict[Settlement, str] = {
    "happened": "Recorded as happened; an equal call is answered from that.",
    "did_not_happen": "Recorded as not happened: its charge is given back, and the call may be made again.",
    "retry": "Recorded as not happened, and as still wanted: its charge is given back, and it may be made again.",
    "compensate": "Recorded as happened, and as to be undone: a gateway undoes it as policy says.",
    "stop_run": "Its run is stopped for good; the attempt stays unknown, and equal calls stay held.",
}


def resolve(
    attempt: Annotated[str, typer.Argument(metavar="ATTEMPT", help="As the agent, `runs` or `show` names it.")],
    happened: Annotated[bool, typer.Option("--happened", help="You looked, and it is there.")] = False,
    did_not_happen: Annotated[bool, typer.Option("--did-not-happen", help="You looked, and it is not there.")] = False,
    retry: Annotated[bool, typer.Option("--retry", help="It is not there, and you want it made.")] = False,
    compensate: Annotated[bool, typer.Option("--compensate", help="It happened, and is to be undone.")] = False,
    stop_run: Annotated[bool, typer.Option("--stop-run", help="Nobody can know: its run is to end.")] = False,
    reason: Annotated[str, typer.Option("--reason", "-m", help="How you know. Kept for ever.")] = "",
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """Settle an attempt that is held as unknown, after you have looked at the real system."""
    said: dict[Settlement, bool] = {
        "happened": happened,
        "did_not_happen": did_not_happen,
        "retry": retry,
        "compensate": compensate,
        "stop_run": stop_run,
    }
    answers = [what for what, it_is in said.items() if it_is]
    if len(answers) != 1:
        options = [f"`--{name.replace('_', '-')}`" for name in said]
        fail(f"say which one it is: {', '.join(options[:-1])} or {options[-1]}", code=2)
    if not reason.strip():
        fail("say how you know, with `--reason`; somebody will ask in three weeks", code=2)
    told = with_ledger(Where(ledger, config), lambda opened: _settle(opened, attempt, answers[0], reason))
    if isinstance(told, str):
        fail(told)
    shown = GONE if told.arguments is None else visible(canonical(told.arguments).decode())
    console.print(Text(f"{visible(told.tool or '')} {shown}"))
    console.print(SAYS[answers[0]])


NO_ATTEMPT = "no attempt `{}` is in this ledger; `counterfoil runs` shows which runs have unsettled ones"


async def _settle(ledger: Ledger, attempt: str, what: Settlement, reason: str) -> Packet | str:
    try:
        async with speaking(ledger) as written:
            desk, by = Desk(written), reviewer()
            one = await desk.packet(attempt, by)
            if one is None or one.about != "attempt":
                return (
                    f"no attempt `{attempt}` is in this ledger; `counterfoil runs` shows which runs have unsettled ones"
                )
            await desk.settle(attempt, what, by, reason)
    except Refused as refused:
        return refused.reason
    except CorruptLedger as error:
        return f"the ledger is corrupt: {error}"
    return one
