"""`counterfoil postmortem`: a run looked back at, in Markdown: what was tried, what is there, who decided what."""

from collections.abc import Iterator
from typing import Annotated

import typer

from gateway.cli import postmortems as parts
from gateway.cli.ledgers import FileOption, LedgerOption, Where, book, fail, with_ledger
from gateway.cli.postmortems import Case
from gateway.cli.runs import read
from gateway.inbound.told.asked import asked_in
from gateway.inbound.told.markdown import cell
from gateway.model.record import utc
from gateway.ports import Ledger
from gateway.runtime.costs import Wanted, costs_of
from gateway.runtime.story import escalated, waiting_in
from gateway.runtime.texts import text_of

SECTIONS = (
    ("Summary", parts.summary),
    ("Timeline", parts.timeline),
    ("Attempted against committed", parts.effects),
    ("Unknown outcomes", parts.unknowns),
    ("What each person decided", parts.decisions),
    ("Refusals by rule", parts.denials),
    ("Verifiers", parts.verdicts),
    ("Compensations", parts.undoing),
    ("Budget", parts.budget),
    ("What is not known", parts.unsure),
)


def postmortem(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id, or `last`.")],
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """A run looked back at, as Markdown: attempted against committed, what is unknown, what each person decided."""
    where = Where(ledger, config)
    case = with_ledger(where, lambda opened: case_of(opened, run, where.option))
    if case is None:
        fail(f"no run `{run}` is in this ledger; `counterfoil runs` lists them")
    typer.echo("\n".join(markdown(case)), nl=False)


async def case_of(ledger: Ledger, name: str, where: str = "") -> Case | None:
    """The run, with all that is said about it; None if there is none."""
    story = await read(ledger, name)
    if story is None:
        return None
    opened, run = await book(ledger), story.run
    text = None if run.policy is None else await text_of(opened, run.policy)
    return Case(
        story=story,
        asked=asked_in(story.records),
        costs=await costs_of(ledger, Wanted(run=run.id)),
        policy=None if text is None else text.policy,
        waits=waiting_in(run, utc(opened.clock.now())),
        escalated=escalated(run),
        gone=sum(one is None for one in story.payloads.values()),
        where=where,
    )


def markdown(case: Case) -> Iterator[str]:
    """Its lines. All that others wrote is escaped."""
    yield f"# Postmortem of {cell(case.story.run.id)}"
    for title, lines in SECTIONS:
        yield ""
        yield f"## {title}"
        yield ""
        yield from lines(case)
    yield ""
