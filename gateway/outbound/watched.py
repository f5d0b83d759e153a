"""Files as they were read, and whether they still are so.

What was read is remembered by its bytes, so that no change can fall between a reading and the look after it, and
each file is read once, so that all who ask in the course of one loading see one state of it.
"""

import hashlib
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from gateway.outbound.yaml_files import Document, Problem, Problems, content, document, unreadable

Looks: TypeAlias = Mapping[Path, str]
"""What files and folders look like: equal if nothing has changed."""

SUFFIXES = frozenset({".yaml", ".yml"})
"""Of the files that count in a folder; the second is refused by whoever loads, so it counts too."""


class Watched:
    """The files of one loading. What is no ordinary file is refused, for a pipe could keep us waiting for ever, unless
    `pipes` are asked for.
    """

    def __init__(self, *, pipes: bool = False) -> None:
        self._pipes = pipes
        self._looks: dict[Path, str] = {}
        self._folders: set[Path] = set()
        self._read: dict[Path, Document | Problems] = {}

    @property
    def looks(self) -> Looks:
        """All that was read, as it looked then."""
        return self._looks

    def again(self) -> Looks:
        """The same files and folders, as they look now."""
        return {path: self._look(path) for path in self._looks}

    def _look(self, path: Path) -> str:
        return _listed(path)[1] if path in self._folders else _content(path, pipes=False)[1]

    def read(self, path: Path) -> Document:
        """The file's values, as they were when it was asked for first.

        Raises: Problems if it cannot be read, or is no YAML at all.
        """
        known = self._read.get(path)
        if known is None:
            found, self._looks[path] = _content(path, pipes=self._pipes)
            known = self._read[path] = _document(found, str(path))
        if isinstance(known, Problems):
            raise known
        return known

    def listed(self, folder: Path) -> list[Path]:
        """The YAML files of a folder, by name; hidden ones are none.

        Raises: Problems if it cannot be read.
        """
        self._folders.add(folder)
        found, self._looks[folder] = _listed(folder)
        if isinstance(found, OSError):
            raise Problems([Problem(str(folder), 1, 1, "", unreadable(found))])
        return found


def _content(path: Path, *, pipes: bool) -> tuple[bytes | OSError, str]:
    """What is in the file, and what it looks like."""
    try:
        if not (pipes or stat.S_ISREG(path.stat().st_mode)):
            return OSError(0, "it is no ordinary file"), "no ordinary file"
        body = content(path)
    except OSError as error:
        return error, f"unreadable: {error.errno}"
    return body, hashlib.sha256(body).hexdigest()


def _document(found: bytes | OSError, file: str) -> Document | Problems:
    if isinstance(found, OSError):
        return Problems([Problem(file, 1, 1, "", unreadable(found))])
    try:
        return document(found, file)
    except Problems as error:
        return error


def _listed(folder: Path) -> tuple[list[Path] | OSError, str]:
    try:
        listed = sorted(one for one in folder.iterdir() if one.suffix in SUFFIXES and not one.name.startswith("."))
    except OSError as error:
        return error, f"unreadable: {error.errno}"
    return listed, "\n".join(str(one) for one in listed)
