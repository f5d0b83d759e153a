import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.processes import Size
from tests.soak import FILES_SLACK, troubles

BEFORE = Size(rss_kb=100_000, threads=5, files=18, children=2)


@pytest.mark.parametrize(
    ("after", "wrong", "found"),
    [
        (Size(110_000, 9, 18 + FILES_SLACK, 2), [], []),
        (Size(90_000, 5, 10, 1), [], []),
        (Size(110_001, 5, 18, 2), [], ["memory: grew by 9.8 MiB, 9.8 MiB allowed"]),
        (Size(100_000, 5, 18, 3), [], ["children: 2 before, 3 after"]),
        (Size(100_000, 5, 27, 2), [], ["file descriptors: 18 before, 27 after, 8 more allowed"]),
        (BEFORE, ["{}"], ["1 wrong answers, the first: {}"]),
    ],
)
def test_what_does_not_come_back_is_named(after: Size, wrong: list[str], found: list[str]) -> None:
    assert list(troubles(BEFORE, after, 10_000, wrong)) == found


@pytest.mark.slow
@pytest.mark.long
def test_a_small_soak_leaves_nothing_behind() -> None:
    command = [sys.executable, "-m", "tests.soak", "--calls", "2000", "--sessions", "50"]
    with subprocess.Popen(
        command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as soak:
        try:
            said, _ = soak.communicate(timeout=240)
        finally:
            soak.terminate()  # and not killed: it ends what it started
    assert soak.returncode == 0, said
