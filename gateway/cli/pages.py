"""A run as one page of its own, for `counterfoil show --html`."""

from pathlib import Path

import typer

from gateway.cli.ledgers import book, fail
from gateway.cli.plain import counted, size
from gateway.cli.totals import totals
from gateway.model.record import utc
from gateway.ports import Ledger
from gateway.runtime.costs import Wanted, costs_of
from gateway.runtime.story import part_of, waiting_in
from gateway.runtime.texts import text_of

DOCTYPE = b"<!doctype html>"

ALL = 1_000_000_000
"""Steps: more than any run has."""


async def page_of(ledger: Ledger, run_id: str, where: str = "") -> str | None:
    """The page of the run, its commands with what finds its ledger; None if there is none.

    Raises: LedgerUnavailable, CorruptLedger.
    """
    from gateway.inbound.console.pages.report import Reported, report  # noqa: PLC0415 - brings a web framework

    if not await ledger.read(run_id, limit=1):
        return None
    opened = await book(ledger)
    part, now = await part_of(opened, run_id, None, ALL), utc(opened.clock.now())
    run = part.story.run
    text = None if run.policy is None else await text_of(opened, run.policy)
    return report(
        Reported(
            part=part,
            policy=None if text is None else text.policy,
            costs=await costs_of(ledger, Wanted(run=run_id)),
            totals=tuple(totals(run, part.story.records)),
            waits=waiting_in(run, now),
            where=where,
            now=now,
        )
    )


def write(page: str, out: Path | None) -> None:
    """The page in that file, over a page that is there; on standard output where none is named.

    Only whoever made it can read it, as with the ledger: it has every argument.
    """
    if out is None:
        typer.echo(page, nl=False)
        return
    try:
        if out.is_file() and not _is_page(out):
            fail(f"`{out}` is there and is no page; name another file")
        out.touch(0o600)
        out.write_text(page, encoding="utf-8")
    except OSError as error:
        fail(f"`{out}` cannot be written: {(error.strerror or 'the system refuses').lower()}")
    steps = counted(page.count('<li class="step'), "step")
    typer.echo(f"counterfoil: `{out}` has {steps}, {size(len(page.encode()))}", err=True)


def _is_page(file: Path) -> bool:
    with file.open("rb") as opened:
        head = opened.read(len(DOCTYPE))
    return not head or head.lower() == DOCTYPE
