"""An agent that edits its own check: what `pinned` notices, what `trusted` undoes, and what is seen with neither."""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from gateway.outbound.looks import FolderPlace
from tests.lies.games import EASY, GAMES, GUARDS, PRINTS, RIGHT, RUN, TEST, WRONG, cells, check, repository
from tests.looks.made import look, seen, verdict

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long]


async def found(said: dict[str, Any], repo: Path, kept: Path | None = None) -> tuple[str, str, str | None]:
    """Verdict, what it says, and the revision that was tested."""
    places = [FolderPlace("repo", repo), *([FolderPlace("kept", kept)] if kept is not None else [])]
    answer = await look("command", said, *places)
    result: dict[str, Any] = getattr(answer, "result", {})
    return *verdict({"command": said}, answer), result.get("revision")


@pytest.mark.parametrize(
    ("game", "guard"),
    [pytest.param(game, guard, marks=[pytest.mark.long] if long else []) for game, guard, long in cells()],
)
async def test_what_a_gamed_check_finds(tmp_path: Path, game: str, guard: str) -> None:
    play, *wanted = GAMES[game]
    repo = repository(tmp_path / "repo")
    kept = shutil.copytree(repo, tmp_path / "kept")
    said = check(guard, repo)
    play(repo)
    given = kept if guard == "trusted" else None
    outcome, says, _ = await found(said, repo, given)
    assert outcome == wanted[GUARDS.index(guard)], says
    if guard == "pinned" and outcome == "inconclusive":
        assert "the check's own files are not as policy pins them: `" in says


@pytest.mark.parametrize("guard", GUARDS)
async def test_honest_work_passes_under_each_guard(tmp_path: Path, guard: str) -> None:
    repo = repository(tmp_path / "repo")
    kept = shutil.copytree(repo, tmp_path / "kept") if guard == "trusted" else None
    said = check(guard, repo)
    (repo / "src" / "shop.py").write_text(RIGHT)
    assert (await found(said, repo, kept))[0] == "pass"


async def test_with_neither_guard_only_the_revision_tells_that_the_tests_are_others(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    said = check("none", repo, inputs=["tests", "pytest.ini"])
    honest = await found(said, repo)
    (repo / "src" / "shop.py").write_text(RIGHT)
    assert (await found(said, repo))[2] == honest[2]
    (repo / "tests" / "test_shop.py").write_text(EASY)
    assert (await found(said, repo))[2] != honest[2]


async def test_a_runner_that_may_import_from_the_folder_is_the_agents_own(tmp_path: Path) -> None:
    """As the docs warn: no guard of files helps where the command runs what the agent adds beside them."""
    repo = repository(tmp_path / "repo")
    kept = shutil.copytree(repo, tmp_path / "kept")
    said = check("trusted", repo, run=[word for word in RUN if word != "-P"])
    GAMES["puts a runner of its own"][0](repo)
    assert (await found(said, repo, kept))[0] == "pass"


async def test_code_that_writes_the_report_is_seen_through_from_outside(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    outside = {"place": "repo", "run": [sys.executable, "-I", "-c", PRINTS], "output": {"const": 42}}
    GAMES["has the code itself write the report"][0](repo)
    assert (await found(outside, repo))[0] == "inconclusive"
    (repo / "src" / "shop.py").write_text(RIGHT)
    assert (await found(outside, repo))[0] == "pass"


@pytest.mark.long
async def test_a_place_whose_own_path_leads_elsewhere_is_what_is_there_now(tmp_path: Path) -> None:
    """As the docs say: whoever may replace the folder, or one above it, decides what is checked."""
    repo = repository(tmp_path / "repo")
    said, pinned = check("none", repo), check("pinned", repo)
    repo.rename(tmp_path / "away")
    other = repository(tmp_path / "other")
    (other / "src" / "shop.py").write_text(RIGHT)
    repo.symlink_to("other")
    assert [(await found(one, repo))[0] for one in (said, pinned)] == ["pass", "pass"]
    (other / "tests" / "test_shop.py").write_text(EASY)
    assert (await found(pinned, repo))[0] == "inconclusive"


async def test_files_that_change_while_the_check_runs_change_nothing_in_it(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "tests" / "test_shop.py").write_text(f"open({str(tmp_path / 'begun')!r}, 'w')\n{TEST}")
    os.mkfifo(tmp_path / "begun")
    said = check("pinned", repo)

    def edit() -> None:
        with (tmp_path / "begun").open():  # until the copy is being tested
            (repo / "src" / "shop.py").write_text(RIGHT)
            (repo / "tests" / "test_shop.py").write_text(EASY)

    async with anyio.create_task_group() as group:
        group.start_soon(anyio.to_thread.run_sync, edit)
        assert (await found(said, repo))[0] == "fail"
    assert "are not as policy pins them" in (await found(said, repo))[1]


async def test_what_the_check_writes_stays_in_its_copy(tmp_path: Path) -> None:
    repo = repository(tmp_path / "repo")
    (repo / "src" / "shop.py").write_text(f"open('tests/test_shop.py', 'w').write({EASY!r})\n{WRONG}")
    assert seen(await look("command", check("none", repo), FolderPlace("repo", repo)))["exit"] == 1
    assert (repo / "tests" / "test_shop.py").read_text() == TEST
