"""A machine with every client's files on it, as their users write them."""

from collections.abc import Iterator
from pathlib import Path

from gateway.outbound.clients import changes
from gateway.outbound.clients.importing import Plan, plan
from gateway.outbound.clients.table import CLIENTS, Client, Machine

FILES = Path(__file__).parent / "files"
SECRETS = ("NEVERSHOWN", "hunter2hunter2")
"""What stands in the files and must never be shown, or stand in `gateway.yaml`."""
COMMAND = ("/opt/bin/counterfoil", "stdio", "--config", "gateway.yaml")
PORT = 8321


def a_machine(folder: Path, platform: str = "linux") -> Machine:
    """Its home and project are empty."""
    home, project = folder / "home", folder / "project"
    home.mkdir(parents=True, exist_ok=True)
    project.mkdir(exist_ok=True)
    return Machine(home, project, {}, platform)


def spots(machine: Machine) -> Iterator[tuple[Client, str, Path]]:
    """Each client, `project` or `user`, and the file."""
    for client in CLIENTS:
        for path, spot in machine.spots(client):
            yield client, "project" if spot.shared else "user", path


def furnish(machine: Machine, *names: str) -> dict[Path, bytes]:
    """The files of these clients, or of all, laid down where they belong."""
    laid: dict[Path, bytes] = {}
    for client, whose, path in spots(machine):
        source = FILES / f"{client.name}.{whose}{path.suffix}"
        if source.exists() and (not names or client.name in names):
            path.parent.mkdir(parents=True, exist_ok=True)
            laid[path] = source.read_bytes().replace(b"PROJECT", str(machine.project).encode())
            path.write_bytes(laid[path])
            path.chmod(0o640)
    return laid


def planned(machine: Machine, *names: str) -> Plan:
    """What init would do for these clients, or for all."""
    chosen = [client for client in CLIENTS if not names or client.name in names]
    return plan(machine, chosen, config_of(machine), COMMAND, PORT)


def config_of(machine: Machine) -> Path:
    return machine.project / "gateway.yaml"


def records_of(machine: Machine) -> Path:
    return machine.home / "state" / "records"


def done(machine: Machine, *names: str) -> Plan:
    """As `planned`, and done."""
    made = planned(machine, *names)
    changes.apply(made.changes, records_of(machine))
    return made


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below, but the records."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "records" not in path.parts
    }
