"""The demo is the product's argument: it must hold, say so when it does not, and leave nothing behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from gateway.cli.demo import demo, lossy

LIMIT_S = 90
"""For a demo of seven seconds, on a machine that is shared."""
COUNTERFOIL = str(Path(sys.executable).with_name("counterfoil"))


def environment(place: Path, **more: str) -> dict[str, str]:
    """Whatever the demo makes is below `place`."""
    home, made = place / "home", place / "made"
    home.mkdir()
    made.mkdir()
    return {**os.environ, "HOME": str(home), "TMPDIR": str(made), "COLUMNS": "80", **more}


def left_in(place: Path) -> list[str]:
    """What the demo left: files, and processes that still speak of the place."""
    processes = subprocess.run(["ps", "-axo", "args"], capture_output=True, check=True, text=True).stdout
    here = [line for line in processes.splitlines() if f"{place}/made/" in line]
    return [*here, *(str(path) for path in place.rglob("*") if path.name not in {"home", "made"})]


def test_the_demo_proves_every_claim_and_leaves_nothing_behind(tmp_path: Path) -> None:
    played = subprocess.run(
        [COUNTERFOIL, "demo"], env=environment(tmp_path), capture_output=True, check=False, text=True, timeout=LIMIT_S
    )
    assert (played.returncode, played.stderr) == (0, "")
    assert "\x1b" not in played.stdout
    assert max(map(len, played.stdout.splitlines())) <= 80
    assert re.findall(r"^    gateway   (.*)$", played.stdout, re.MULTILINE) == [
        "passed  phase work, calls left: 7",
        "passed  phase work, calls left: 6",
        "denied  executed: false",
        "verification_failed  executed: true",
        "passed  phase work, calls left: 4",
        "timeout_unknown  executed: unknown",
        "held  executed: unknown",
        "held  executed: unknown",
        "held  executed: true",
        "passed  phase work, calls left: 2",
        "passed  phase work, calls left: 1",
        "passed  phase work, calls left: 0",
        "budget_exhausted  executed: false, terminal: true",
        "budget_exhausted  executed: false, terminal: true",
    ]
    assert left_in(tmp_path) == []


@pytest.mark.slow
def test_a_claim_that_does_not_hold_ends_the_demo(tmp_path: Path) -> None:
    # A git that tells the demo of a commit which nobody made; the git server asks in other words, and is not lied to.
    real, lying = shutil.which("git"), tmp_path / "git"
    lying.write_text(f'#!/bin/sh\n[ "$1" = log ] && echo "Another"\nexec {real} "$@"\n')
    lying.chmod(0o755)
    place = tmp_path / "place"
    place.mkdir()
    env = environment(place, PATH=f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    played = subprocess.run(
        [COUNTERFOIL, "demo"], env=env, capture_output=True, check=False, text=True, timeout=LIMIT_S
    )
    said, *log = played.stderr.splitlines()
    claim = "1 commit; CHANGELOG.md and app.py not committed yet"
    assert said == f"counterfoil: the demo claims that {claim}, and that is not so"
    assert all(line.startswith("  ") for line in log)
    assert played.returncode == 1
    assert left_in(place) == []


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 1)])
def test_whoever_stops_the_demo_is_left_with_nothing(tmp_path: Path, ending: signal.Signals, code: int) -> None:
    env = environment(tmp_path, PYTHONUNBUFFERED="1")
    with subprocess.Popen(
        [COUNTERFOIL, "demo"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as playing:
        assert playing.stdout is not None
        for line in playing.stdout:
            if "passed" in line:
                break
        playing.send_signal(ending)
        playing.communicate(timeout=LIMIT_S)
    assert playing.returncode == code
    assert left_in(tmp_path) == []


@pytest.mark.slow
@pytest.mark.long
def test_what_is_asked_to_be_kept_is_kept(tmp_path: Path) -> None:
    env = environment(tmp_path)
    played = subprocess.run(
        [COUNTERFOIL, "demo", "--keep"], env=env, capture_output=True, check=True, text=True, timeout=LIMIT_S
    )
    found = re.search(r"Kept: (.*)", played.stdout)
    assert found is not None
    command = [COUNTERFOIL, *found[1].split()[1:], "--json"]
    runs = subprocess.run(command, env=env, capture_output=True, check=True, timeout=LIMIT_S).stdout
    assert [(run["workflow"], run["calls"], run["state"]) for run in json.loads(runs)] == [
        ("demo", 0, "open"),
        ("demo", 8, "budget_exhausted"),
    ]


def test_the_policy_of_the_demo_keeps_its_own_cases() -> None:
    policy = Path(lossy.__file__).with_name("policy.yaml")
    assert subprocess.run([COUNTERFOIL, "check", str(policy)], check=False, timeout=LIMIT_S).returncode == 0


def test_without_its_git_server_it_says_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mcp_server_git", None)  # what Python keeps for a module that is not there
    with pytest.raises(typer.Exit):
        demo()
    assert capsys.readouterr().err == ("counterfoil: the demo needs a real git server: pip install mcp-server-git\n")


def test_without_git_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(typer.Exit):
        demo()
    assert capsys.readouterr().err == ("counterfoil: the demo needs the `git` command, and there is none on the PATH\n")


SERVER = """
import json, sys
for line in sys.stdin:
    print('{"id":' + json.dumps(json.loads(line)["id"]) + ',  "result": "spaced as it likes"}', flush=True)
sys.exit(7)
"""


class TestLossyPipe:
    def lines(self, flag: Path, *requests: dict[str, Any]) -> tuple[int, list[str]]:
        """The pipe's exit code, and the lines that came through it."""
        done = subprocess.run(
            [sys.executable, lossy.__file__, str(flag), "--", sys.executable, "-c", SERVER],
            input="".join(json.dumps(request) + "\n" for request in requests),
            capture_output=True,
            check=False,
            text=True,
            timeout=LIMIT_S,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    def test_it_changes_nothing_and_ends_as_its_server_does(self, tmp_path: Path) -> None:
        code, lines = self.lines(tmp_path / "flag", {"id": 1, "method": "tools/call"}, {"id": "1", "method": "ping"})
        assert code == 7
        assert lines == [
            '{"id":1,  "result": "spaced as it likes"}',
            '{"id":"1",  "result": "spaced as it likes"}',
        ]

    def test_it_loses_the_answer_of_one_call_and_no_other(self, tmp_path: Path) -> None:
        flag = tmp_path / "flag"
        flag.touch()
        requests = [{"id": place, "method": method} for place, method in enumerate(["ping", *["tools/call"] * 3])]
        _, lines = self.lines(flag, *requests)
        assert [json.loads(line)["id"] for line in lines] == [0, 2, 3]
        assert not flag.exists()

    def test_it_says_how_it_is_used(self) -> None:
        done = subprocess.run(
            [sys.executable, lossy.__file__, "flag"], capture_output=True, check=False, text=True, timeout=LIMIT_S
        )
        assert (done.returncode, done.stderr) == (1, "usage: lossy.py FLAG -- COMMAND...\n")


@pytest.mark.slow
def test_the_ledger_of_the_demo_is_clean(tmp_path: Path) -> None:
    env = environment(tmp_path)
    played = subprocess.run(
        [COUNTERFOIL, "demo", "--keep"], env=env, capture_output=True, check=True, text=True, timeout=LIMIT_S
    )
    kept = re.search(r"Kept: counterfoil runs --ledger (\S+)", played.stdout)
    assert kept is not None
    verified = subprocess.run(
        [COUNTERFOIL, "verify", "--judge", "--json", "--ledger", kept[1]],
        env=env,
        capture_output=True,
        check=False,
        text=True,
        timeout=LIMIT_S,
    )
    told = json.loads(verified.stdout)
    assert (verified.returncode, told["breaches"]) == (0, [])
    assert told["judged"] > 0
    assert told["sealed_up_to"] == told["records"] > 0
