"""Commands in private copies: what they report is what is judged, and nothing of them is left."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.model.policy import CommandLook
from gateway.outbound.looks import FolderPlace, Limits, PlacedLooks
from gateway.outbound.looks.faults import HIDDEN
from gateway.outbound.looks.looking import TOGETHER
from gateway.ports import Look, NotSent, Silence
from tests.looks.made import PYTEST, PYTHON, look, python, run, seen, verdict, why

pytestmark = pytest.mark.anyio

CHECK: dict[str, Any] = {"command": {"place": "repo", "run": PYTEST, "junit": "report.xml"}}


ROOT = Path(__file__).parents[2]


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    return folder


def left_of(mark: str) -> list[str]:
    """Processes of whose command line the mark is a part."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = one.read_bytes()
        except OSError:
            continue
        if mark.encode() in line and str(os.getpid()) != one.parent.name:
            found.append(line.decode(errors="replace"))
    return found


# --- real test runs -------------------------------------------------------------------------------------------------

GREEN = "def test_one(): pass\ndef test_two(): pass\n"
RED = "def test_one(): pass\ndef test_two(): assert 0\ndef test_three(): 1/0\n"
SKIPPED = "import pytest\n@pytest.mark.skip\ndef test_one(): pass\n@pytest.mark.xfail\ndef test_two(): assert 0\n"


@pytest.mark.parametrize(
    ("tests", "said"),
    [
        (GREEN, ("pass", "`it` passed")),
        (
            RED,
            ("fail", "`it` found that 2 of 3 tests failed: `test_it::test_three`, `test_it::test_two`"),
        ),
        (SKIPPED, ("inconclusive", "`it` could not judge: 0 of 2 tests ran, and 1 must")),
        ("", ("inconclusive", "`it` could not judge: 0 of 0 tests ran, and 1 must")),
        ("x = 1 / 0", ("fail", "`it` found that 1 of 1 tests failed: `test_it`")),
    ],
    ids=["green", "red", "all skipped", "no tests", "does not even load"],
)
async def test_what_a_real_test_run_says(repo: Path, tests: str, said: tuple[str, str]) -> None:
    (repo / "test_it.py").write_text(tests)
    assert verdict(CHECK, await run(repo, *PYTEST, junit="report.xml")) == said


async def test_a_green_exit_code_is_no_pass_where_no_test_ran_and_no_report_was_written(repo: Path) -> None:
    (repo / "report.xml").write_text('<testsuite><testcase name="planted"/></testsuite>')
    answer = await run(repo, "true", junit="report.xml")
    assert verdict(CHECK, answer) == (
        "inconclusive",
        "`it` could not judge: it has written no report (`report.xml`) that can be read",
    )


async def test_a_failure_in_the_report_is_one_whatever_the_exit_code(repo: Path) -> None:
    write = "open('report.xml', 'w').write('<testsuite><testcase name=\"a\"><failure/></testcase></testsuite>')"
    assert verdict(CHECK, await python(repo, write, junit="report.xml"))[0] == "fail"


async def test_a_report_that_is_a_link_or_no_file_is_no_report(repo: Path, tmp_path: Path) -> None:
    green = tmp_path / "green.xml"
    green.write_text('<testsuite><testcase name="a"/></testsuite>')
    for code in (f"os.symlink({str(green)!r}, 'report.xml')", "os.mkfifo('report.xml')", "os.mkdir('report.xml')"):
        answer = await python(repo, f"import os; {code}", junit="report.xml")
        assert "junit" not in seen(answer)


# --- the exit code and what was printed -----------------------------------------------------------------------------


async def test_the_exit_code_is_judged_by_the_list(repo: Path) -> None:
    rule: dict[str, Any] = {"command": {"place": "repo", "run": ["x"], "exit": [0, 3]}}
    answer = await python(repo, "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert {name: seen(answer)[name] for name in ("exit", "output", "errors")} == {
        "exit": 3,
        "output": "out\n",
        "errors": "err\n",
    }
    assert verdict(rule, answer) == ("pass", "`it` passed")
    bad = await python(repo, "import sys; sys.exit(4)")
    assert verdict(rule, bad) == ("fail", "`it` found that the exit code is 4, not 0 or 3")
    further = {**rule, "pass": ["result.output == 'other'"]}
    assert verdict(further, answer) == ("fail", "`it` found that `result.output == 'other'` does not hold")


SCHEMA = {"type": "object", "properties": {"score": {"type": "number"}}, "required": ["score"]}


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ('{"score": 0.9}', "pass"),
        ('{"score": 0.1}', "fail"),
        ('{"score": "high"}', "inconclusive"),
        ('{"score": 0.9, "score": 0.1}', "inconclusive"),
        ("fine!", "inconclusive"),
        ("", "inconclusive"),
    ],
)
async def test_what_is_printed_must_keep_its_schema(repo: Path, printed: str, said: str) -> None:
    rule = {"command": {"place": "repo", "run": ["x"], "output": SCHEMA}, "pass": ["result.json.score > 0.5"]}
    assert verdict(rule, await python(repo, f"print({printed!r})", output=SCHEMA))[0] == said


async def test_a_flood_is_cut_in_the_middle_and_held_up_by_nobody(repo: Path) -> None:
    answer = await python(repo, "print('head'); [print('x' * 9999) for _ in range(2000)]; print('tail')", output={})
    assert seen(answer)["truncated"] is True
    assert seen(answer)["output"].startswith("head\n")
    assert seen(answer)["output"].endswith("tail\n")
    assert "bytes are left out here" in seen(answer)["output"]
    assert len(seen(answer)["output"]) < 70_000
    assert "json" not in seen(answer)


async def test_bytes_that_are_no_text_are_shown_as_far_as_they_can_be(repo: Path) -> None:
    answer = await python(repo, "import os; os.write(1, b'a\\xff\\x00b')")
    assert seen(answer)["output"] == "a\ufffd\ufffdb"


# --- what it gets ---------------------------------------------------------------------------------------------------


async def test_it_sees_nothing_of_our_environment_but_what_is_named(
    repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cr3t")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    place = FolderPlace("repo", repo, {"MODE": "test", "HOME": "/root", "TOKEN": "t0k3n-long"}, secrets=("t0k3n-long",))
    code = "import json, os; print(json.dumps(dict(os.environ)))"
    answer = await look("command", {"run": [PYTHON, "-c", code], "env": {"A": "1"}, "output": {}}, place)
    found = seen(answer)["json"]
    sandbox = Path(found["HOME"]).parent
    assert {name for name in found if not name.startswith("LC_")} == {
        "PATH", "LANG", "HOME", "TMPDIR", "TMP", "TEMP", "MODE", "TOKEN", "A",
    }  # fmt: skip
    assert found["TOKEN"] == HIDDEN
    assert "t0k3n" not in str(seen(answer))
    assert found["TMPDIR"] == str(sandbox / "tmp")
    assert not sandbox.exists()


async def test_a_command_is_words_and_no_shell_reads_them(repo: Path) -> None:
    answer = await run(repo, "echo", "$HOME", "; touch b", "`id`")
    assert seen(answer)["output"] == "$HOME ; touch b `id`\n"


async def test_the_folder_itself_is_never_written(repo: Path) -> None:
    answer = await python(repo, "open('a.txt', 'w').write('changed'); open('b.txt', 'w'); print(open('a.txt').read())")
    assert seen(answer)["output"] == "changed\n"
    assert (repo / "a.txt").read_text() == "a"
    assert [one.name for one in repo.iterdir()] == ["a.txt"]


async def test_a_wrapper_is_told_where_the_copy_is(repo: Path) -> None:
    place = FolderPlace("repo", repo, wrapper=("env", "WORK={work}", "BOX={sandbox}"))
    answer = await look("command", {"run": ["sh", "-c", 'test "$WORK" = "$PWD"; echo $? "${WORK#$BOX}"']}, place)
    assert seen(answer)["output"] == "0 /work\n"


async def test_what_cannot_be_started_has_checked_nothing(repo: Path) -> None:
    assert why(await run(repo, "no-such-program")) == "the command cannot be started: no such file or directory"
    assert why(await run(repo, "./a.txt")) == "the command cannot be started: permission denied"


# --- its end --------------------------------------------------------------------------------------------------------


async def test_one_that_hangs_is_ended_at_its_timeout(repo: Path) -> None:
    answer = await python(repo, "import time; print('hangs-7731', flush=True); time.sleep(600)", timeout_s=1)
    assert answer == Silence("it took longer than 1 s")
    assert left_of("hangs-7731") == []


ESCAPES = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        time.sleep(600)  # escapes-4242
    os._exit(0)
print('done')
"""


async def test_children_that_outlive_it_in_sessions_of_their_own_are_ended_with_it(repo: Path) -> None:
    answer = await python(repo, ESCAPES)
    assert seen(answer)["output"] == "done\n"
    assert left_of("escapes-4242") == []


STUBBORN = """
import signal, time
for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
time.sleep(600)  # stubborn-5150
"""


async def test_a_command_that_ignores_every_signal_is_ended_all_the_same(repo: Path) -> None:
    assert isinstance(await python(repo, STUBBORN, timeout_s=1), Silence)
    assert left_of("stubborn-5150") == []


async def test_whoever_cancels_the_look_leaves_nothing_behind(repo: Path) -> None:
    with anyio.move_on_after(1) as scope:
        await python(repo, "import time; time.sleep(600)  # cancelled-6006")
    assert scope.cancelled_caught
    assert left_of("cancelled-6006") == []


KILLED = """
import asyncio, sys
from pathlib import Path
from tests.looks.made import python
asyncio.run(python(Path(sys.argv[1]), "import time; print(1); time.sleep(600)  # orphan-3838"))
"""


async def test_a_gateway_that_is_killed_leaves_neither_a_command_nor_its_copy(repo: Path, tmp_path: Path) -> None:
    spare = tmp_path / "tmp"
    spare.mkdir()
    env = {**os.environ, "TMPDIR": str(spare)}
    gateway = await asyncio.create_subprocess_exec(PYTHON, "-c", KILLED, str(repo), env=env, cwd=ROOT)
    with anyio.fail_after(60):
        while len(left_of("600)  # orphan-3838")) < 3:  # the gateway itself, the warden, the command
            await anyio.sleep(0.05)
        gateway.kill()
        await gateway.wait()
        while left_of("orphan-3838") or any(spare.iterdir()):
            await anyio.sleep(0.05)


TURNS_ON_ITS_WARDEN = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)  # holds-the-pipes-{number}
    os._exit(0)
time.sleep(0.3)
os.kill(os.getppid(), signal.{number})
time.sleep(600)
"""


@pytest.mark.parametrize("number", ["SIGSTOP", "SIGKILL"])
async def test_a_command_that_turns_on_its_warden_ends_in_time_and_leaves_nothing(repo: Path, number: str) -> None:
    """Though a child of it, in a session of its own, keeps open what it prints to."""
    looks = PlacedLooks({"repo": FolderPlace("repo", repo)})
    evil = CommandLook(place="repo", run=(PYTHON, "-c", TURNS_ON_ITS_WARDEN.replace("{number}", number)))
    with anyio.fail_after(30):
        answers = await asyncio.gather(*(looks.look(Look(evil, {}, 1.5)) for _ in range(TOGETHER)))
        assert all(isinstance(answer, Silence | NotSent) for answer in answers)
        assert left_of(f"holds-the-pipes-{number}") == []
        honest = CommandLook(place="repo", run=("echo", "here"))
        assert seen(await looks.look(Look(honest, {}, 10)))["output"] == "here\n"


async def test_whoever_kills_its_warden_has_checked_nothing(repo: Path) -> None:
    """Whatever it has written in its place."""
    forged = (
        "import os, signal\n"
        "at = f'/proc/{os.getppid()}/fd'\n"
        "try:\n"
        "  for one in os.listdir(at):\n"
        "    if int(one) > 2 and os.readlink(f'{at}/{one}').startswith('pipe:'):\n"
        "      os.write(os.open(f'{at}/{one}', os.O_WRONLY), b'{\"exit\": 0}')\n"
        "except PermissionError: pass\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
    )
    assert why(await python(repo, forged)) == "what watches the command was ended by somebody else"


async def test_only_root_can_reach_into_the_warden_and_anybody_into_the_command_itself(repo: Path) -> None:
    """Where an unprivileged command could write its own result, /proc does not belong to it."""
    code = "import os; print(*(os.stat(f'/proc/{pid}/fd').st_uid for pid in (os.getppid(), os.getpid())))"
    place = FolderPlace("repo", repo)
    answer = await look("command", {"run": [PYTHON, "-c", code]}, place)
    assert seen(answer)["output"] == f"0 {os.getuid()}\n"


async def test_a_fork_bomb_is_bounded_and_ended(repo: Path) -> None:
    place = FolderPlace("repo", repo, limits=Limits(processes=40))
    bomb = "import os\nwhile True:\n  os.fork()  # bomb-9119"
    answer = await look("command", {"run": [PYTHON, "-c", bomb]}, place, timeout_s=20)
    assert "40 processes" in why(answer) or "ended" in why(answer) or "longer" in why(answer)
    assert left_of("bomb-9119") == []


async def test_memory_and_files_are_bounded(repo: Path) -> None:
    place = FolderPlace("repo", repo, limits=Limits(memory_mb=512, file_mb=1, open_files=32))
    code = (
        "try: x = bytearray(2 ** 30)\n"
        "except MemoryError: print('no memory')\n"
        "try: files = [open('a.txt') for _ in range(64)]\n"
        "except OSError as e: print('no files')\n"
        "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "try: open('big', 'wb').write(bytes(2 ** 21)); print('big')\n"
        "except OSError: print('no room')\n"
    )
    answer = await look("command", {"run": [PYTHON, "-c", code]}, place)
    assert seen(answer)["output"] == "no memory\nno files\nno room\n"


async def test_one_that_is_ended_by_a_signal_has_checked_nothing(repo: Path) -> None:
    assert why(await python(repo, "import os; os.kill(os.getpid(), 9)")) == "the command was ended by signal 9"


async def test_the_processor_time_of_each_process_is_bounded(repo: Path) -> None:
    """A process that has got away from its time, if nothing else ends it, runs out of that."""
    answer = await python(repo, "import resource; print(resource.getrlimit(resource.RLIMIT_CPU))", timeout_s=7)
    assert seen(answer)["output"] == "(8, 8)\n"


async def test_what_is_beside_a_copy_keeps_its_rights(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the copy is gone before we come to remove it, as after a timeout."""
    spare = tmp_path / "tmp"
    spare.mkdir(mode=0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    for code, timeout_s in (("import time; time.sleep(600)", 1.0), ("import shutil; shutil.rmtree('..')", 30.0)):
        _ = await python(repo, code, timeout_s=timeout_s)
        assert spare.stat().st_mode & 0o777 == 0o755
        assert [*spare.iterdir()] == []


async def test_a_copy_that_became_a_link_leads_to_nothing_of_others(repo: Path, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (victim / "inner").mkdir(parents=True, mode=0o755)
    code = f"import os; box = os.path.dirname(os.getcwd()); os.rename(box, box + '-'); os.symlink({str(victim)!r}, box)"
    answer = await python(repo, f"{code}; print(box)")
    assert (victim / "inner").stat().st_mode & 0o777 == 0o755
    box = Path(seen(answer)["output"].strip())
    assert not box.is_symlink()
    shutil.rmtree(f"{box}-")


async def test_what_it_leaves_without_rights_is_removed(repo: Path) -> None:
    code = "import os; os.mkdir('d'); open('d/f', 'w'); os.chmod('d', 0); print(os.getcwd())"
    answer = await python(repo, code)
    assert not Path(seen(answer)["output"].strip()).parent.exists()
