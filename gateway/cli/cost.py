"""`counterfoil cost`: what runs cost, each figure with its grade, and what was put before a model."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated

import typer
from rich.table import Table

from gateway.cli.durations import moment
from gateway.cli.ledgers import FileOption, LedgerOption, Where, console, fail, with_ledger
from gateway.cli.plain import amount, counted, plain_table, size, spell, visible
from gateway.cli.runs import named
from gateway.kernel.reduce import CorruptLedger
from gateway.model.costs import By, Context, Costs, Figures, Tokens
from gateway.outbound.tokens import NoTokenizer, counter
from gateway.ports import Ledger
from gateway.runtime.costs import NoSuchCost, Tokenizer, Wanted, costs_of

WIDE = 110
"""Columns from which all that is measured has a column of its own."""
USUAL = "30d"


def cost(
    run: Annotated[str | None, typer.Argument(metavar="RUN", help="A run's id, or `last`; else all runs.")] = None,
    ledger: LedgerOption = None,
    config: FileOption = None,
    since: Annotated[
        datetime | None,
        typer.Option(
            "--since", parser=moment, metavar="TIME", help="`7d`, `12h`, or `2026-11-01`; of all runs, 30 days."
        ),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option("--until", parser=moment, metavar="TIME", help="Before then; the same forms.")
    ] = None,
    workflow: Annotated[str | None, typer.Option("--workflow", help="Of this workflow alone.")] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Of this tenant alone.")] = None,
    by: Annotated[By | None, typer.Option("--by", help="One row for each of these.")] = None,
    context: Annotated[
        bool, typer.Option("--context", help="What was put before the model, by tool and by result, and what again.")
    ] = False,
    count: Annotated[
        bool, typer.Option("--count", help="Count the tokens of results with a tokenizer (extra `tokens`).")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many rows, the dearest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON, with every grouping.")] = False,
) -> None:
    """What runs cost: calls, bytes and time as measured, cost as priced, tokens as reported and as estimated."""
    if run is None and since is None:
        since = moment(USUAL)

    async def work(opened: Ledger) -> Costs:
        wanted = Wanted(None if run is None else await named(opened, run), since, until, workflow, tenant)
        return await costs_of(opened, wanted, tokenizer)

    tokenizer = _tokenizer() if count else None
    try:
        told = with_ledger(Where(ledger, config), work)
    except NoSuchCost as error:
        fail(str(error))
    except CorruptLedger as error:
        fail(f"the ledger is corrupt: {error}", code=2)
    if as_json:
        typer.echo(told.model_dump_json())
        return
    if not told.runs:
        console.print("Nothing was spent in that time.")
    elif context:
        _print_context(told, limit)
    else:
        console.print(_table(told, by or ("run" if run is None else "tool"), limit, wide=console.width >= WIDE))
        console.print("\n".join(_grades(told)))
    for line in _lacking(told):
        console.print(line)


def _tokenizer() -> Tokenizer:
    try:
        return Tokenizer(*counter())
    except NoTokenizer as error:
        fail(str(error))


# --- by what it was spent ---------------------------------------------------------------------------------------------


def _table(told: Costs, by: By, limit: int, *, wide: bool) -> Table:
    table = plain_table()
    table.add_column(f"\n{by}", overflow="fold")
    names = _WIDE if wide else _NARROW
    for name in (*names, "priced\ncost", "reported\ntokens", f"{'counted' if told.tokenizer else 'estimated'}\ntokens"):
        table.add_column(name, justify="right", no_wrap=True)
    rows = told.groups.get(by, ())
    for one in rows[:limit]:
        table.add_row(visible(one.name) or "-", *_cells(one.figures, wide=wide))
    if (more := len(rows) - limit + told.more.get(by, 0)) > 0:
        table.add_row(f"({more:,} more)")
    table.add_section()
    table.add_row("all", *_cells(told.all, wide=wide))
    return table


_NARROW = ("measured\ncalls", "measured\nresults", "measured\ntime")
_WIDE = ("measured\ncalls", "\nwrites", "\nrefused", "\nresults", "\ntools", "\nverifiers", "\npeople")


def _cells(one: Figures, *, wide: bool) -> Iterator[str]:
    told = one.measured
    yield f"{told.calls:,}"
    if wide:
        yield f"{told.mutations:,}"
        yield f"{told.refusals:,}"
    yield size(told.result_bytes)
    if wide:
        yield from (_time(told.tool_s), _time(told.verifier_s), _time(told.waited_s))
    else:
        yield _time(told.tool_s + told.verifier_s)
    priced = one.priced.calls + one.priced.verifiers
    yield amount(priced) if priced else "-"
    yield f"{one.reported_tokens:,}" if one.reported_tokens else "-"
    yield _tokens(one.tokens)


def _time(spell_s: float) -> str:
    return spell(spell_s) if spell_s else "-"


def _tokens(told: Tokens) -> str:
    """Counted, where somebody asked for that; `+` says that some could not be."""
    if told.counted is None:
        return f"~{told.estimated:,}"
    return f"{told.counted:,}{'+' if told.uncounted else ''}"


def _grades(told: Costs) -> Iterator[str]:
    """What each grade is, and where it comes from."""
    all_ = told.all
    measured = all_.measured
    yield (
        f"measured   by the gateway: {counted(measured.calls, 'call')}, {counted(measured.mutations, 'mutation')}, "
        f"{counted(measured.refusals, 'refusal')}, {size(measured.result_bytes)} of results; "
        f"tools {spell(measured.tool_s)}, verifiers {spell(measured.verifier_s)}, people {spell(measured.waited_s)}"
    )
    priced = f"calls {amount(all_.priced.calls)}, verifiers {amount(all_.priced.verifiers)}"
    by = f", of {counted(len(told.policies), 'text')}" if told.policies else ""
    yield f"priced     by the prices in policy{by}: {priced}"
    yield f"reported   by clients, a claim: {all_.reported_tokens:,} tokens of the model"
    yield f"estimated  a quarter of the results' bytes, as budgets count: {all_.tokens.estimated:,} tokens"
    if told.tokenizer is not None:
        yield f"counted    by {told.tokenizer}: {all_.tokens.counted:,} tokens of the results as recorded"
    again = sum(one.again.times for one in told.context)
    if again:
        spent = sum(one.again.size_bytes for one in told.context)
        yield f"{counted(again, 'result')} ({size(spent)}) went to a client again unchanged; `--context` says which."


def _lacking(told: Costs) -> Iterator[str]:
    if told.all.tokens.uncounted:
        yield (
            f"{counted(told.all.tokens.uncounted, 'result')} could not be counted: erased, or changed. "
            "Their tokens are in the estimate alone."
        )
    if unweighed := sum(one.unweighed for one in told.context):
        yield f"{unweighed:,} of the definitions and repeated answers could not be weighed: erased, or another run's."
    if told.unreadable:
        more = f" and {told.unreadable_more} more" if told.unreadable_more else ""
        yield f"Not in these figures: {', '.join(told.unreadable)}{more}. `counterfoil verify` says what is damaged."


# --- what was put before a model ----------------------------------------------------------------------------------


def _print_context(told: Costs, limit: int) -> None:
    table = plain_table()
    table.add_column("\ntool", overflow="fold")
    grade = "counted" if told.tokenizer else "estimated"
    for name in ("\nresults", "measured\nbytes", f"{grade}\ntokens", "again\nunchanged", "again\nbytes"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("its own\ndefinition", justify="right", no_wrap=True)
    for one in told.context[:limit]:
        table.add_row(*_composed(one))
    if (more := len(told.context) - limit) > 0:
        table.add_row(f"({more:,} more)")
    table.add_section()
    table.add_row("all", *_all_of(told.context))
    console.print(table)
    if told.results:
        console.print(_heaviest(told, limit))
    if refused := sum(one.refusals for one in told.context):
        console.print(f"And {counted(refused, 'refusal')} of our own, whose length is not recorded.")


def _composed(one: Context) -> Sequence[str]:
    return (
        visible(one.tool),
        f"{one.results.times:,}",
        size(one.results.size_bytes),
        _tokens(one.results.tokens),
        f"{one.again.times:,}" if one.again.times else "-",
        size(one.again.size_bytes) if one.again.times else "-",
        size(one.definitions.size_bytes) if one.definitions.times else "?" if one.unweighed else "-",
    )


def _all_of(found: Sequence[Context]) -> Sequence[str]:
    counts = [one.results.tokens.counted for one in found if one.results.tokens.counted is not None]
    tokens = Tokens(
        estimated=sum(one.results.tokens.estimated for one in found),
        counted=sum(counts) if counts else None,
        uncounted=sum(one.results.tokens.uncounted for one in found),
    )
    return (
        f"{sum(one.results.times for one in found):,}",
        size(sum(one.results.size_bytes for one in found)),
        _tokens(tokens),
        f"{sum(one.again.times for one in found):,}",
        size(sum(one.again.size_bytes for one in found)),
        size(sum(one.definitions.size_bytes for one in found)),
    )


def _heaviest(told: Costs, limit: int) -> Table:
    table = plain_table()
    table.add_column("the heaviest results", overflow="fold")
    table.add_column("tool", overflow="fold")
    for name in ("times", "bytes", "again"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in told.results[:limit]:
        again = size(one.again_bytes) if one.again_bytes else "-"
        table.add_row(f"{one.run} #{one.step}", visible(one.tool), f"{one.times:,}", size(one.size_bytes), again)
    return table
