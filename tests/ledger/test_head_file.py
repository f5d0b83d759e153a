"""The newest checkpoint in a file outside: whole, private, and never back."""

import multiprocessing
import os
from hashlib import sha256
from pathlib import Path

import pytest

from gateway.model.note import Note
from gateway.outbound.head_file import BadHead, HeadFile


def note(size: int, origin: str = "counterfoil/ledger/one") -> Note:
    return Note(origin, size, sha256(b"%d" % size).digest())


def test_the_newest_is_kept_and_it_never_goes_back(tmp_path: Path) -> None:
    head = HeadFile(tmp_path / "outside" / "head")
    assert head.read() is None
    assert [head.write(note(size)) for size in (3, 5, 5, 4, 6)] == [True, True, False, False, True]
    assert head.read() == note(6)
    assert head.path.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in head.path.parent.iterdir()) == [".head.lock", "head"]


def test_the_head_of_another_ledger_is_not_overwritten(tmp_path: Path) -> None:
    head = HeadFile(tmp_path / "head")
    assert head.write(note(3))
    with pytest.raises(BadHead) as raised:
        head.write(note(9, "counterfoil/ledger/two"))
    assert str(raised.value) == f"`{tmp_path}/head` is the head of another ledger, `counterfoil/ledger/one`"
    assert head.read() == note(3)


def test_a_file_that_is_no_head_is_said_and_left(tmp_path: Path) -> None:
    path = tmp_path / "head"
    for body, says in [(b"\xff", "'utf-8' codec"), (b"x", "a checkpoint has an origin, a size and a root")]:
        path.write_bytes(body)
        for use in (HeadFile(path).read, lambda: HeadFile(path).write(note(1))):
            with pytest.raises(BadHead, match=says):
                use()
        assert path.read_bytes() == body


def test_a_place_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadHead) as raised:
        HeadFile(tmp_path / "file" / "head").write(note(1))
    assert str(raised.value) == f"`{tmp_path}/file/head` cannot be written: file exists"
    with pytest.raises(BadHead) as raised:
        HeadFile(tmp_path).read()
    assert str(raised.value) == f"`{tmp_path}` cannot be read: is a directory"


def _writes(path: Path, sizes: list[int]) -> None:
    for size in sizes:
        HeadFile(path).write(note(size))
    os._exit(0)


def test_of_several_processes_that_write_it_the_largest_stands(tmp_path: Path) -> None:
    path, spawn = tmp_path / "head", multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_writes, args=(path, list(range(start, 60, 3)))) for start in (1, 2, 3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert HeadFile(path).read() == note(59)
