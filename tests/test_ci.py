"""The last lines of a run of `.ci/run`: whatever failed is there by its id, also where only they are kept."""

import subprocess
import sys
from pathlib import Path

import pytest

TELL = Path(__file__).parents[1] / ".ci" / "tell.py"
GREEN, RED, LOUD = (
    "def test_it(): pass\n",
    "def test_it(): assert 1 == 2\n",
    "class TestA:\n def test_it(self): raise OSError('gone')\n",
)


def tried(folder: Path, report: str, **files: str) -> None:
    """The report of a run of these tests."""
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    paths = [f"test_{name}.py" for name in files]
    options = ["-q", "-n", "0", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", f"--junitxml={report}.xml"]
    subprocess.run([sys.executable, "-m", "pytest", *options, *paths], cwd=folder, check=False, capture_output=True)


def tell(*args: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TELL, *args], capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_each_failed_test_is_told_at_the_end_and_one_that_passed_alone_is_flaky(tmp_path: Path) -> None:
    tried(tmp_path, "check", green=GREEN, red=RED, loud=LOUD)
    tried(tmp_path, "slow", other=GREEN)
    assert tell(tmp_path, "few", "check").returncode == 0
    assert tell(tmp_path, "few", "slow").returncode == 1, "nothing failed there"
    first = tell(tmp_path).stdout.splitlines()
    assert first[0] == "the 4 slowest tests:"
    assert first[-3:] == [
        "2 passed, 2 failed, 0 skipped",
        "!!! FAILED: test_loud.py::TestA::test_it: OSError: gone | test_loud.py:2: OSError",
        "!!! FAILED: test_red.py::test_it: assert 1 == 2 | test_red.py:1: AssertionError",
    ]
    tried(tmp_path, "check.again", red=RED, loud=GREEN.replace("def", "class TestA:\n def").replace("()", "(self)"))
    again = tell(tmp_path).stdout.splitlines()
    assert again[-3:] == [
        "3 passed, 1 failed, 0 skipped",
        "!!! FLAKY: test_loud.py::TestA::test_it: OSError: gone | test_loud.py:2: OSError",
        "!!! FAILED: test_red.py::test_it: assert 1 == 2 | test_red.py:1: AssertionError",
    ]


@pytest.mark.slow
def test_many_that_fail_are_not_tried_again_and_what_cannot_be_collected_is_told(tmp_path: Path) -> None:
    tried(
        tmp_path, "check", many="import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(n): assert not 1\n"
    )
    assert tell(tmp_path, "few", "check").returncode == 1
    tried(tmp_path, "check", broken="import nothing_of_that_name\n")
    assert tell(tmp_path, "few", "check").returncode == 0
    missing = "ModuleNotFoundError: No module named 'nothing_of_that_name'"
    assert tell(tmp_path).stdout.splitlines()[-1] == f"!!! FAILED: test_broken.py: collection failure | E   {missing}"
