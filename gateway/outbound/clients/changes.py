"""Files changed together, and taken back: each is replaced as a whole or not at all, and what it was is kept.

A record of each change stands in a folder of the user's own, with every file as it was and as it was left.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Any

from gateway.outbound.clients.sheet import Unusable

MAX_BYTES = 32 << 20
OWN_MODE = 0o600
RECORD = "record.json"
UNTOUCHED = "all files are as they were"
TELLING = 24
"""Bytes of ours that are long enough to be known again in a file that others have changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """A file as it is and as it is to be; None where there is none."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = OWN_MODE


@dataclass(frozen=True, slots=True)
class Taken:
    """What taking a file back would do, or why it cannot be done."""

    change: Change
    lost: bytes | None = None
    """What we left there, where what was done to it since would be lost."""


def content(path: Path) -> bytes | None:
    """What stands in the file; None where there is none.

    Raises: Unusable for what is no plain file, or cannot be read.
    """
    try:
        kind = path.lstat().st_mode
        if stat.S_ISLNK(kind):
            raise Unusable(f"`{path}` is a symbolic link, and replacing it would cut it off; leave its client out, or "
                           "put the file itself there")  # fmt: skip
        if not stat.S_ISREG(kind):
            raise Unusable(f"`{path}` is no plain file; move it away, or leave its client out")
        with path.open("rb") as opened:
            body = opened.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        why = (error.strerror or "the system refuses").lower()
        raise Unusable(f"`{path}` cannot be read ({why}); mend that, or leave its client out") from None
    if len(body) > MAX_BYTES:
        raise Unusable(f"`{path}` is larger than {MAX_BYTES >> 20} MiB; leave its client out")
    return body


def mode_of(path: Path) -> int:
    """Who may do what with the file."""
    return stat.S_IMODE(path.stat().st_mode)


def apply(changes: Sequence[Change], records: Path) -> None:
    """Every change made, after it was recorded; if one fails, those before it are taken back.

    Raises: Unusable.
    """
    for change in changes:
        _unchanged(change)
    try:
        step = _record(changes, records)
    except OSError as error:
        raise _told(records, error, UNTOUCHED) from None
    done: list[Change] = []
    try:
        for change in changes:
            _unchanged(change)
            _put(change)
            done.append(change)
    except (OSError, Unusable) as error:
        for change in reversed(done):
            _put(Change(change.path, change.after, change.before, change.mode))
        _forget(step)  # and if that fails, the record is still there for `--undo`
        raise error if isinstance(error, Unusable) else _told(changes[len(done)].path, error, UNTOUCHED) from None


def take_back(changes: Sequence[Change], records: Path) -> None:
    """Every change made, and the records gone. After a failure it may be asked for again.

    Raises: Unusable.
    """
    for change in changes:
        _unchanged(change)
        try:
            _put(change)
        except OSError as error:
            raise _told(change.path, error, "mend that and run it again") from None
    for step in _steps(records):
        _forget(step)


def taken_back(records: Path, sound: Callable[[Path, bytes], bool]) -> list[Taken]:
    """What undoes every recorded change: each file as it was before the first of them, the clients' files first.

    What others changed elsewhere in a file is kept, if the outcome is `sound`.

    Raises: Unusable.
    """
    found: dict[Path, Taken] = {}
    for step in reversed(_steps(records)):
        for number, file in enumerate(_files(step)):
            path = Path(file["path"])
            before = (step / f"{number}.before").read_bytes() if file["existed"] else None
            after = (step / f"{number}.after").read_bytes()
            so_far = found.get(path) or Taken(Change(path, now := content(path), now, file["mode"]))
            if so_far.lost is None:
                at = so_far.change.after
                then, fits = _without(before, after, at, partial(sound, path))
                found[path] = Taken(Change(path, so_far.change.before, then, file["mode"]), None if fits else after)
    return list(reversed(found.values()))


def _without(
    before: bytes | None, after: bytes, now: bytes | None, sound: Callable[[bytes], bool]
) -> tuple[bytes | None, bool]:
    """The file as it is now without what we changed in it; False where that cannot be told from what others did."""
    if now is None or now in {before, after}:
        return before, True
    if before is not None:
        lines = [body.splitlines(keepends=True) for body in (before, after, now)]
        for merged in (_merged(*lines), _cut_out(before, after, now)):
            if merged is not None and sound(merged):
                return merged, True
    return now, False


def _cut_out(before: bytes, after: bytes, now: bytes) -> bytes | None:
    """The same for a file on one line, where what is ours is known again by its bytes."""
    start = _alike(before, after)
    end = min(_alike(before[::-1], after[::-1]), len(before) - start, len(after) - start)
    ours, theirs = after[start : len(after) - end], before[start : len(before) - end]
    known = after.count(b"\n") <= 1 and len(ours) >= TELLING and now.count(ours) == 1
    return now.replace(ours, theirs) if known else None


def _merged(before: list[bytes], after: list[bytes], now: list[bytes]) -> bytes | None:
    """The lines of `now` with what led from `before` to `after` turned back; None where others changed it too."""
    blocks = SequenceMatcher(None, after, now).get_matching_blocks()
    kept = {block.a + index: block.b + index for block in blocks for index in range(block.size)}
    merged = list(now)
    for kind, start, end, first, last in reversed(SequenceMatcher(None, after, before).get_opcodes()):
        if kind == "equal":
            continue
        lines = range(start, end) if start < end else range(max(start - 1, 0), min(start + 1, len(after)))
        found = [kept.get(line, -1) for line in lines]
        if not found or found[0] < 0 or found != list(range(found[0], found[0] + len(found))):
            return None
        at = found[0] + (1 if start == end and start else 0)
        merged[at : at + end - start] = before[first:last]
    return b"".join(merged)


def _alike(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((at for at, (left, right) in enumerate(pairs) if left != right), min(len(one), len(other)))


def _unchanged(change: Change) -> None:
    if content(change.path) != change.before:
        raise Unusable(f"`{change.path}` was changed in the meantime; run the command again")


def _put(change: Change) -> None:
    """The file as it is to be, whole: never half written, never readable by more people than before."""
    if change.after is None:
        change.path.unlink(missing_ok=True)
        _empty_folder(change.path.parent)
        return
    if not change.path.parent.exists():
        change.path.parent.mkdir(mode=0o700, parents=True)
    fresh = change.path.with_name(f".{change.path.name}.{os.getpid()}")
    _write(fresh, change.after, change.mode)
    try:
        fresh.replace(change.path)
    except OSError:
        fresh.unlink()
        raise


def _write(path: Path, body: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWN_MODE)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(body)
        opened.flush()
        os.fsync(opened.fileno())
    path.chmod(mode)


def _empty_folder(folder: Path) -> None:
    if folder.suffix == ".secrets" and not any(folder.iterdir()):
        folder.rmdir()


def _told(path: Path, error: OSError, what_now: str) -> Unusable:
    return Unusable(f"`{path}` cannot be written ({(error.strerror or 'it fails').lower()}); {what_now}")


# --- records --------------------------------------------------------------------------------------------------------


def _record(changes: Sequence[Change], records: Path) -> Path:
    records.mkdir(mode=0o700, parents=True, exist_ok=True)
    step = records / str(1 + max((int(one.name) for one in records.iterdir()), default=0))
    step.mkdir(mode=0o700)
    for number, change in enumerate(changes):
        for name, body in (("before", change.before), ("after", change.after)):
            if body is not None:
                _write(step / f"{number}.{name}", body, OWN_MODE)
    files = [
        {"path": str(change.path), "existed": change.before is not None, "mode": change.mode} for change in changes
    ]
    _write(
        step / RECORD, json.dumps({"files": files}, indent=1).encode(), OWN_MODE
    )  # last: without it there is no step
    return step


def _steps(records: Path) -> list[Path]:
    """Oldest first."""
    found = [one for one in records.iterdir() if (one / RECORD).exists()] if records.is_dir() else []
    return sorted(found, key=lambda one: int(one.name))


def _files(step: Path) -> Iterator[dict[str, Any]]:
    try:
        said = json.loads((step / RECORD).read_bytes())
    except (OSError, ValueError):
        raise Unusable(
            f"`{step}` holds no record that can be read; the backups in it are the files as they were"
        ) from None
    yield from said["files"]


def _forget(step: Path) -> None:
    (step / RECORD).unlink()
    for file in step.iterdir():
        file.unlink()
    step.rmdir()
