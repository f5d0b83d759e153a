"""The entry by which a client reaches the gateway, as that client writes it, and what to know where it is pasted."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.model.flaws import Place
from gateway.outbound.clients.entries import OURS
from gateway.outbound.clients.sheet import Unusable
from gateway.outbound.clients.table import Client
from gateway.outbound.clients.toml_tables import as_table
from gateway.outbound.clients.variables import INPUT as INPUT_VARIABLE

RUN_HEADER = "Counterfoil-Run"
TOKEN_VARIABLE = "GW_TOKEN"  # noqa: S105 - the name of a variable
INPUT = "counterfoil-run"
ALWAYS_THERE = frozenset({"HOME", "PATH", "USER"})
"""Every client gives these to what it starts."""


def passed_on(client: Client, wanted: Mapping[str, bool], asked: Mapping[str, str]) -> dict[str, str]:
    """The variables that the client is to give to the gateway, as it writes them.

    `wanted` are those of `gateway.yaml`, and whether they must be set; `asked` is how the client asks a person for one.
    """
    if client.passed_on is None:
        return {}
    # Elsewhere one that is not set would come as an empty text, or as it is written, and hide its default.
    all_safe = client.syntax == "toml" or ":-" in client.passed_on
    return {
        name: asked.get(name) or client.passed_on.format(name=name)
        for name, needed in wanted.items()
        if name in asked or ((needed or all_safe) and name not in ALWAYS_THERE and not name.startswith(INPUT_VARIABLE))
    }


def started(client: Client, command: Sequence[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """The entry of a gateway that the client starts on stdio, and to which it gives these variables."""
    entry: dict[str, Any] = {"type": "stdio"} if client.typed else {}
    entry |= {"command": command[0], "args": list(command[1:])}
    if client.syntax == "toml":
        entry["required"] = True  # else `codex exec` asks the model before the gateway has said what tools there are
    if not variables:
        return entry
    return {**entry, **({"env_vars": list(variables)} if client.syntax == "toml" else {"env": dict(variables)})}


def reached(client: Client, url: str) -> dict[str, Any]:
    """The entry of a gateway at an address, with the run token from `$GW_TOKEN`, unexpanded.

    Raises: Unusable for a client that has no remote servers.
    """
    if client.address is None:
        raise Unusable(f"{client.title} takes no address of a server in its file; use `--config gateway.yaml`")
    entry: dict[str, Any] = {"type": "http"} if client.typed else {}
    entry[client.address] = url
    if client.syntax == "toml":
        return {**entry, "env_http_headers": {RUN_HEADER: TOKEN_VARIABLE}}
    if "input" in client.forms:
        value = f"${{input:{INPUT}}}"
    elif "plain" in client.forms and "dollar" not in client.forms:
        value = f"${{{TOKEN_VARIABLE}}}"
    else:
        value = (client.passed_on or "TOKEN").format(name=TOKEN_VARIABLE)
    return {**entry, "headers": {RUN_HEADER: value}}


@dataclass(frozen=True, slots=True)
class Snippet:
    """What to paste, where, and what to know."""

    text: str
    """Goes into the file."""
    notes: tuple[str, ...]


def snippet(client: Client, entry: Mapping[str, Any], file: str) -> Snippet:
    """The entry as text for the client's file."""
    root: Place = client.spots[0].roots[0]
    if client.syntax == "toml":
        text = as_table((*root, OURS), entry)
    else:
        whole: dict[str, Any] = {str(root[-1]): {OURS: dict(entry)}}
        if f"${{input:{INPUT}}}" in json.dumps(entry):
            asked = {"type": "promptString", "id": INPUT, "description": "Run token of Counterfoil", "password": True}
            whole = {"inputs": [asked], **whole}
        text = json.dumps(whole, indent=2, ensure_ascii=False)
    notes = [f"goes into {file}"]
    command = _typed(client, entry)
    if command:
        notes.append(f"or: {shlex.join(command)}")
    if RUN_HEADER in text:
        notes.append(_about_the_token(client))
    return Snippet(text, tuple(notes))


def _typed(client: Client, entry: Mapping[str, Any]) -> Sequence[str]:
    """The client's own command to the same end; only where it neither expands the token nor keeps it."""
    if client.name == "claude-code" and "headers" in entry:
        header = [f"{name}: {value}" for name, value in entry["headers"].items()]
        return ["claude", "mcp", "add", "--transport", "http", "-s", "project", OURS, entry["url"], "--header", *header]
    if client.name == "vscode" and "headers" not in entry:  # it could not ask for the token
        return ["code", "--add-mcp", json.dumps({"name": OURS, **entry}, ensure_ascii=False)]
    return []


def _about_the_token(client: Client) -> str:
    where = f"in `{TOKEN_VARIABLE}`"
    if client.passed_on is None:
        where = "in place of `TOKEN`, for this client puts in no variables"
    elif "input" in client.forms:
        where = "when it is asked for"
    return f"`counterfoil run open` prints a run token: give it {where}; to come in without one, leave the header out"
