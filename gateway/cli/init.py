"""`counterfoil init`: puts the gateway between the clients on this machine and their servers, and takes it back."""

import difflib
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import fail
from gateway.cli.plain import counted, visible
from gateway.outbound.clients import changes
from gateway.outbound.clients.changes import Change, Taken
from gateway.outbound.clients.importing import plan, shown_as, undoing
from gateway.outbound.clients.sheet import Unusable
from gateway.outbound.clients.table import CLIENTS, client_named, this_machine
from gateway.settings import DEFAULT_PORT, default_ledger_path

NAMES = ", ".join(client.name for client in CLIENTS)


def init(
    client: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help=f"Only this client; may be repeated. One of {NAMES}.")
    ] = None,
    config: Annotated[
        Path, typer.Option("--config", "-c", metavar="FILE", help="The gateway's file, made or added to.")
    ] = Path("gateway.yaml"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would change.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back what init did with this file.")] = False,
) -> None:
    """Move your clients' MCP servers behind the gateway: shows every change first, keeps the files as they were."""
    if undo and client:
        fail("`--undo` takes back all that init did with this configuration; leave `--client` out", code=2)
    try:
        machine = this_machine(os.environ, Path.cwd())
        config = config.absolute()
        if undo:
            _undo(config, dry_run=dry_run, yes=yes)
            return
        chosen = [client_named(name) for name in client] if client else CLIENTS
        found = plan(machine, chosen, config, started_by(config), DEFAULT_PORT)
        _say(found.notes)
        if not found.changes:
            _say(["no client has a server that could move to the gateway; nothing is changed"])
            return
        _show(found.changes)
        if dry_run:
            return
        if not yes:
            _ask(len(found.changes))
        changes.apply(found.changes, records_of(config))
        undoing = shlex.join(["counterfoil", "init", "--undo", "--config", str(config)])
        _say([f"done; restart your clients. `{undoing}` takes it back"])
    except Unusable as error:
        fail(visible(str(error)), code=2)


def started_by(config: Path) -> Sequence[str]:
    """The command by which a client starts the gateway, whatever its PATH is."""
    beside = Path(sys.executable).with_name("counterfoil")
    own = str(beside) if beside.exists() else shutil.which("counterfoil")
    return [*([own] if own else [sys.executable, "-m", "gateway"]), "serve", "--stdio", "--config", str(config)]


def records_of(config: Path) -> Path:
    """Where is kept what the files were before init changed them for this configuration."""
    return default_ledger_path().parent / "init" / hashlib.sha256(str(config).encode()).hexdigest()[:16]


def _undo(config: Path, *, dry_run: bool, yes: bool) -> None:
    records = records_of(config)
    taken = undoing(records)
    if not taken:
        _say([f"init has changed nothing for {config}; nothing is taken back"])
        return
    todo = _without_kept(taken, config)
    _show(todo)
    if dry_run:
        return
    if not yes:
        _ask(len(todo))
    changes.take_back(todo, records)
    _say(["done; what init changed in your clients' files is taken back"])


def _without_kept(taken: Sequence[Taken], config: Path) -> list[Change]:
    """What is to be done; a configuration that was changed since stays, with what it refers to.

    Raises: Unusable where a client's file was changed in a way that would be lost.
    """
    for one in taken:
        if one.lost is not None and one.change.path != config:
            sys.stdout.writelines(_diff(one.change.path, one.lost, one.change.before))
            raise Unusable(
                f"`{one.change.path}` was changed since, as shown above, and taking it back would lose that; "
                "nothing is taken back. Undo those changes first, or edit the file by hand"
            )
    kept = next((one for one in taken if one.lost is not None), None)
    if kept is None:
        return [one.change for one in taken if one.change.before != one.change.after]
    _say([f"{config} was changed since init made it, and stays, with its secrets"])
    secrets = config.with_suffix(".secrets")
    return [one.change for one in taken if one.change.path != config and one.change.path.parent != secrets]


def _ask(number: int) -> None:
    """Comes back if the person agrees."""
    print(f"Change {counted(number, 'file')}? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        print()
        fail("nothing was changed (`--yes` agrees beforehand)")


def _show(found: Iterable[Change]) -> None:
    for change in found:
        sys.stdout.writelines(_diff(change.path, change.before, change.after))


def _diff(path: Path, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """A unified diff without secrets."""
    names = ["/dev/null" if body is None else visible(str(path)) for body in (before, after)]
    if path.parent.suffix == ".secrets":
        yield f"--- {names[0]}\n+++ {names[1]}\n(a secret, mode 0600; it is not shown)\n"
        return
    old, new = (visible(shown_as(body, path), keep="\n\t\r").splitlines() for body in (before, after))
    lines = list(difflib.unified_diff(old, new, names[0], names[1], lineterm=""))
    if not lines and before != after:
        lines = [f"--- {names[0]}", f"+++ {names[1]}", "(only values differ that are not shown, or line ends)"]
    yield from (f"{line}\n" for line in lines)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"counterfoil: {visible(line)}", file=sys.stderr)
