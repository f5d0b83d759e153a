"""The clients' files and `gateway.yaml` -> what is to be changed in them, and what a person should know before it is.

Nothing is written here. A client's file that is in order but holds nothing for us is not touched.
"""

import copy
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.model.flaws import Place
from gateway.outbound.clients import jsonc, toml_tables
from gateway.outbound.clients.changes import OWN_MODE, Change, Taken, content, mode_of, taken_back
from gateway.outbound.clients.discreet import shown
from gateway.outbound.clients.entries import OURS, Server, is_gateway, server_of
from gateway.outbound.clients.gateway_file import GatewayFile, texts_of
from gateway.outbound.clients.pointing import ALWAYS_THERE, passed_on, started
from gateway.outbound.clients.sheet import Sheet, Unusable
from gateway.outbound.clients.table import Client, Machine, Spot
from gateway.outbound.clients.variables import INPUT, CannotSay, variables_in
from gateway.outbound.yaml_files import Problems

READERS: Mapping[str, Callable[[str], Sheet]] = {".json": jsonc.read, ".toml": toml_tables.read}


@dataclass(slots=True)
class Plan:
    """What init would do."""

    changes: list[Change] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Lines for the person, in the order of the files."""


@dataclass(frozen=True, slots=True)
class _Page:
    """One client's file that has servers."""

    client: Client
    spot: Spot
    path: Path
    body: bytes
    text: str
    sheet: Sheet


def plan(machine: Machine, clients: Sequence[Client], config: Path, command: Sequence[str], port: int) -> Plan:
    """What moves the clients' servers behind the gateway that `config` describes.

    `command` starts it on stdio, and `port` is where it is served over HTTP if the file does not say.

    Raises: Unusable.
    """
    if not config.parent.is_dir():
        raise Unusable(f"there is no folder `{config.parent}` for `{config.name}`; make it first")
    folder = config.with_suffix(".secrets")
    body = content(config)
    had = None if body is None else decoded(body, config)
    gateway = GatewayFile(had, str(config), folder.name, _secrets(folder))
    port = gateway.port(port)
    made = Plan()
    read_in = [(page, _Import(page, gateway, port, made.notes).servers(machine)) for page in _pages(machine, clients)]
    moved = [(page, servers) for page, servers in read_in if servers]
    if not moved:
        return made
    wanted = variables_in(gateway.entries)
    if gateway.text() != had:
        mode = OWN_MODE if body is None else mode_of(config)
        made.changes += [Change(folder / name, None, text.encode()) for name, text in gateway.files.items()]
        made.changes.append(Change(config, body, gateway.text().encode(), mode))
    for page, servers in moved:
        named = [part for server in servers.values() for part in server.variables()]
        asked = {part.variable: part.asked for part in named if part.variable and part.asked}
        entry = started(page.client, command, passed_on(page.client, wanted, asked))
        after = _pointed(page, servers, entry)
        made.changes.append(Change(page.path, page.body, after.encode(), mode_of(page.path)))
    if gateway.files:
        listed = ", ".join(sorted(gateway.files))
        made.notes.append(f"what may be a secret goes into {folder} (mode 0600, one file each): {listed}")
    made.notes += _cautions([page for page, _ in moved], wanted, machine)
    return made


def _cautions(pages: Sequence[_Page], wanted: Mapping[str, bool], machine: Machine) -> Iterator[str]:
    """What a person should know before they agree."""
    for page in pages:
        if page.spot.shared:
            yield f"{page.path}: it will name paths of this machine; think before you commit it"
    must = [name for name, needed in wanted.items() if needed and name not in ALWAYS_THERE]
    unset = [name for name in must if not machine.environ.get(name)]
    if unset:
        yield f"the gateway does not start unless these are set, and here they are not: {', '.join(unset)}"
    for client in dict.fromkeys(page.client for page in pages):
        if must and client.passed_on is None:
            own = f"`--client {client.name} --config OTHER.yaml`"
            yield f"{client.title} gives no variables to what it starts, and the gateway needs some: better {own}"
    asked = [name for name in wanted if name.startswith(INPUT)]
    if asked:
        yield f"asked for by VS Code, and empty for every other client that does not set them: {', '.join(asked)}"


def _secrets(folder: Path) -> Mapping[str, str]:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise Unusable(f"`{folder}` is to hold secrets, and is no folder; move it away")
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    return {path.name: decoded(content(path) or b"", path) for path in names}


def decoded(body: bytes, path: Path) -> str:
    """The file as text, byte order mark and line ends as they are.

    Raises: Unusable.
    """
    try:
        return body.decode()
    except UnicodeDecodeError:
        raise Unusable(f"`{path}` is not UTF-8; save it as UTF-8, or leave its client out") from None


def read(text: str, path: Path) -> Sheet:
    """A client's file, parsed.

    Raises: Unusable.
    """
    try:
        return READERS[path.suffix](text)
    except Unusable as error:
        raise Unusable(f"{path}:{error}; mend that, or leave its client out") from None


def undoing(records: Path) -> list[Taken]:
    """What takes back all that is recorded.

    Raises: Unusable.
    """
    return taken_back(records, _is_sound)


def _is_sound(path: Path, body: bytes) -> bool:
    """Whether the file could be read by whoever it is for."""
    try:
        READERS.get(path.suffix, texts_of)(body.decode())
    except (Unusable, Problems, UnicodeDecodeError):
        return False
    return True


def shown_as(body: bytes | None, path: Path) -> str:
    """The file without its secrets, line by line as it is."""
    if body is None:
        return ""
    try:
        text = body.decode()
        texts = READERS[path.suffix](text).texts if path.suffix in READERS else texts_of(text)
    except (Problems, Unusable, UnicodeDecodeError):
        return f"({len(body)} bytes that cannot be read, and so are not shown)\n"
    return shown(text, texts)


def _pages(machine: Machine, clients: Sequence[Client]) -> Iterator[_Page]:
    for client in clients:
        for path, spot in machine.spots(client):
            body = content(path)
            if body is not None:
                text = decoded(body, path)
                yield _Page(client, spot, path, body, text, read(text, path))


@dataclass(frozen=True, slots=True)
class _Import:
    """One page's servers, on their way into `gateway.yaml`."""

    page: _Page
    gateway: GatewayFile
    port: int
    notes: list[str]

    def servers(self, machine: Machine) -> dict[Place, Server]:
        """Those that move, by their places in the client's file."""
        moved: dict[Place, Server] = {}
        for root in self.page.spot.roots:
            own = self.page.spot.shared or str(machine.project) in root
            for name, entry in at(self.page.sheet.value, root).items():
                if not is_gateway(name, entry, self.port):
                    server = self._server(root, name, entry, machine.project if own else None)
                    if server is not None:
                        moved[*root, name] = server
        others = at(self.page.sheet.value, ("projects",)) if self.page.client.name == "claude-code" else {}
        left = [name for name in others if name != str(machine.project) and at(others, (name, "mcpServers"))]
        if left:
            self.notes.append(f"{self.page.path}: other projects have servers too; run init in {', '.join(left)}")
        return moved

    def _server(self, root: Place, name: str, entry: Any, folder: Path | None) -> Server | None:
        try:
            self._movable((*root, name))
            server = server_of(entry, self.page.client, folder)
        except CannotSay as error:
            self.notes.append(f"{self.page.path}: `{name}` is left with {self.page.client.title}: {error}")
            return None
        given = self.gateway.add(server, name, self.page.client.name)
        called = "" if given == name else f", as `{given}`"
        self.notes.append(f"{self.page.path}: `{name}` moves to the gateway{called}")
        return server

    def _movable(self, place: Place) -> None:
        fixed = self.page.sheet.fixed(place)
        if fixed is not None:
            raise CannotSay(fixed)


def _pointed(page: _Page, imported: Mapping[Place, Server], entry: Mapping[str, Any]) -> str:
    """The client's file with one entry for the gateway where its servers were."""
    text, wanted = page.text, copy.deepcopy(page.sheet.value)
    for root in page.spot.roots:
        had = at(wanted, root)
        gone = [name for name in had if (*root, name) in imported]
        if gone:
            names = {*gone, *({OURS} & had.keys())}
            new = _keeping(had.get(OURS), entry)
            text = read(text, page.path).moved(root, names, OURS, new)
            for name in names:
                had.pop(name)
            had[OURS] = new
    if json.dumps(read(text, page.path).value, sort_keys=True, default=str) != json.dumps(
        wanted, sort_keys=True, default=str
    ):
        raise Unusable(f"`{page.path}` is written in a way that init cannot change safely; leave its client out")
    return text


def _keeping(old: Any, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry, with what an earlier one passed on: only that knew how a person is asked for it."""
    had = at(old, ("env",))
    return {**entry, "env": {**had, **entry.get("env", {})}} if had else entry


def at(value: Any, place: Place) -> dict[str, Any]:
    """The mapping there; an empty one where there is none."""
    for step in place:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
