"""The files of a check: the copy is of what is there, what an agent edits is noticed, and links lead nowhere."""

import os
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.looks import FolderPlace, Limits, folders
from gateway.outbound.looks.folders import digests
from gateway.outbound.looks.globs import is_left_out, names_path
from tests.looks.made import PYTEST, look, python, run, seen, verdict, why

pytestmark = pytest.mark.anyio

LIST = """
import os
found = [os.path.join(at, one) for at, folders, files in os.walk(".") for one in (*files, *folders)]
print(sorted(os.path.relpath(one) for one in found if os.path.islink(one) or not os.path.isdir(one)))
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "tests").mkdir(parents=True)
    (folder / "shop.py").write_text("def total(): return 41\n")
    (folder / "tests" / "test_shop.py").write_text(
        "import sys; sys.path.insert(0, '.')\nfrom shop import total\ndef test_total(): assert total() == 42\n"
    )
    return folder


CHECK: dict[str, Any] = {"command": {"place": "repo", "run": PYTEST, "junit": "report.xml"}}


# --- an agent that games its verifier -------------------------------------------------------------------------------


async def test_a_pinned_test_that_was_edited_proves_nothing_and_is_named(repo: Path) -> None:
    pinned = digests(FolderPlace("repo", repo), ["tests", "*.ini"])
    honest = await run(repo, *PYTEST, junit="report.xml", pinned=pinned)
    assert verdict(CHECK, honest)[0] == "fail"
    (repo / "tests" / "test_shop.py").write_text("def test_total(): pass\n")
    gamed = await run(repo, *PYTEST, junit="report.xml", pinned=pinned)
    assert verdict(CHECK, gamed) == (
        "inconclusive",
        "`it` could not check: the check's own files are not as policy pins them: `tests`",
    )


@pytest.mark.parametrize("name", ["tests/conftest.py", "pytest.ini", "conftest.py"])
async def test_a_file_that_is_added_where_files_are_pinned_is_noticed(repo: Path, name: str) -> None:
    pinned = digests(FolderPlace("repo", repo), ["tests/**", "pytest.ini", "conftest.py"])
    (repo / name).write_text("")
    assert "are not as policy pins them" in why(await run(repo, "true", pinned=pinned))


async def test_a_pinned_file_that_is_gone_or_a_link_now_is_noticed(repo: Path) -> None:
    pinned = digests(FolderPlace("repo", repo), ["tests/test_shop.py"])
    test = repo / "tests" / "test_shop.py"
    (repo / "same.py").write_text(test.read_text())
    test.unlink()
    assert "are not as policy pins them" in why(await run(repo, "true", pinned=pinned))
    test.symlink_to("../same.py")
    assert "are not as policy pins them" in why(await run(repo, "true", pinned=pinned))


@pytest.mark.parametrize("changed", ["lib/tests/test_a.py", "shared/expected.json", "lib/tests/more/test_b.py"])
async def test_what_a_pinned_link_leads_to_is_pinned_with_it(repo: Path, changed: str) -> None:
    (repo / "lib" / "tests" / "more").mkdir(parents=True)
    (repo / "lib" / "tests" / "up").symlink_to("../..")  # a circle, which ends somewhere
    (repo / "lib" / "tests" / "test_a.py").write_text("assert 0")
    (repo / "shared").mkdir()
    (repo / "shared" / "expected.json").write_text("1")
    (repo / "golden").mkdir()
    (repo / "golden" / "e.json").symlink_to("../shared/expected.json")
    (repo / "unit").symlink_to("lib/tests")
    pinned = digests(FolderPlace("repo", repo), ["unit/*.py", "unit/more/**", "golden"])
    assert seen(await run(repo, "true", pinned=pinned))["exit"] == 0
    (repo / changed).write_text("pass")
    assert "are not as policy pins them" in why(await run(repo, "true", pinned=pinned))


async def test_links_that_multiply_what_is_there_end_somewhere(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "MAX_LISTED", 5_000)
    for one in range(10):
        (repo / f"d{one}").mkdir()
        for other in range(10):
            (repo / f"d{one}" / f"l{other}").symlink_to(f"../d{other}")
    assert why(await run(repo, "true")) == "links to folders lead to more than 5000 files"


async def test_trusted_files_take_the_place_of_what_an_agent_made_of_them(repo: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    (kept / "tests").mkdir(parents=True)
    (kept / "tests" / "test_shop.py").write_text((repo / "tests" / "test_shop.py").read_text())
    (repo / "tests" / "test_shop.py").write_text("def test_total(): pass\n")
    (repo / "tests" / "conftest.py").write_text("def pytest_collection_modifyitems(items): items.clear()\n")
    (repo / "conftest.py").write_text("import sys; sys.exit(0)\n")
    said = {"run": PYTEST, "junit": "report.xml", "trusted": {"place": "kept", "paths": ["tests", "conftest.py"]}}
    answer = await look("command", said, FolderPlace("repo", repo), FolderPlace("kept", kept))
    assert verdict(CHECK, answer) == ("fail", "`it` found that 1 of 1 tests failed: `tests.test_shop::test_total`")


async def test_trusted_files_are_not_laid_through_a_link_of_the_agents(repo: Path, tmp_path: Path) -> None:
    kept, outside = tmp_path / "kept", tmp_path / "outside"
    (kept / "tests" / "unit").mkdir(parents=True)
    (kept / "tests" / "unit" / "test_a.py").write_text("kept")
    outside.mkdir()
    (repo / "tests" / "test_shop.py").unlink()
    (repo / "tests").rmdir()
    (repo / "src").mkdir()
    (repo / "tests").symlink_to("src")
    said = {
        "run": ["sh", "-c", "cat tests/unit/test_a.py; ls -A src"],
        "trusted": {"place": "kept", "paths": ["tests/unit"]},
    }
    answer = await look("command", said, FolderPlace("repo", repo), FolderPlace("kept", kept))
    assert seen(answer)["output"] == "kept"


async def test_compiled_code_is_not_taken_along(repo: Path) -> None:
    """Python runs it in place of the source beside it, if that looks as old and as large."""
    (repo / "__pycache__").mkdir()
    (repo / "__pycache__" / "shop.cpython-311.pyc").write_text("x")
    (repo / "tests" / "__pycache__").mkdir()
    (repo / ".git").mkdir()
    (repo / ".git" / "config").write_text("x")
    assert seen(await python(repo, LIST))["output"] == "['shop.py', 'tests/test_shop.py']\n"


# --- what the evidence is about -------------------------------------------------------------------------------------


async def test_the_revision_is_that_of_the_inputs_and_of_nothing_else(repo: Path) -> None:
    async def revision(**said: Any) -> str:
        return str(seen(await run(repo, "true", **said))["revision"])

    first, whole = await revision(inputs=["*.py"]), await revision()
    (repo / "notes.txt").write_text("x")
    assert await revision(inputs=["*.py"]) == first
    assert await revision() != whole
    (repo / "shop.py").write_text("def total(): return 42\n")
    assert await revision(inputs=["*.py"]) != first
    written = seen(await python(repo, "open('shop.py', 'w')", inputs=["*.py"]))["revision"]
    assert written == await revision(inputs=["*.py"])


# --- links, and what else is no file --------------------------------------------------------------------------------


async def test_links_that_lead_out_are_left_out_by_whichever_way_they_lead(repo: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cr3t")
    (repo / "in").symlink_to("shop.py")
    (repo / "deep").symlink_to("tests")
    (repo / "out").symlink_to(tmp_path / "secret")
    (repo / "up").symlink_to("../secret")
    (repo / "folder").symlink_to("/etc")
    (repo / "self").symlink_to("self")
    (repo / "tests" / "root").symlink_to("..")
    (repo / "sly").symlink_to("tests/root/../../secret")
    (repo / "nowhere").symlink_to("not-there")
    listed = seen(await python(repo, LIST))["output"]
    assert listed == "['deep', 'in', 'nowhere', 'shop.py', 'tests/root', 'tests/test_shop.py']\n"


async def test_pipes_are_not_waited_for(repo: Path) -> None:
    os.mkfifo(repo / "pipe")
    assert seen(await python(repo, LIST))["output"] == "['shop.py', 'tests/test_shop.py']\n"


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        (Limits(copied_files=2), "`repo` has more files than is copied for a check; `ignore` leaves some of it out"),
        (Limits(copied_mb=1), "`repo` has more in it than is copied for a check; `ignore` leaves some of it out"),
    ],
)
async def test_what_is_copied_is_bounded(repo: Path, limits: Limits, says: str) -> None:
    (repo / "big").write_bytes(bytes(2 * 1024 * 1024))
    assert why(await look("command", {"run": ["true"]}, FolderPlace("repo", repo, limits=limits))) == says


async def test_folders_within_folders_end_somewhere(repo: Path) -> None:
    deep = repo.joinpath(*["d"] * 80)
    deep.mkdir(parents=True)
    assert "deeper than 64" in why(await run(repo, "true"))


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    assert why(await run(tmp_path / "gone", "true")) == (
        "the folder of `repo` cannot be read: no such file or directory"
    )


@pytest.mark.parametrize(
    ("pattern", "path", "named"),
    [
        ("**", "a/b/c", True),
        ("a", "a/b/c", True),
        ("a", "ab", False),
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "b.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("a/**/c", "a/c", True),
        ("a/**/c", "a/b/b/c/d", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a.b", "axb", False),
        ("a/**", "a/b", True),
    ],
)
def test_what_a_pattern_names(pattern: str, path: str, *, named: bool) -> None:
    assert names_path(pattern, path) is named


def test_what_is_left_out_is_named_by_step_or_by_path() -> None:
    assert is_left_out(["__pycache__"], "a/b/__pycache__")
    assert is_left_out(["*.pyc"], "a/b.pyc")
    assert not is_left_out(["a/b"], "x/a/b")
    assert is_left_out(["a/b"], "a/b")
