"""Secrets of a place: whatever is seen of them is hidden, however they are spelled, and nothing else is."""

from pathlib import Path

import pytest

from gateway.outbound.looks import FolderPlace
from gateway.outbound.looks.faults import HIDDEN
from gateway.outbound.looks.output import HEAD, TAIL
from tests.looks.made import PYTEST, PYTHON, look, seen, verdict

pytestmark = pytest.mark.anyio


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    return folder


WORD = 'p"a\\ss/wörd-123456'


@pytest.mark.parametrize("margin", [0, 5, 40])
async def test_no_part_of_a_secret_is_left_where_output_is_cut(repo: Path, margin: int) -> None:
    place = FolderPlace("repo", repo, {"T": WORD}, secrets=(WORD,))
    code = (
        f"import os; print('x' * ({HEAD} - {margin}) + os.environ['T'] + 'y' * 99 + os.environ['T'] + 'z' * {TAIL - 3})"
    )
    answer = await look("command", {"run": [PYTHON, "-X", "utf8", "-c", code]}, place)
    output = seen(answer)["output"]
    assert not [part for part in ('p"a', "ss/w", "rd-1", "456") if part in output]
    assert len(output) < HEAD + TAIL + 100


@pytest.mark.parametrize(
    "spell",
    ["json.dumps(t)", "json.dumps(t, ensure_ascii=False)", "urllib.parse.quote(t)", "urllib.parse.quote(t, safe='')"],
)
async def test_a_secret_is_hidden_however_it_is_spelled(repo: Path, spell: str) -> None:
    place = FolderPlace("repo", repo, {"T": WORD}, secrets=(WORD,))
    code = f"import json, os, urllib.parse; t = os.environ['T']; print({spell}, t)"
    answer = await look("command", {"run": [PYTHON, "-X", "utf8", "-c", code]}, place)
    assert seen(answer)["output"].replace('"', "") == f"{HIDDEN} {HIDDEN}\n"


async def test_a_secret_that_is_a_word_of_ours_takes_no_field_away(repo: Path) -> None:
    (repo / "test_it.py").write_text("def test_one(): assert 0\n")
    place = FolderPlace("repo", repo, secrets=("failures", "output", "revision", "sha256"))
    rule = {"command": {"place": "repo", "run": PYTEST, "junit": "report.xml"}}
    answer = await look("command", {"run": PYTEST, "junit": "report.xml"}, place)
    assert verdict(rule, answer)[0] == "fail"
    assert seen(answer)["revision"].startswith("sha256:")
