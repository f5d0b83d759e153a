"""`counterfoil reviews`: how long people take, what they answer, and whether they are asked too much."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Literal

import typer
from rich.table import Table

from gateway.cli.durations import duration
from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, console, reviewer, with_ledger
from gateway.cli.plain import plain_table, spell, visible
from gateway.model.figures import Figures, Group, Load, Reviews, Spread
from gateway.model.record import utc
from gateway.ports import Ledger
from gateway.runtime.reviews import reviews_of

By = Literal["reviewer", "tool", "transition", "risk"]


def reviews(
    ledger: LedgerOption = None,
    config: FileOption = None,
    since: Annotated[
        float, typer.Option("--since", parser=duration, metavar="DURATION", help="Asked within so long: `7d`, `12h`.")
    ] = "7d",  # type: ignore[assignment] # typer parses the default as it parses what is typed
    by: Annotated[By | None, typer.Option("--by", help="One row for each of these.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON, with every grouping.")] = False,
) -> None:
    """How people answered: times to the first look and to the answer, rates, quick yeses, load."""

    async def work(opened: Ledger) -> Reviews:
        written = await book(opened)
        then = utc(written.clock.now()) - timedelta(seconds=since)
        return await reviews_of(written, since=then, by=reviewer())

    told = with_ledger(Where(ledger, config), work)
    if as_json:
        typer.echo(told.model_dump_json())
        return
    if not told.all.asked:
        console.print("Nobody was asked anything in that time.")
        return
    console.print(f"Asked since {told.since}:")
    console.print(_table(told, by))
    for line in _remarks(told):
        console.print(line)


def _table(told: Reviews, by: By | None) -> Table:
    if by is None:
        return _of_groups("all", [Group(name="all", figures=told.all)])
    if by == "reviewer":
        return _of_reviewers(told.reviewers)
    groups = {"tool": told.tools, "transition": told.transitions, "risk": told.risks}[by]
    return _of_groups(by, groups)


ROWS = ("approved", "rejected", "returned", "revoked", "expired", "superseded", "withdrawn", "void")


def _of_groups(title: str, groups: Sequence[Group]) -> Table:
    """A column for each figure would not fit: a column for each group does, while they are few; else a row."""
    table = plain_table()
    table.add_column(title, overflow="fold")
    for name in ("asked", "answers", "first look", "active", "waited"):
        table.add_column(name, overflow="fold")
    for one in groups:
        told = one.figures
        waits = f"\n{told.awaiting} waiting" if told.awaiting else ""
        table.add_row(
            visible(one.name) or "-",
            f"{told.asked}{waits}",
            _answers(told),
            _spread(told.first_look),
            _spread(told.active),
            _spread(told.waited),
        )
    return table


def _answers(told: Figures) -> str:
    lines = [f"{getattr(told, name)} {name}{_share(told, name)}" for name in ROWS if getattr(told, name)]
    more = (("used", "used"), ("failed_revalidation", "approved, and not valid when it came"))
    lines += [f"{getattr(told, name)} {says}{_share(told, name)}" for name, says in more if getattr(told, name)]
    lines += [f"{_yeses(told.quick, 'quick ')}{_share(told, 'quick')}"] if told.quick else []
    return "\n".join(lines)


def _share(told: Figures, name: str) -> str:
    return f" ({told.rates[name]:.0%})" if name in told.rates else ""


def _of_reviewers(loads: Sequence[Load]) -> Table:
    table = plain_table()
    for name in ("reviewer", "decisions", "answers", "active", "waited"):
        table.add_column(name, overflow="fold")
    for one in loads:
        answers = [
            f"{getattr(one, name)} {name}" for name in ("approved", "rejected", "returned") if getattr(one, name)
        ]
        answers += [_yeses(one.quick, "quick ")] if one.quick else []
        table.add_row(
            f"{visible(one.reviewer)}\n{visible(one.tenant)}",
            f"{one.decisions}, {one.busiest_hour} in the busiest hour\n{one.looked_at} looked at",
            "\n".join(answers),
            _spread(one.active),
            _spread(one.waited),
        )
    return table


def _spread(told: Spread) -> str:
    if told.median_s is None or told.p90_s is None or told.max_s is None:
        return "-"
    return f"median {spell(told.median_s)}\np90 {spell(told.p90_s)}\nmax {spell(told.max_s)}"


def _yeses(number: int, how: str = "") -> str:
    return f"{number} {how}yes" if number == 1 else f"{number} {how}yeses"


TIRED = 0.2
"""A share of quick yeses that says something: one in five,"""
ENOUGH = 10
"""of so many."""


def _remarks(told: Reviews) -> Sequence[str]:
    lines = []
    if told.all.timed >= ENOUGH and told.all.quick > TIRED * told.all.timed:
        quick = _yeses(told.all.quick)
        lines.append(f"{quick} took less than 3 s: people may be asked more than they can look at.")
    if told.partial:
        lines.append("The ledger holds more than was looked through: the oldest questions are missing.")
    return lines
