"""(workflow, the files that it includes) -> one value, each part of which knows the file that it stands in."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.model.flaws import Place, texts
from gateway.model.policy import Shared
from gateway.outbound.watched import Watched
from gateway.outbound.yaml_files import Document, Problem, Problems

_ELSEWHERE = re.compile(r"[/~]|[A-Za-z]:")
"""How a path begins that is not relative to the file that names it."""


_BY_NAME = tuple(part for part in Shared.model_fields if part != "grants")


class Whole:
    """A workflow and what it includes, merged: its own entries first, then those of each file in turn."""

    def __init__(self, own: Document, shared: list[Document]) -> None:
        self.file = own.file
        """Of the workflow."""
        self._own = own
        self._documents = [own, *shared]
        self._origin: dict[Place, tuple[Document, Place]] = {}
        self.problems: list[Problem] = []
        """What stands in two of the files, and may not."""
        self.value: dict[str, Any] = dict(own.value)
        if shared:
            self._merge_grants()
            for part in _BY_NAME:
                self._merge(part)

    def problem(
        self, place: Place, message: str, *, at_key: bool = False, within: tuple[int, int] | None = None
    ) -> Problem:
        """As `Document.problem`, of the file in which that part stands."""
        document, start = self._origin.get(place[:2], (self._own, place[:2]))
        return document.problem((*start, *place[2:]), message, at_key=at_key, within=within)

    def _merge_grants(self) -> None:
        merged: list[Any] = []
        for document in self._documents:
            said = document.value.get("grants", [])
            for index, grant in enumerate(said if isinstance(said, list) else []):
                self._origin["grants", len(merged)] = document, ("grants", index)
                merged.append(grant)
        self._put("grants", merged)

    def _merge(self, part: str) -> None:
        merged: dict[str, Any] = {}
        for document in self._documents:
            said = document.value.get(part, {})
            for name, entry in said.items() if isinstance(said, Mapping) else ():
                if name not in merged:
                    merged[name] = entry
                    self._origin[part, name] = document, (part, name)
                else:
                    self._twice((part, name), document)
        self._put(part, merged)

    def _put(self, part: str, merged: Any) -> None:
        # What is of another type than it should be is told where it stands, and stays where it is.
        if isinstance(self.value.get(part, merged), type(merged)):
            self.value[part] = merged

    def _twice(self, place: Place, document: Document) -> None:
        first = self._origin[place][0]
        if first is self._own:
            if place[0] == "tools":
                return  # a workflow may say otherwise of a tool than the registry that it shares
            first, document = document, first  # the shared file is right for others
        there = first.problem(place, "", at_key=True)
        message = f"`{place[1]}` stands in {there.file}:{there.line}:{there.column} too"
        self.problems.append(document.problem(place, message, at_key=True))


def included(own: Document, files: Watched) -> tuple[list[Document], list[Problem]]:
    """The files that the workflow names, and what is wrong with how it names them, or with one of them as YAML."""
    found: list[Document] = []
    problems: list[Problem] = []
    seen: set[Path] = set()
    for place, name in texts(own.value, ("include", "*")):
        try:
            found.append(_included(own, place, name, files, seen))
        except Problems as error:
            problems += error.problems
    return found, problems


def _included(own: Document, place: Place, name: str, files: Watched, seen: set[Path]) -> Document:
    """The file. Raises: Problems."""
    wrong = next(_misnamed(name), None)
    if wrong is None:
        path = _plain(Path(own.file).parent / name)
        shared = _read(path, files)
        if shared is None:
            wrong = f"there is no file `{path}`"
        elif path.resolve() in seen:
            wrong = "is included twice"
        elif not isinstance(shared.value, Mapping) or "workflow" not in shared.value:
            seen.add(path.resolve())
            return shared
        else:
            wrong = "is a workflow; only a file without `workflow` can be included"
    raise Problems([own.problem(place, wrong)])


def _plain(path: Path) -> Path:
    """The path without its detours (`policies/../shared.yaml`), where that is the same file."""
    plain = Path(os.path.normpath(path))
    return plain if plain.resolve() == path.resolve() else path


def _read(path: Path, files: Watched) -> Document | None:
    """The file, None if there is none; that there is none is remembered too. Raises: Problems."""
    try:
        return files.read(path)
    except Problems:
        if path.exists():
            raise
        return None


def _misnamed(name: str) -> Iterator[str]:
    if _ELSEWHERE.match(name) or "\\" in name or not name.isprintable():
        yield "a path that starts from the folder of this file is wanted, with `/` between names"
    if not name.endswith(".yaml"):
        yield "the name of an included file ends in `.yaml`"
