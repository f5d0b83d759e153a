"""A yes in the terminal: the person is shown the whole of it, and asked; a script says that it was seen."""

import sys
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NoReturn, TypedDict

import typer

from gateway.cli.ledgers import Where, console, fail, reviewer, speaking, with_ledger
from gateway.cli.packets import addressed, print_one
from gateway.inbound.told.reach import TOO_LONG, is_beyond_one, reach_asked
from gateway.kernel.reduce import CorruptLedger
from gateway.model.asked import MAX_S
from gateway.model.packet import Packet
from gateway.model.review import Reviewer
from gateway.ports import Ledger
from gateway.runtime.desk import Desk


class Reach(TypedDict):
    """How far a yes is said to go."""

    times: int | None
    for_s: float | None


ONCE: Reach = {"times": 1, "for_s": None}
NOTHING: Mapping[str, Packet] = MappingProxyType({})


def confirmed(
    names: Sequence[str], where: Where, reach: Reach, *, yes: bool, action: str | None
) -> tuple[Mapping[str, Packet], int]:
    """The questions that are agreed to, each as it was shown, and how many of them are not."""
    asks = not yes and action is None
    _check(names, reach, where, asks=asks, action=action)

    async def work(ledger: Ledger) -> list[Packet | str]:
        async with speaking(ledger) as written:
            desk, by = Desk(written), reviewer()
            return [await _shown(desk, by, name, looks=_at_terminal()) for name in names]

    agreed: dict[str, Packet] = {}
    for name, one in zip(names, with_ledger(where, work), strict=True):
        trouble = (
            one if isinstance(one, str) else _disagreed(name, addressed(one, where), reach, asks=asks, action=action)
        )
        if trouble is not None:
            print(f"counterfoil: {trouble}", file=sys.stderr)
        elif isinstance(one, Packet):
            agreed[name] = one
    return agreed, len(names) - len(agreed)


def _check(names: Sequence[str], reach: Reach, where: Where, *, asks: bool, action: str | None) -> None:
    if reach["for_s"] is not None and reach["for_s"] > MAX_S:
        fail(f"{TOO_LONG}: `--for 30m`", code=2)
    if action is not None and len(names) > 1:
        fail("`--action` is about one question: name one", code=2)
    if asks and not _at_terminal():
        _nobody_to_ask(names[0], where)


def _nobody_to_ask(name: str, where: Where) -> NoReturn:
    seen = f"look with `counterfoil approvals show {name}{where.option}`"
    fail(f"nobody can be asked here: {seen}, and say `--yes`, or `--action` with its digest", code=2)


def _at_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


async def _shown(desk: Desk, by: Reviewer, name: str, *, looks: bool) -> Packet | str:
    try:
        one = await question(desk, by, name)
    except CorruptLedger as error:
        return f"the ledger is corrupt: {error}"
    if looks and isinstance(one, Packet):
        await desk.looked(name, by)  # what a script approves, nobody has looked at
    return one


async def question(desk: Desk, by: Reviewer, name: str) -> Packet | str:
    """The packet of that question, or that there is none.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    one = await desk.packet(name, by)
    if one is None or one.about != "approval" or one.action is None:
        return f"no approval `{name}` is in this ledger; `counterfoil approvals list --all` names them"
    return one


def _disagreed(name: str, one: Packet, reach: Reach, *, asks: bool, action: str | None) -> str | None:
    """Why it is not to be approved; None where it is. What waits no more is left for the desk to refuse."""
    if action is not None and action != one.action:
        return f"`{name}` is about another action than `{action[:80]}`: look at it again with `approvals show`"
    if one.state != "awaiting":
        return None
    print_one(one, as_markdown=False, plain=False)
    wide = is_beyond_one(reach["times"], reach["for_s"])
    if wide:
        console.print("How far the yes goes:")
        for label, value in reach_asked(one, reach["times"], reach["for_s"]):
            console.print(f"  {label}: {value}")
    asked = "Approve it, and others as far as that?" if wide else "Approve this exact action, once?"
    if asks and not typer.confirm(asked, default=False):
        return f"nothing was recorded about `{name}`"
    return None
