"""The external head: the newest checkpoint in a file outside the ledger, by which a shortened or replaced ledger shows.

Only the newest is kept: whatever the older ones said, it says too, for a log only grows. Whoever wants a history copies
each version to where nothing can be taken back. The file is replaced as a whole and never goes back, whichever of
several gateways writes it.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gateway.model.note import BadNote, Note, read_note

_MODE = 0o600


class BadHead(ValueError):
    """The file is there, and is no checkpoint, or cannot be read or written."""


class HeadFile:
    """One ledger's head, at that path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Note | None:
        """The newest checkpoint that was written; None if there was none yet.

        Raises: BadHead.
        """
        try:
            return read_note(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (BadNote, UnicodeDecodeError) as error:
            raise BadHead(f"`{self.path}` is no checkpoint of a ledger: {error}") from None
        except OSError as error:
            raise BadHead(f"`{self.path}` cannot be read: {(error.strerror or 'it fails').lower()}") from None

    def write(self, note: Note) -> bool:
        """Whether it is the head now, durably: not if a larger or equal one of this ledger stands there.

        Raises: BadHead, also if the one that stands there is of another ledger.
        """
        try:
            # Where a link leads, so that what it names is replaced and not the link.
            path = self.path.resolve()
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(path):
                stands = self.read()
                if stands is not None and stands.origin != note.origin:
                    raise BadHead(f"`{self.path}` is the head of another ledger, `{stands.origin}`")
                if stands is not None and stands.size >= note.size:
                    return False
                _replace(path, str(note).encode())
        except OSError as error:
            raise BadHead(f"`{self.path}` cannot be written: {(error.strerror or 'it fails').lower()}") from None
        return True


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """No other gateway of this machine is between reading and replacing. The system drops the lock of who dies."""
    lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, _MODE)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _replace(path: Path, body: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:  # noqa: PTH123 - of a descriptor
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)  # a name that is not durable is lost with the power
    finally:
        os.close(folder)
