"""Private copies of folders, and digests of what is in them. Links are never followed out, whatever else changes there.

A folder may be written to while it is copied, by whoever wants to be believed. So it is gone through by descriptors, in
which no step is a link, and what is judged is the copy, which nobody else can write.
"""

import hashlib
import os
import shutil
import stat
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from gateway.outbound.looks.faults import CannotLook
from gateway.outbound.looks.globs import is_left_out, names_path
from gateway.outbound.looks.places import FolderPlace

MAX_DEPTH = 64
"""Folders within folders."""

MAX_LISTED = 100_000
"""Files, folders and links, each once for every way that leads to it."""

NOTHING = f"sha256:{hashlib.sha256().hexdigest()}"
"""The digest of no file."""

_CHUNK = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class Room:
    """What may still be copied, and whether anybody still wants it."""

    name: str
    """Of the place, for messages."""
    files: int
    size: int
    called_off: threading.Event = field(default_factory=threading.Event)

    def take(self, files: int, size: int) -> None:
        """So much of it is used up.

        Raises: CannotLook.
        """
        self.files, self.size = self.files - files, self.size - size
        if self.files < 0 or self.size < 0:
            what = "more files" if self.files < 0 else "more in it"
            raise CannotLook(f"`{self.name}` has {what} than is copied for a check; `ignore` leaves some of it out")
        if self.called_off.is_set():
            raise CannotLook("nobody waits for it any more")


def room_of(place: FolderPlace) -> Room:
    """As much as the place's limits say."""
    return Room(place.name, place.limits.copied_files, place.limits.copied_mb * 1024 * 1024)


def copy(place: FolderPlace, into: Path, room: Room) -> None:
    """The place's files are in the folder, which was empty. Links that lead out of it are left out.

    Raises: CannotLook.
    """
    try:
        root = os.open(place.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise CannotLook(f"the folder of `{place.name}` cannot be read: {_why(error)}") from None
    try:
        _Copying(place, room).folder(root, into, "", 0)
    except OSError as error:
        raise CannotLook(f"`{place.name}` cannot be copied: {_why(error)}") from None
    finally:
        os.close(root)
    _cut_links(into)


def lay_over(place: FolderPlace, paths: Sequence[str], into: Path, room: Room) -> None:
    """These paths are in the copy as they are in this place, and whatever else stood there is gone.

    Raises: CannotLook.
    """
    for path in paths:
        target = _cleared(into, path)
        try:
            parent = opened(place.folder, path.rpartition("/")[0])
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CannotLook(f"`{path}` of `{place.name}` cannot be read: {_why(error)}") from None
        try:
            _Copying(place, room).one(parent, path.rpartition("/")[2], target, path, 0)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise CannotLook(f"`{path}` of `{place.name}` cannot be copied: {_why(error)}") from None
        finally:
            os.close(parent)
    _cut_links(into)


def _cleared(into: Path, path: str) -> Path:
    """Where the path goes: nothing is there, and it is reached by no link."""
    *before, last = path.split("/")
    at = into
    for step in before:
        at /= step
        if at.is_symlink() or not at.is_dir():
            at.unlink(missing_ok=True)
            at.mkdir()
    target = at / last
    if target.is_dir() and not target.is_symlink():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    return target


@dataclass(frozen=True, slots=True)
class _Copying:
    place: FolderPlace
    room: Room

    def folder(self, source: int, target: Path, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise CannotLook(f"`{self.place.name}` has folders within folders, deeper than {MAX_DEPTH}")
        for name in sorted(os.listdir(source)):
            below = f"{path}/{name}" if path else name
            if not is_left_out(self.place.ignore, below):
                with suppress(FileNotFoundError):  # it went away meanwhile
                    self.one(source, name, target / name, below, depth)

    def one(self, source: int, name: str, target: Path, path: str, depth: int) -> None:
        kind = os.stat(name, dir_fd=source, follow_symlinks=False).st_mode
        self.room.take(1, 0)
        if stat.S_ISLNK(kind):
            target.symlink_to(os.readlink(name, dir_fd=source))
        elif stat.S_ISDIR(kind):
            inner = os.open(name, _FOLDER, dir_fd=source)
            try:
                target.mkdir()
                self.folder(inner, target, path, depth + 1)
            finally:
                os.close(inner)
        elif stat.S_ISREG(kind):
            self._file(os.open(name, _FILE, dir_fd=source), target)

    def _file(self, source: int, target: Path) -> None:
        with os.fdopen(source, "rb") as reading:
            state = os.fstat(source)
            if not stat.S_ISREG(state.st_mode):
                return
            mode = 0o700 if state.st_mode & stat.S_IXUSR else 0o600
            made = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            with os.fdopen(made, "wb") as writing:
                while piece := reading.read(_CHUNK):
                    self.room.take(0, len(piece))
                    writing.write(piece)


def _cut_links(root: Path) -> None:
    """No link of the copy leads out of it, by whichever other links."""
    real = root.resolve()
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            one = Path(folder, name)
            if one.is_symlink() and not _leads_within(one, real):
                one.unlink()


def _leads_within(link: Path, root: Path) -> bool:
    try:
        return link.resolve().is_relative_to(root)
    except (OSError, RuntimeError):  # a circle
        return False


# --- what is there --------------------------------------------------------------------------------------------------


def opened(root: Path, path: str) -> int:
    """A descriptor of the folder at that path below the root, reached by no link.

    Raises: OSError.
    """
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for step in path.split("/") if path else ():
        try:
            inner = os.open(step, _FOLDER, dir_fd=at)
        finally:
            os.close(at)
        at = inner
    return at


def opened_file(root: Path, path: str) -> int:
    """A descriptor of what stands at that path, reached by no link and being none. It may be no plain file.

    Raises: OSError.
    """
    folder = opened(root, path.rpartition("/")[0])
    try:
        return os.open(path.rpartition("/")[2], _FILE, dir_fd=folder)
    finally:
        os.close(folder)


class Listing:
    """All files and links below a folder that nobody writes to, also what is reached by links to folders."""

    def __init__(self, root: Path) -> None:
        """No link may lead out of it.

        Raises: CannotLook.
        """
        self._at = dict(sorted(_below(root)))
        self._known: dict[Path, bytes] = {}

    def digest(self, patterns: Iterable[str]) -> str:
        """The digest of the paths and contents of what the patterns name."""
        asked = list(patterns)
        whole = hashlib.sha256()
        for path, at in self._at.items():
            if any(names_path(pattern, path) for pattern in asked):
                whole.update(os.fsencode(path) + b"\0" + self._line(Path(at)))
        return f"sha256:{whole.hexdigest()}"

    def _line(self, at: Path) -> bytes:
        """No two sets of files add up to the same: a path has no NUL, and what is said here of each has a size."""
        if not at.is_symlink():
            return b"f" + self._content(at)
        link = b"l" + hashlib.sha256(os.fsencode(at.readlink())).digest()
        # What is in a folder stands below the link, by paths of its own.
        return link + (b"f" + self._content(at) if at.is_file() else b"d" if at.is_dir() else b"n")

    def _content(self, at: Path) -> bytes:
        real = at.resolve()
        if real not in self._known:
            with real.open("rb") as file:
                self._known[real] = hashlib.file_digest(file, "sha256").digest()
        return self._known[real]


def _below(root: Path) -> Iterator[tuple[str, str]]:
    """Each path, and where it stands. No way leads through a link to a folder in which it is by such a link already."""
    left: list[tuple[str, str, frozenset[str]]] = [(str(root), "", frozenset())]
    found = _Found()
    met = 0
    while left:
        folder, path, entered = left.pop()
        for name, at, leads in found.within(folder):
            met += 1
            if met > MAX_LISTED:
                raise CannotLook(f"links to folders lead to more than {MAX_LISTED} files")
            below = f"{path}/{name}" if path else name
            if leads != at:
                yield below, at
            if leads == at:
                left.append((at, below, entered))
            elif leads is not None and leads not in entered:
                left.append((leads, below, entered | {leads}))


class _Found:
    """What is in folders, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, list[tuple[str, str, str | None]]] = {}

    def within(self, folder: str) -> list[tuple[str, str, str | None]]:
        """The name of each, where it stands, and the folder that it leads to, which is itself where it is one."""
        if folder not in self._known:
            with os.scandir(folder) as all_of_it:
                self._known[folder] = [(one.name, one.path, _leads_to(one)) for one in all_of_it]
        return self._known[folder]


def _leads_to(one: os.DirEntry[str]) -> str | None:
    if not one.is_symlink():
        return one.path if one.is_dir() else None
    real = os.path.realpath(one.path)
    return real if Path(real).is_dir() else None


def digests(place: FolderPlace, patterns: Sequence[str]) -> dict[str, str]:
    """As `pinned` wants them, of the place's files as they are now, which are copied for it as for a check.

    Raises: CannotLook.
    """
    with TemporaryDirectory(prefix="counterfoil-") as made:
        copy(place, Path(made), room_of(place))
        there = Listing(Path(made))
        return {pattern: there.digest([pattern]) for pattern in patterns}


def _why(error: OSError) -> str:
    return (error.strerror or "it fails").lower()
