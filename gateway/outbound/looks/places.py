"""Where verifiers look, by name: folders, databases and addresses. They are of this machine, and stand in no policy."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, assert_never
from urllib.parse import unquote, urlsplit

from gateway.model.policy import CommandLook, FileLook, HttpLook, SqlLook, TrustedFiles, Way
from gateway.outbound.ledger.postgres.address import is_postgres, parse

IGNORED = (".git", ".hg", ".venv", "node_modules", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")
"""What no check needs, or must not believe: compiled code in `__pycache__` is run in place of the source beside it."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a command may take; for each of its processes, where not said otherwise."""

    memory_mb: int = 4096
    """Address space."""
    processes: int = 256
    """All of them together."""
    file_mb: int = 256
    """The largest file that it may write."""
    open_files: int = 1024
    copied_mb: int = 512
    """Of the folder that is copied for it."""
    copied_files: int = 20_000


@dataclass(frozen=True, slots=True)
class FolderPlace:
    """A folder of this machine. Commands run in copies of it."""

    name: str
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """All that a command gets beside HOME, TMPDIR, a plain PATH and what policy says. May hold secrets."""
    wrapper: tuple[str, ...] = ()
    """Words before the command, which contain it; `{work}` is its folder, `{sandbox}` that one with HOME and TMPDIR."""
    ignore: tuple[str, ...] = IGNORED
    """What is not copied, by pattern."""
    limits: Limits = Limits()
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """What must not be told of what was seen."""


@dataclass(frozen=True, slots=True)
class DatabasePlace:
    """A database. It is only read."""

    name: str
    url: str = field(repr=False)
    """`sqlite:///file.db`, absolute, or `postgresql://…`. It may hold a password."""
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class UrlPlace:
    """An address. Nothing above it can be asked for."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


Place: TypeAlias = FolderPlace | DatabasePlace | UrlPlace

_KINDS: Mapping[type[Any], str] = {FolderPlace: "a folder", DatabasePlace: "a database", UrlPlace: "an address"}


def misplaced(way: Way, places: Mapping[str, Place]) -> tuple[tuple[str, ...], str] | None:
    """Which key of the look names a place that is not there or is no such place, and why; None if all is right."""
    for keys, name, wanted in _wanted(way):
        place = places.get(name)
        if place is None:
            return keys, f"this gateway has no place `{name}`"
        if not isinstance(place, wanted):
            return keys, f"the place `{name}` is {_KINDS[type(place)]}, and {_KINDS[wanted]} is wanted"
    return None


def _wanted(way: Way) -> list[tuple[tuple[str, ...], str, type[Any]]]:
    match way:
        case CommandLook(trusted=TrustedFiles(place=other)):
            return [(("place",), way.place, FolderPlace), (("trusted", "place"), other, FolderPlace)]
        case CommandLook() | FileLook():
            return [(("place",), way.place, FolderPlace)]
        case SqlLook():
            return [(("place",), way.place, DatabasePlace)]
        case HttpLook():
            return [(("place",), way.place, UrlPlace)]
        case _:
            assert_never(way)


SQLITE = "sqlite:///"


def place_of(name: str, value: str, folder: Path) -> Place:
    """The place that one text means: an address, a database's URL, or else a folder.

    Raises: ValueError, which does not show the text.
    """
    if value.startswith(("http://", "https://")):
        if (wrong := unfit_url(value)) is not None:
            raise ValueError(wrong)
        return UrlPlace(name, value)
    if re.match(r"(sqlite|postgres|postgresql):", value, re.IGNORECASE):
        if (wrong := unfit_database(value)) is not None:
            raise ValueError(wrong)
        return DatabasePlace(name, database_url(value, folder), secrets=passwords(value))
    found = (folder / value).absolute()
    if not value or not found.is_dir():
        raise ValueError("it is no folder that is there, and no `http://…`, `sqlite:///…` or `postgresql://…`")
    return FolderPlace(name, found)


def database_url(text: str, folder: Path) -> str:
    """The database's URL with an absolute path."""
    return text if is_postgres(text) else f"{SQLITE}{folder / text.removeprefix(SQLITE)}"


def unfit_database(text: str) -> str | None:
    """Why the text is no address of a database, or None. Says nothing of the text itself."""
    if text.startswith(SQLITE) and len(text) > len(SQLITE) and "\0" not in text:
        return None
    try:
        if is_postgres(text):
            _ = parse(text)
            return None
    except ValueError:
        pass
    return (
        "a database is `sqlite:///relative.db`, `sqlite:////absolute/path.db` or `postgresql://user@host:5432/database`"
    )


def passwords(text: str) -> tuple[str, ...]:
    """The password in a database's URL, if there is one: as it is written there, and as it is."""
    told = urlsplit(text).password if is_postgres(text) else None
    return tuple(dict.fromkeys((told, unquote(told)))) if told else ()


def unfit_url(text: str) -> str | None:
    """Why the text is no address to look below, or None. Says nothing of the text itself."""
    try:
        parts = urlsplit(text)
        right = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        right = False
    else:
        right = right and text.isascii() and text.isprintable() and " " not in text
        if right and (parts.username is not None or parts.query or parts.fragment):
            return "the address of a place has no user, no query and no fragment; credentials are `headers`"
    return None if right else "an address that begins with `http://` or `https://` is wanted"
