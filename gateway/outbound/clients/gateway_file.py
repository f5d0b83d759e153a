"""`gateway.yaml`, as far as servers are added to it: what it has, and the same file with more."""

import json
from collections.abc import Mapping
from itertools import chain, count
from typing import Any

from ruamel.yaml.nodes import MappingNode, Node, ScalarNode

from gateway.model.flaws import Place
from gateway.outbound.clients.entries import Server
from gateway.outbound.clients.sheet import Text, Unusable
from gateway.outbound.clients.yaml_text import as_flow, as_yaml
from gateway.outbound.server_entries import NAME, SECTIONS
from gateway.outbound.yaml_files import Problems, compose

SECTION = "mcpServers"

HEAD = """\
# Made by `counterfoil init`, which also takes it back (`--undo`). `policies:` names a folder of your own policies;
# without one the starter policy decides. Secrets stand in files of their own, or are variables.
"""


class GatewayFile:
    """A configuration of the gateway, and the servers that are to come into it."""

    def __init__(self, source: str | None, file: str, secrets: str, files: Mapping[str, str]) -> None:
        """`secrets` is the folder of the files that entries refer to, `files` what stands in it now.

        Raises: Unusable for a file that is not as `counterfoil serve` would want it.
        """
        self._source = source
        self._secrets = secrets
        self.files: dict[str, str] = {}
        """Secrets that are to be added, by the names of their files."""
        self._had = files
        self._added: dict[str, dict[str, Any]] = {}
        self.value: Mapping[str, Any] = {}
        self._nodes: Mapping[Place, Node] = {}
        if source is not None:
            self._read(source, file)

    def _read(self, source: str, file: str) -> None:
        try:
            document = compose(source.removeprefix("\ufeff"), file)
        except Problems as error:
            raise Unusable(str(error)) from None
        if document.problems or not isinstance(document.value, dict):
            raise Unusable(str(next(iter(document.problems), f"{file}: a mapping of keys to values is wanted")))
        self.value = document.value
        self._nodes = document.nodes

    def port(self, default: int) -> int:
        """At which it is served."""
        listen = self.value.get("listen")
        port = listen.get("port") if isinstance(listen, Mapping) else None
        return port if isinstance(port, int) else default

    @property
    def entries(self) -> Mapping[str, Any]:
        """Every server, by name."""
        found: dict[str, Any] = {}
        for section in SECTIONS:
            had = self.value.get(section)
            found |= had if isinstance(had, Mapping) else {}
        return found | self._added

    def add(self, server: Server, wished: str, client: str) -> str:
        """The name under which it has the server now; the same server is had once."""
        first, second = fitting(wished), fitting(f"{wished[:20]}-{client}")
        for name in chain((first, second), (f"{second[:28].rstrip('-')}-{number}" for number in count(2))):
            entry, files = server.entry(name, self._secrets)
            had = self.entries.get(name)
            known = {**self._had, **self.files}
            same = all(known.get(file, body) == body for file, body in files.items())
            if had == entry and same and files.keys() <= known.keys():
                return name
            if had is None and same:
                self._added[name] = entry
                self.files |= {file: body for file, body in files.items() if file not in self._had}
                return name
        raise AssertionError  # numbers do not end

    def text(self) -> str:
        """The file with all that was added.

        Raises: Unusable where it cannot be added to.
        """
        if self._source is None:
            return HEAD + as_yaml({SECTION: self._added})
        if not self._added:
            return self._source
        text = self._with_added(self._source)
        wanted = {**self.value, SECTION: {**(self.value.get(SECTION) or {}), **self._added}}
        try:
            now = compose(text.removeprefix("\ufeff"), "").value
        except Problems:
            now = None
        if json.dumps(now, sort_keys=True) != json.dumps(wanted, sort_keys=True):
            raise Unusable(f"`{SECTION}` is written in a way that init cannot add to; make it a block of `name:` lines")
        return text

    def _with_added(self, source: str) -> str:
        """The added servers stand before those that were there: where a block begins is sure, where it ends is not."""
        newline = "\r\n" if "\r\n" in source else "\n"
        bom = len(source) - len(source.removeprefix("\ufeff"))
        node = self._nodes.get((SECTION,))
        if not isinstance(node, MappingNode):
            gap = "" if source.endswith("\n") else newline
            return source + gap + as_yaml({SECTION: self._added}).replace("\n", newline)
        at = node.start_mark.index + bom
        if node.flow_style:
            more = as_flow(self._added) + (", " if node.value else "")
            return source[: at + 1] + more + source[at + 1 :]
        column = node.start_mark.column
        more = as_yaml(self._added, column).replace("\n", newline)
        return source[: at - column] + more + source[at - column :]


def texts_of(source: str) -> list[Text]:
    """Every text in the YAML, for what is shown of it."""
    bare = source.removeprefix("\ufeff")
    bom = len(source) - len(bare)
    document = compose(bare, "")
    return [
        Text(node.start_mark.index + bom, node.end_mark.index + bom, place, node.value)
        for place, node in document.nodes.items()
        if isinstance(node, ScalarNode) and place and node.start_mark.index < node.end_mark.index
        if isinstance(node.value, str) and (node.tag or "").endswith(":str")
    ]


def fitting(name: str) -> str:
    """The name, or the nearest that can begin the names of tools: `gateway` begins those of the gateway's own."""
    if not NAME.fullmatch(name):
        clean = "".join(char if char.isascii() and char.isalnum() else "-" for char in name.lower())
        name = "-".join(piece for piece in clean.split("-") if piece)[:32].rstrip("-") or "server"
    return "the-gateway" if name == "gateway" else name
