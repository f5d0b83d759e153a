"""A client's way to write a variable -> the gateway's own, of `outbound/references.py`. Nothing is ever put in here."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gateway.outbound.clients.table import Client

_ANY = re.compile(r"(?P<before>\$?)\$(?:\{(?P<body>[^{}]*)\}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))")
_PLAIN = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>.*))?", re.DOTALL)


INPUT = "INPUT_"
"""Begins the variables in which an editor gives us what it asked a person for."""


class CannotSay(ValueError):
    """An entry cannot be said in the gateway's words, or is better not; the message says why."""


class Part(NamedTuple):
    """A piece of a value."""

    text: str
    """As it is to stand in `gateway.yaml`, if it is a reference; else as it is meant."""
    variable: str | None = None
    """The variable that it stands for."""
    asked: str | None = None
    """How the client writes what it asks a person for; the variable is then one of our making."""
    is_reference: bool = False
    default: str | None = None
    """What the reference says itself for a variable that is not set."""

    @property
    def written(self) -> str:
        """As it is to stand in `gateway.yaml`."""
        return self.text if self.is_reference else self.text.replace("${", "$${")


def parts_of(text: str, client: Client, folder: Path | None) -> list[Part]:
    """The value, taken apart. `folder` is the client's workspace, where it is known.

    Raises: CannotSay.
    """
    found: list[Part] = []
    for part in _parts(text, client, folder):
        if part.is_reference or not found or found[-1].is_reference:
            found.append(part)
        else:
            found[-1] = Part(found[-1].text + part.text)
    return found


def _parts(text: str, client: Client, folder: Path | None) -> Iterator[Part]:
    at = 0
    for found in _ANY.finditer(text):
        part = _meant(found, client, folder)
        if part is None:
            continue
        if part.is_reference and found["before"]:
            raise CannotSay("a `$` stands directly before a variable")
        begins = found.end("before")
        if text[at:begins]:
            yield Part(text[at:begins])
        yield part
        at = found.end()
    if text[at:]:
        yield Part(text[at:])


def _meant(found: re.Match[str], client: Client, folder: Path | None) -> Part | None:
    """What stands there; None where the client takes it as it is written."""
    body, bare = found["body"], found["bare"]
    if bare is not None:
        return _variable(bare) if "dollar" in client.forms else None
    plain = _PLAIN.fullmatch(body)
    if plain is not None and "plain" in client.forms:
        return _variable(plain["name"], plain["default"])
    kind, colon, rest = body.partition(":")
    if colon and kind in {"env", "input", "file"} & client.forms:
        return _prefixed(kind, rest, found)
    if "folder" in client.forms:  # it has more of this kind than we know
        return _folder(body, folder)
    return None


def _variable(name: str, default: str | None = None) -> Part:
    text = f"${{{name}}}" if default is None else f"${{{name}:-{default}}}"
    return Part(text, name, is_reference=True, default=default)


def _prefixed(kind: str, rest: str, found: re.Match[str]) -> Part:
    if kind == "file" and rest.startswith("/"):
        return Part(f"${{file:{rest}}}", is_reference=True)
    if kind == "env" and (plain := _PLAIN.fullmatch(rest)) and plain["default"] is None:
        return _variable(rest)
    if kind == "input" and rest:
        name = INPUT + re.sub(r"[^A-Z0-9]+", "_", rest.upper())
        # Only this client can ask; in another the server starts without it, as the gateway does.
        return Part(f"${{{name}:-}}", name, found[0].removeprefix(found["before"]), is_reference=True)
    raise CannotSay(f"the gateway has nothing like `{found[0][:64]}`")


def _folder(body: str, folder: Path | None) -> Part:
    if body == "userHome":
        return _variable("HOME")
    if body == "workspaceFolder" and folder is not None:
        return Part(str(folder))
    if body == "workspaceFolder":
        raise CannotSay("`${workspaceFolder}` is another folder in each window")
    raise CannotSay(f"the gateway has nothing like `${{{body[:64]}}}`")


_OURS = re.compile(r"\$(\$?)\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(:-[^{}]*)?\}")


def variables_in(value: Any) -> dict[str, bool]:
    """Every variable that a value of `gateway.yaml` names, in their order, and whether it must be set."""
    match value:
        case str():
            return {one[2]: one[3] is None for one in _OURS.finditer(value) if not one[1]}
        case Mapping() | list():
            found: dict[str, bool] = {}
            for item in value.values() if isinstance(value, Mapping) else value:
                for name, wanted in variables_in(item).items():
                    found[name] = wanted or found.get(name, False)
            return found
        case _:
            return {}
