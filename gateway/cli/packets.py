"""A packet as a person reads it: in the terminal, as Markdown for a ticket, as JSON."""

import json
import re
from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, fail, with_ledger
from gateway.cli.plain import visible
from gateway.inbound.told.facts import UNPROVEN, arguments, believed, facts
from gateway.inbound.told.markdown import escaped
from gateway.kernel.reduce import CorruptLedger
from gateway.model.packet import Packet
from gateway.ports import Ledger
from gateway.runtime.packets import Packets


def packet(
    name: Annotated[str, typer.Argument(metavar="RUN|ATTEMPT|APPROVAL", help="What a person is asked about.")],
    ledger: LedgerOption = None,
    config: FileOption = None,
    json_: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
    markdown_: Annotated[bool, typer.Option("--markdown", help="For a ticket.")] = False,
) -> None:
    """All that a person needs to decide, without the transcript, and the commands that answer."""
    where = Where(ledger, config)
    one = with_ledger(where, lambda opened: found(opened, name))
    if one is None:
        fail(f"no run, attempt or approval `{name}` is in this ledger; `counterfoil runs` lists the runs")
    print_one(addressed(one, where), as_markdown=markdown_, plain=json_)


async def found(ledger: Ledger, name: str) -> Packet | None:
    """The packet of that name."""
    try:
        return await Packets(await book(ledger)).of(name)
    except CorruptLedger as error:
        fail(f"the ledger is corrupt: {error}", code=2)


def addressed(one: Packet, where: Where) -> Packet:
    """The packet, its commands as they find this very ledger from wherever they are typed."""
    options = tuple(option.model_copy(update={"command": option.command + where.option}) for option in one.options)
    return one.model_copy(update={"options": options})


def print_one(one: Packet, *, as_markdown: bool, plain: bool) -> None:
    """The packet on standard output."""
    if plain:
        typer.echo(json.dumps(as_json(one)))  # ASCII: nothing in it can act on a terminal
    elif as_markdown:
        typer.echo(markdown(one), nl=False)
    else:
        console.print(_for_a_terminal(one))


def as_json(one: Packet) -> dict[str, Any]:
    """Plain JSON values."""
    return one.model_dump(mode="json")


def _for_a_terminal(one: Packet) -> Text:
    lines = Text()
    for label, value in facts(one):
        lines.append(f"{label:<13}", style="dim").append(value + "\n")
    if said := list(believed(one)):
        lines.append(f"\n{UNPROVEN}:\n", style="dim")
        for label, value in said:
            lines.append(f"{label:<19}", style="dim").append(value + "\n", style="italic")
    if one.tool is not None:
        lines.append("arguments\n", style="dim").append(arguments(one) + "\n")
    lines.append("\n" + visible(one.question), style="bold")
    for option in one.options:
        lines.append(f"\n  {option.command}\n      {option.follows}")
    return lines


_TITLES = {"attempt": "Did {} happen?", "approval": "May {} be called?", "run": "What becomes of {}?"}


def markdown(one: Packet) -> str:
    """For a ticket."""
    over = one.about == "attempt" and not (one.options or one.goes_on or one.person)
    title = ("The call of {}" if over else _TITLES[one.about]).format(escaped(visible(one.tool or one.run)))
    lines = [f"# {title}", "", escaped(visible(one.question)), ""]
    lines += [f"- `{option.command}`: {escaped(option.follows)}" for option in one.options]
    lines += [""] if one.options else []
    lines += [f"- **{label}**: {escaped(value)}" for label, value in facts(one)]
    if one.tool is not None:
        longest = max(map(len, re.findall("`+", arguments(one))), default=0)
        fence = "`" * max(3, longest + 1)
        lines += ["", f"{fence}json", arguments(one), fence]
    if said := list(believed(one)):
        lines += ["", f"**{UNPROVEN}:**", "", *(f"- **{label}**: {escaped(value)}" for label, value in said)]
    return "\n".join([*lines, ""])
