"""`places` of a configuration: their shape, what does not fit together in them, and the places that they are."""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pydantic import Field

from gateway.model.flaws import Place as Where
from gateway.model.flaws import parts
from gateway.model.policy import NAME_PATTERN
from gateway.outbound.file_models import FilePart
from gateway.outbound.looks.places import (
    IGNORED,
    DatabasePlace,
    FolderPlace,
    Limits,
    Place,
    UrlPlace,
    database_url,
    passwords,
    unfit_database,
    unfit_url,
)
from gateway.outbound.yaml_files import Document, Problem

KINDS = ("folder", "database", "url")
EXPANDED: tuple[Where, ...] = (
    *(("places", "*", kind) for kind in KINDS),
    ("places", "*", "env", "*"),
    ("places", "*", "headers", "*"),
    ("places", "*", "wrapper", "*"),
)
"""Where references are replaced."""

_ONLY_FOR = {"env": "folder", "wrapper": "folder", "ignore": "folder", "limits": "folder", "headers": "url"}


class LimitsEntry(FilePart):
    """What a command in a folder may take; as is usual where not said."""

    memory_mb: int | None = Field(default=None, ge=16)
    processes: int | None = Field(default=None, ge=1, le=100_000)
    file_mb: int | None = Field(default=None, ge=1)
    open_files: int | None = Field(default=None, ge=16)
    copied_mb: int | None = Field(default=None, ge=1)
    copied_files: int | None = Field(default=None, ge=1)


class PlaceEntry(FilePart):
    """A folder, a database or an address at which verifiers look."""

    folder: str | None = None
    database: str | None = None
    url: str | None = None
    env: dict[str, str] = Field(default={})
    wrapper: tuple[str, ...] = ()
    ignore: tuple[str, ...] | None = None
    limits: LimitsEntry = LimitsEntry()
    headers: dict[str, str] = Field(default={})

    def place(self, name: str, text: Callable[..., str], folder: Path) -> Place:
        """The place. `text` gives what stands at a key, with references replaced.

        What came by reference may be a secret, and is not told of what was seen there.
        """
        maps: Mapping[str, Mapping[str, str]] = {"env": self.env, "headers": self.headers}
        values = {key: {one: text(key, one) for one in given} for key, given in maps.items()}
        hidden = tuple(
            secret
            for key, given in maps.items()
            for one, written in given.items()
            for secret in _brought(written, values[key][one])
        )
        if self.folder is not None:
            return FolderPlace(
                name,
                folder / text("folder"),
                values["env"],
                tuple(text("wrapper", at) for at in range(len(self.wrapper))),
                IGNORED if self.ignore is None else self.ignore,
                Limits(**self.limits.model_dump(exclude_none=True)),
                hidden,
            )
        if self.database is not None:
            url = text("database")
            return DatabasePlace(name, database_url(url, folder), passwords(url))
        return UrlPlace(name, text("url"), values["headers"], hidden)


def _brought(written: str, text: str) -> tuple[str, ...]:
    """What references brought into the text: the whole of it, and each word that is not written."""
    return () if written == text else (text, *(word for word in text.split() if word not in written.split()))


def place_problems(document: Document) -> Iterator[Problem]:
    """All that does not fit together in the places of the file."""
    for where, entry in parts(document.value, ("places", "*")):
        if not re.fullmatch(NAME_PATTERN.strip("^$"), str(where[-1])):
            yield document.problem(where, f"`{str(where[-1])[:64]}` is no name", at_key=True)
        if not isinstance(entry, Mapping):
            continue
        kinds = [kind for kind in KINDS if kind in entry]
        if not kinds:
            yield document.problem(where, "say what it is: `folder`, `database` or `url`", at_key=True)
            continue
        for other in kinds[1:]:
            yield document.problem((*where, other), f"`{other}` and `{kinds[0]}` exclude each other", at_key=True)
        for key, kind in _ONLY_FOR.items():
            if key in entry and kind not in kinds:
                yield document.problem((*where, key), f"`{key}` is only for a place with a `{kind}`", at_key=True)


def unfit_place(where: Where, text: str, folder: Path) -> str | None:
    """Why the value cannot be used, or None. Says nothing of the value itself."""
    match where:
        case ("places", _, "folder"):
            return None if (folder / text).is_dir() else "there is no such folder"
        case ("places", _, "database"):
            return unfit_database(text)
        case ("places", _, "url"):
            return unfit_url(text)
        case _:
            return None
