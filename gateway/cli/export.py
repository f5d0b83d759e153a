"""`counterfoil export`: runs as lines of JSON, with proofs, for somebody who has not the ledger."""

import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TextIO

import typer

from gateway.cli.durations import duration
from gateway.cli.ledgers import FileOption, LedgerOption, Where, fail, settings_of, with_ledger
from gateway.cli.plain import counted
from gateway.model.canonical import dump
from gateway.outbound.redaction import DetectingRedactor, Rules
from gateway.ports import Ledger, Redactor
from gateway.runtime.exporting import Line, exported

MOST_RUNS = 100_000
"""That are looked at for `--since`; each is a record of the ledger."""


def export(
    runs: Annotated[list[str] | None, typer.Argument(metavar="RUN…", help="Runs, or `last`.")] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="AGE|DATE", help="All that began since then: `7d`, a day (UTC)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="FILE", help="Where to; a file that is there is not touched."),
    ] = None,
    raw: Annotated[bool, typer.Option("--raw", help="With secrets and personal data, as it was said.")] = False,
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """Write runs as lines of JSON: every record, what it cites, and the proof that it was in the log.

    Secrets and personal data are redacted, unless `--raw` says otherwise. `counterfoil verify --export FILE` checks it,
    without the ledger.
    """
    if not runs and since is None:
        fail("say which runs: their ids, `last`, or `--since`", code=2)
    rules = Rules() if config is None else settings_of(config, [("data", "redact")]).data.redaction
    redactor = None if raw else DetectingRedactor(rules)
    started = _started(since)

    async def work(opened: Ledger) -> list[str]:
        wanted = [*(runs or ())] if started is None else await _since(opened, started)
        wanted = [*dict.fromkeys([await _named(opened, one) for one in wanted])]
        with _written(out) as file:
            missing = [one async for one in _lines(opened, wanted, redactor, file)]
        if out is not None and not missing:
            # Beside what a script reads, and with the way in which whoever gets it can check it.
            check = f"`counterfoil verify --export {shlex.quote(str(out))}` checks it"
            print(f"counterfoil: `{out}` has {counted(len(wanted), 'run')}; {check}", file=sys.stderr)
        return missing

    missing = with_ledger(Where(ledger, config), work)
    if missing:
        fail(f"no run `{missing[0]}` is in this ledger; `counterfoil runs` lists them")


def _started(since: str | None) -> datetime | None:
    if since is None:
        return None
    try:
        day = datetime.fromisoformat(since)
    except ValueError:
        return datetime.fromtimestamp(datetime.now(UTC).timestamp() - duration(since), UTC)
    return day if day.tzinfo is not None else day.replace(tzinfo=UTC)


async def _since(ledger: Ledger, started: datetime) -> list[str]:
    found = await ledger.find(["run.opened"], limit=MOST_RUNS)
    return [one.run for one in reversed(found) if one.at >= started]


async def _named(ledger: Ledger, run: str) -> str:
    newest = await ledger.find(["run.opened"], limit=1) if run == "last" else ()
    return newest[0].run if newest else run


async def _lines(ledger: Ledger, runs: Sequence[str], redactor: Redactor | None, file: TextIO) -> AsyncIterator[str]:
    """Written, and the runs of which there was nothing to write."""
    seen = set[str]()
    async for line in exported(ledger, runs, redactor):
        _write(line, file)
        seen |= {line["record"]["run"]} if "record" in line else set()
    for run in runs:
        if run not in seen:
            yield run


def _write(line: Line, file: TextIO) -> None:
    file.write(f"{dump(line)}\n")


@contextmanager
def _written(out: Path | None) -> Iterator[TextIO]:
    if out is None:
        yield sys.stdout
        return
    try:
        # For its user alone: even without secrets it says what agents do.
        descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        fail(f"`{out}` is there already, and is left as it is", code=2)
    except OSError as error:
        fail(f"`{out}` cannot be written: {(error.strerror or 'it fails').lower()}", code=2)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - of a descriptor
        yield file
        file.flush()
        os.fsync(descriptor)
