"""A server as a client writes it -> the same as `gateway.yaml` does, or why it is left where it is."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from pydantic import Field

from gateway.model.flaws import Place
from gateway.outbound.clients.discreet import is_secret
from gateway.outbound.clients.table import Client
from gateway.outbound.clients.variables import CannotSay, Part, parts_of
from gateway.outbound.clients.yaml_text import as_yaml
from gateway.outbound.file_models import FilePart, read_as
from gateway.outbound.references import MAX_FILE_BYTES
from gateway.outbound.server_entries import (
    ADDRESSES,
    HTTP_TYPES,
    NOT_OBEYED,
    STDIO_TYPES,
    McpServerEntry,
    entry_problems,
)
from gateway.outbound.yaml_files import compose

OURS = "counterfoil"
"""The name of the command, and of the entry by which a client reaches the gateway."""

WITHOUT_EFFECT = frozenset(
    {
        "type", "disabled", "enabled",  # read on their own
        "timeout", "tool_timeout_sec", "description", "gallery", "version", "source", "required",
        "trust", "alwaysAllow", "autoApprove", "default_tools_approval_mode",  # a policy says what needs a yes
    }
)  # fmt: skip
"""Keys about a client's own patience, prompts and display."""

_NOT_OBEYED = {**NOT_OBEYED, **dict.fromkeys(("enabled_tools", "disabled_tools"), NOT_OBEYED["includeTools"])}

Value: TypeAlias = tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Server:
    """What `gateway.yaml` will say of a server, before its name there is known."""

    texts: Mapping[Place, Value]
    """Its values, by their places in the entry."""
    secrets: frozenset[tuple[Place, int]] = frozenset()
    """Which parts of them are kept in a file of their own."""
    start_s: float | None = None

    def variables(self) -> Iterator[Part]:
        """Every variable that it names."""
        return (part for value in self.texts.values() for part in value if part.variable is not None)

    def entry(self, name: str, folder: str) -> tuple[dict[str, Any], dict[str, str]]:
        """The entry under that name, and the files in `folder` that it refers to."""
        files: dict[str, str] = {}
        entry: dict[str, Any] = {}
        for place, value in self.texts.items():
            written = ""
            for index, part in enumerate(value):
                if (place, index) not in self.secrets:
                    written += part.written
                    continue
                steps = [name, *(str(step) for step in place), *([str(index)] if index else [])]
                file = re.sub(r"[^A-Za-z0-9._-]", "_", ".".join(steps))
                body = part.text.rstrip("\r\n")  # a reference gives a file without its last line's end
                files[file] = body + "\n"
                written += f"${{file:{folder}/{file}}}{part.text[len(body) :]}"
            _put(entry, place, written)
        if self.start_s is not None:
            entry["timeouts"] = {"start_s": self.start_s}
        return entry, files


def _put(entry: dict[str, Any], place: Place, text: str) -> None:
    match place:
        case (str(key),):
            entry[key] = text
        case (str(key), int()):
            entry.setdefault(key, []).append(text)
        case (str(key), str(name)):
            entry.setdefault(key, {})[name] = text
        case _:  # no entry is deeper
            raise AssertionError(place)


def is_gateway(name: str, entry: Any, port: int) -> bool:
    """Whether the entry is a gateway of ours, which must never be put behind itself."""
    if not isinstance(entry, Mapping):
        return False
    args = entry.get("args")
    words = [entry.get("command"), *(args if isinstance(args, list) else [])]
    if name == OURS or any(isinstance(word, str) and PurePath(word).stem == OURS for word in words):
        return True
    if words[1:3] == ["-m", "gateway"]:
        return True
    return any(_is_our_address(str(entry[key]), port) for key in ADDRESSES if key in entry)


def _is_our_address(url: str, port: int) -> bool:
    try:
        host, at = urlsplit(url).hostname, urlsplit(url).port
    except ValueError:
        return False
    return at == port and host in {"127.0.0.1", "localhost", "::1"}


def server_of(entry: Any, client: Client, folder: Path | None) -> Server:
    """The client's entry in our words. `folder` is the project that the client's file belongs to.

    Raises: CannotSay, with why it is better left with the client.
    """
    if not isinstance(entry, Mapping):
        raise CannotSay("it is no mapping of keys to values")
    if entry.get("disabled") is True or entry.get("enabled") is False:
        raise CannotSay("it is switched off there")
    found = _Reading(entry, client, folder)
    start_s = entry.get("startup_timeout_sec")
    server = Server(found.texts, frozenset(found.secrets), start_s if isinstance(start_s, int | float) else None)
    refused = next(_refused(server), None)
    if refused is not None:
        raise CannotSay(refused)
    return server


@dataclass(slots=True)
class _Reading:
    """One entry, taken apart."""

    entry: Mapping[str, Any]
    client: Client
    folder: Path | None
    texts: dict[Place, Value] = field(default_factory=dict)
    secrets: set[tuple[Place, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        for key, value in self.entry.items():
            self._key(key, value)
        kind = self.entry.get("type")
        if kind is None and self.client.sse_by_default and "url" in self.entry:
            kind = "sse"
        if kind is not None and kind not in STDIO_TYPES + HTTP_TYPES:
            self._text(("type",), kind)
        words = [part.text for place, value in self.texts.items() if place[0] in {"command", "args"} for part in value]
        relative = any(word == "." or word.startswith(("./", "../")) for word in words)
        if relative and self.folder is not None and ("cwd",) not in self.texts:
            self.texts["cwd",] = (Part(str(self.folder)),)

    def _key(self, key: str, value: Any) -> None:
        match key:
            case "command" | "cwd":
                self._text((key,), value)
            case _ if key in ADDRESSES:
                self._text(("url",), value)
            case "args":
                for index, text in enumerate(_listed(key, value)):
                    self._text((key, index), text)
            case "env" | "headers" | "http_headers":
                for name, text in _mapped(key, value).items():
                    self._text((key.removeprefix("http_"), name), text)
            case _ if self.client.syntax == "toml" and key in _CODEX:
                for place, parts in _CODEX[key](value):
                    self._keep(place, parts)
            case _ if key not in WITHOUT_EFFECT and key != "startup_timeout_sec":
                raise CannotSay(f"`{key[:64]}`: {_NOT_OBEYED.get(key, 'the gateway knows nothing like it')}")
            case _:
                pass

    def _text(self, place: Place, text: Any) -> None:
        if not isinstance(text, str):
            raise CannotSay(f"`{'.'.join(str(step) for step in place)}` is no text")
        if place == ("cwd",) and not PurePath(text).is_absolute() and not text.startswith("$"):
            if self.folder is None:
                raise CannotSay("`cwd` is relative, and to what depends on the window")
            text = str(self.folder / text)
        self._keep(place, parts_of(text, self.client, self.folder))

    def _keep(self, place: Place, parts: list[Part]) -> None:
        match place:
            case ("args", int(index)) if index > 0:
                before = "".join(part.text for part in self.texts["args", index - 1])
            case _:
                before = ""
        self.texts[place] = tuple(parts)
        for index, part in enumerate(parts):
            if part.is_reference:
                if part.default and is_secret(place, part.default, before):
                    raise CannotSay(f"the default of `{part.variable}` may be a secret; set the variable instead")
            elif is_secret(place, part.text, before):
                self.secrets.add((place, index))


def _env_vars(value: Any) -> Iterator[tuple[Place, list[Part]]]:
    for name in _listed("env_vars", value):
        if not isinstance(name, str):
            raise CannotSay("`env_vars` is no list of names")
        # Codex leaves out one that is not set, and starts the server without it.
        yield ("env", name), [Part(f"${{{name}:-}}", name, is_reference=True, default="")]


def _bearer_variable(value: Any) -> Iterator[tuple[Place, list[Part]]]:
    yield ("headers", "Authorization"), [Part("Bearer "), Part(f"${{{value}}}", str(value), is_reference=True)]


def _env_headers(value: Any) -> Iterator[tuple[Place, list[Part]]]:
    for header, name in _mapped("env_http_headers", value).items():
        yield ("headers", header), [Part(f"${{{name}}}", str(name), is_reference=True)]


_CODEX = {"env_vars": _env_vars, "bearer_token_env_var": _bearer_variable, "env_http_headers": _env_headers}
"""Codex has names of variables where others have references."""


def _listed(key: str, value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise CannotSay(f"`{key}` is no list")
    return value


def _mapped(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise CannotSay(f"`{key}` is no mapping of names to texts")
    return value


class _File(FilePart):
    servers: dict[str, McpServerEntry] = Field(default={}, alias="mcpServers")


def _refused(server: Server) -> Iterator[str]:
    """Why `gateway.yaml` could not have it; the file's own rules say so."""
    for place, value in server.texts.items():
        literal = "".join(part.text for part in value if not part.is_reference)
        if "\0" in literal or len(literal.encode(errors="replace")) >= MAX_FILE_BYTES:
            yield f"`{place[0]}` holds a text that is too long, or a NUL character"
        if place[0] == "headers" and not literal.isprintable():
            yield f"the header `{place[-1]}` is more than one line"
        if place == ("url",) and not (value[:1] and value[0].text.startswith(("http://", "https://", "${"))):
            yield "its address does not begin with `http://` or `https://`"
    entry, _ = server.entry("server", "folder")
    document = compose(as_yaml({"mcpServers": {"server": entry}}), "")
    _, problems = read_as(document, _File, {})
    yield from (problem.message for problem in [*document.problems, *problems, *entry_problems(document)])
