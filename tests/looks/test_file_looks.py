"""A file's digest: of what stands there, and never of what is elsewhere."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.looks import FolderPlace
from gateway.ports import Answer
from tests.looks.made import look, seen, why

pytestmark = pytest.mark.anyio


async def at(folder: Path, path: Any) -> Answer:
    return await look("file", {"path_from": "args.path"}, FolderPlace("notes", folder), told={"path": path})


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "b.txt").write_text("hello")
    (tmp_path / "secret").write_text("s3cr3t")
    return folder


async def test_a_file_is_known_by_its_digest(notes: Path) -> None:
    digest = f"sha256:{hashlib.sha256(b'hello').hexdigest()}"
    told = {"exists": True, "kind": "file", "size": 5, "digest": digest}
    assert seen(await look("file", {"path": "a/b.txt"}, FolderPlace("notes", notes))) == told
    (notes / "link").symlink_to("a")
    assert seen(await at(notes, "link/b.txt")) == told
    assert seen(await at(notes, "a")) == {"exists": True, "kind": "folder"}
    for gone in ("a/c.txt", "c", "a/b.txt/c"):
        assert seen(await at(notes, gone)) == {"exists": False}


async def test_links_and_dots_lead_nowhere_else(notes: Path, tmp_path: Path) -> None:
    (notes / "out").symlink_to(tmp_path / "secret")
    (notes / "up").symlink_to("..")
    (notes / "circle").symlink_to("circle")
    for path in ("out", "up/secret", "up"):
        assert why(await at(notes, path)) == "the path leads out of `notes`"
    assert why(await at(notes, "circle")) == "the path leads into a circle of links"
    for path in ("../secret", "/etc/passwd", "a/../../secret", "a//b.txt", "", ".", "a\\b", "a\x00b", "a/"):
        assert why(await at(notes, path)) == "`path_from` gives no path below the place"
    assert why(await at(notes, 5)) == "`path_from` gives no text"


async def test_a_pipe_is_seen_and_not_opened(notes: Path) -> None:
    os.mkfifo(notes / "pipe")
    assert seen(await at(notes, "pipe")) == {"exists": True, "kind": "other"}


async def test_a_place_that_is_gone_is_told(tmp_path: Path) -> None:
    assert why(await at(tmp_path / "gone", "a")) == "the folder of `notes` cannot be read"
