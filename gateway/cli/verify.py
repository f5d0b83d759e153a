"""`counterfoil verify`: is this ledger what was recorded, and does all hold that must hold of it?"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from gateway.cli.ledgers import FileOption, LedgerOption, Where, console, fail, settings_of, with_ledger
from gateway.cli.runs import AS_JSON
from gateway.cli.verified import BROKEN, UNREADABLE, exit_code, proven, proven_export, told
from gateway.kernel.merkle import BadProof
from gateway.model.canonical import NotStrictJson, parse
from gateway.model.note import verifier_key
from gateway.outbound.cited import CitedOnDisk
from gateway.outbound.head_file import BadHead, HeadFile
from gateway.outbound.seal_keys import BadKey, public_key, signed_by
from gateway.ports import Ledger
from gateway.runtime.audit import NotProvable, Proof, Report, Unreadable, Wanted, proof_of
from gateway.runtime.audit import verify as verified
from gateway.runtime.exporting import BadExport

PROGRESS_S = 0.5
"""A ledger that is verified sooner shows no bar."""


def verify(
    ledger: LedgerOption = None,
    config: FileOption = None,
    head: Annotated[
        Path | None, typer.Option("--head", metavar="FILE", help="The newest checkpoint, kept outside the ledger.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option("--key", metavar="PUBLIC", help="A public key (`keygen FILE --public`), or its file; repeatable."),
    ] = None,
    judge: Annotated[
        bool, typer.Option("--judge", help="Judge every verdict again by the recorded policy; takes longer.")
    ] = False,
    max_unknown_age: Annotated[
        float | None,
        typer.Option("--max-unknown-age", metavar="SECONDS", min=0, help="End with 3 if an outcome is unknown longer."),
    ] = None,
    prove: Annotated[
        str | None, typer.Option("--prove", metavar="RUN#STEP", help="Print a proof that this record is in the ledger.")
    ] = None,
    proof: Annotated[
        Path | None, typer.Option("--proof", metavar="FILE", help="Check such a proof; needs no ledger.")
    ] = None,
    exported: Annotated[
        Path | None, typer.Option("--export", metavar="FILE", help="Check what `export` wrote; needs no ledger.")
    ] = None,
    as_json: AS_JSON = False,
) -> None:
    """Read a ledger from its first record to its last, and say what of it is broken, and where.

    Ends with 0 if it is clean, 1 if it is broken, 2 if it cannot be read, 3 if outcomes are unknown for too long.
    """
    keys = [_key(one) for one in key or ()]
    kept = HeadFile(head) if head is not None else None
    where = Where(ledger, config)
    if config is not None:
        keys, kept = _configured(config, keys, kept)
    if proof is not None:
        _check_proof(proof, keys)
        return
    if exported is not None:
        _check_export(exported, keys)
        return
    if prove is not None:
        _prove(where, prove)
        return
    report = _report(where, keys, kept, judge=judge)
    now = datetime.now(UTC)
    if as_json:
        known = [verifier_key(report.origin, one) for one in keys]
        typer.echo(json.dumps({**report.as_json(), "keys": known}, ensure_ascii=False))
    else:
        for line in told(report, now, keys=bool(keys)):
            console.print(line, soft_wrap=True, highlight=False)
    raise typer.Exit(exit_code(report, now, max_unknown_age))


def _key(told: str) -> bytes:
    path = Path(told)
    try:
        text = path.read_text(encoding="utf-8") if "\n" not in told and _is_file(path) else told
        return public_key(text)
    except BadKey as error:
        fail(str(error), UNREADABLE)
    except (OSError, UnicodeDecodeError):
        fail(f"the key `{told}` cannot be read", UNREADABLE)


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # too long for a name: a key
        return False


def _configured(config: Path, keys: list[bytes], head: HeadFile | None) -> tuple[list[bytes], HeadFile | None]:
    """The keys and the head that were said, and what the configuration says beside them."""
    sealing = settings_of(config, [("seal",)]).sealing
    own = [sealing.key.public] if sealing.key is not None else []
    if head is None and isinstance(sealing.head, HeadFile):
        head = sealing.head
    return [*keys, *own], head


def _report(where: Where, keys: Sequence[bytes], kept: HeadFile | None, *, judge: bool) -> Report:
    try:
        head = kept.read() if kept is not None else None
    except BadHead as error:
        fail(str(error), UNREADABLE)
    if kept is not None and head is None:
        fail(
            f"there is no head at `{kept.path}`; a gateway writes it with its first checkpoint",
            UNREADABLE,
        )
    with _progress() as progress:
        wanted = Wanted(CitedOnDisk, head, keys, signed_by, judge, progress)

        async def work(ledger: Ledger) -> Report | str:
            try:
                return await verified(ledger, wanted)
            except Unreadable as error:
                return str(error)

        found = with_ledger(where, work, UNREADABLE)
    return found if isinstance(found, Report) else fail(found, UNREADABLE)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """A bar on standard error, if that is a terminal and it takes long enough."""
    if not sys.stderr.isatty():
        yield lambda _done, _of: None
        return
    columns = TextColumn("reading the log"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn()
    bar = Progress(*columns, console=type(console)(stderr=True), transient=True)
    task, begun = bar.add_task("", total=None), time.monotonic()

    def progress(done: int, of: int) -> None:
        if time.monotonic() - begun > PROGRESS_S:
            bar.start()
            bar.update(task, completed=done, total=of)

    try:
        yield progress
    finally:
        bar.stop()


# --- one record -----------------------------------------------------------------------------------------------------


def _prove(where: Where, wanted: str) -> None:
    run, sign, step = wanted.rpartition("#") if "#" in wanted else wanted.rpartition(".")
    if not sign or not step.isdecimal():
        fail(f"`{wanted}` is no record: say it as `RUN#STEP`, or name an attempt", UNREADABLE)

    async def work(ledger: Ledger) -> Proof | str:
        try:
            return await proof_of(ledger, run, int(step))
        except NotProvable as error:
            return str(error)

    found = with_ledger(where, work, UNREADABLE)
    typer.echo(json.dumps(found.as_json(), indent=1) if isinstance(found, Proof) else fail(found))


def _check_proof(file: Path, keys: Sequence[bytes]) -> None:
    told: Any
    try:
        told = parse(file.read_bytes())
    except (OSError, NotStrictJson) as error:
        fail(f"`{file}` cannot be read as a proof: {error}", UNREADABLE)
    try:
        lines = proven(Proof.of_json(told), keys)
    except BadProof as error:
        fail(str(error), BROKEN)
    for line in lines:
        console.print(line, soft_wrap=True, highlight=False)


def _check_export(file: Path, keys: Sequence[bytes]) -> None:
    try:
        with file.open("rb") as lines:
            said = [*proven_export(lines, keys)]
    except OSError as error:
        fail(f"`{file}` cannot be read: {(error.strerror or 'it fails').lower()}", UNREADABLE)
    except (BadExport, BadProof) as error:
        fail(str(error), BROKEN)
    for line in said:
        console.print(line, soft_wrap=True, highlight=False)
