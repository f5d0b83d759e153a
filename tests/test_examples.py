"""The examples do what their pages say, with the commands of the pages, against the real servers."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.conftest import EXAMPLES
from tests.test_observability import ASKED, all_shown, metrics_in, parsed, shown_in

LIMIT_S = 90
"""For a command of three seconds, on a machine that is shared."""


class Shell:
    """A terminal in a copy of an example, with `npx` and this environment's programs on its PATH."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self.folder = folder
        self.env = env

    def run(self, *command: str) -> str:
        """What the command printed. It has ended well."""
        done = subprocess.run(
            command, cwd=self.folder, env=self.env, capture_output=True, check=False, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path, filesystem_server: list[str]) -> Shell:
    """In the example that the test names."""
    bin_, home = tmp_path / "bin", tmp_path / "home"
    bin_.mkdir()
    home.mkdir()
    npx = bin_ / "npx"  # the pinned server, whatever `npx -y PACKAGE` would fetch
    npx.write_text(f'#!/bin/sh\nshift 2\nexec {" ".join(filesystem_server)} "$@"\n')
    npx.chmod(0o755)
    left_out = shutil.ignore_patterns("__pycache__", "shop", "notes", "*.db*")
    folder = shutil.copytree(EXAMPLES / request.param, tmp_path / "examples" / request.param, ignore=left_out)
    shutil.copytree(EXAMPLES.parent / "policies", tmp_path / "policies")
    path = os.pathsep.join([str(bin_), str(Path(sys.executable).parent), os.environ["PATH"]])
    return Shell(folder, {**os.environ, "PATH": path, "HOME": str(home), "COLUMNS": "120"})


def in_(example: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("shell", [example], indirect=True)


@in_("wrap-filesystem")
def test_a_write_waits_for_a_person_and_then_happens(shell: Shell) -> None:
    told, _, ledger = shell.run("python", "run.py", "notes").partition("run_")
    approval = re.search(r"ap_[0-9a-f]+", told)
    assert approval is not None
    assert told.splitlines() == [
        "agent      list_directory notes",
        "tool       [FILE] note.txt",
        "agent      read_text_file note.txt",
        "tool       Remember the milk.",
        "agent      write_file idea.txt",
        "gateway    needs_approval: this tool may destroy something that cannot be brought back",
        "           there is no file idea.txt",
        f"person     counterfoil approvals approve --yes {approval[0]}",
        "agent      write_file idea.txt",
        f"tool       Successfully wrote to {shell.folder / 'notes' / 'idea.txt'}",
        "           idea.txt: Buy hazelnuts too.",
    ]
    assert approval[0] in ledger
    assert (shell.folder / "notes" / "idea.txt").read_text() == "Buy hazelnuts too.\n"


async def test_the_page_names_every_tool_of_the_filesystem_server(filesystem_server: list[str], tmp_path: Path) -> None:
    page = (EXAMPLES / "wrap-filesystem" / "README.md").read_text()
    rows = re.findall(r"^\| (`readOnlyHint`|no destruction|`destructiveHint`) \| (.*?) \|", page, re.MULTILINE)
    named = {hint: set(re.findall(r"`(\w+)`", tools)) for hint, tools in rows}
    command, *args = filesystem_server
    with anyio.fail_after(LIMIT_S):
        async with Client(StdioServerParameters(command=command, args=[*args, str(tmp_path)])) as client:
            tools = (await client.list_tools()).tools
    told: dict[str, set[str]] = {"`readOnlyHint`": set(), "no destruction": set(), "`destructiveHint`": set()}
    for tool in tools:
        assert tool.annotations is not None
        reads, destroys = tool.annotations.read_only_hint, tool.annotations.destructive_hint
        told["`readOnlyHint`" if reads else "`destructiveHint`" if destroys else "no destruction"].add(tool.name)
    assert named == told


WRONG = "`result.structuredContent.paid == args.amount` does not hold"
DOUBT = "A payment was booked wrong. Somebody looks at the bank before it goes on."


@in_("pay-and-refund")
def test_what_the_bank_booked_wrong_is_given_back(shell: Shell) -> None:
    told, _, ledger = shell.run("python", "run.py", "book").partition("run_")
    assert told.splitlines() == [
        "agent      pay once-1",
        "tool       succeeded",
        "agent      pay twice-2",
        f"gateway    verification_failed: `booked` found that {WRONG}",
        "           undone: `refund` undid it",
        "agent      pay once-3",
        f"gateway    human_escalation: the run came to the phase `doubt`, where it ends: {DOUBT}",
        "           undone: `refund` undid it",
    ]
    assert "UNDONE by step 11" in ledger
    booked = [json.loads(line) for line in (shell.folder / "book").read_text().splitlines()]
    assert [(line["what"], line["amount"]) for line in booked if "amount" in line] == [
        ("paid", 1999),
        ("paid", 4900),
        ("paid", 4900),
        ("refunded", 9800),
    ]
    assert "5 of 5 cases hold" in shell.run("counterfoil", "check", "policy.yaml")


@pytest.mark.slow
@in_("observability")
def test_what_a_gateway_shows_to_prometheus_is_what_the_registry_has_and_the_dashboard_asks_for(shell: Shell) -> None:
    told = shell.run("python", "run.py", "told")
    calls = [line.removeprefix("agent      ") for line in told.splitlines() if line.startswith("agent")]
    assert calls == [
        "fs__read_text_file milk.txt: ok",
        "fs__write_file idea.txt: ok",
        "fs__read_text_file .env: denied",
        "fs__move_file milk.txt: needs_approval",
        "fs__move_file milk.txt: ok",
    ]
    text = (shell.folder / "told" / "metrics.txt").read_text()
    known, of_sdk = all_shown(), {"otel_scope_name", "otel_scope_version", "otel_scope_schema_url"}
    shown = {name: labels - of_sdk for name, labels in shown_in(text).items() if name != "target_info"}
    assert {name: labels - known.get(name, set()) for name, labels in shown.items() if labels - known[name]} == {}
    wanted = {name for one in ASKED for name in metrics_in(parsed(one.query))}
    not_here = (
        "budget_exhaustions",
        "budget_cost",
        "utilization",
        "runs_total",
        "idempotency",
        "first_look",
        "dropped",
    )
    not_yet = ("approvals_total", "approval_wait")  # what a person said in a terminal is that process's
    assert {name for name in wanted if not any(word in name for word in (*not_here, *not_yet))} <= shown.keys()
    assert "cases hold" in shell.run("counterfoil", "check", "policy.yaml")


@contextmanager
def serving(shell: Shell) -> Iterator[str]:
    """The address of a gateway, which ends within 5 s of being told to."""
    command = ["counterfoil", "serve", "--config", "gateway.yaml"]
    with subprocess.Popen(command, cwd=shell.folder, env=shell.env, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        try:
            heard: list[str] = []
            for line in gateway.stderr:
                heard.append(line)
                if found := re.search(r"listening at (http://\S+)/mcp", line):
                    yield found[1]
                    break
            else:
                pytest.fail("".join(heard))
        except BaseException:
            gateway.kill()
            raise
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(5) == 0


@contextmanager
def repairing(shell: Shell, workflow: str) -> Iterator[str]:
    """The address of a run of that workflow, in the example's own gateway."""
    config = shell.folder / "gateway.yaml"
    config.write_text(config.read_text().replace("port: 8321", "port: 0"))
    shell.run("python", "setup.py", "shop", "reviewed")
    with serving(shell) as address:
        token = shell.run("counterfoil", "run", "open", "--workflow", workflow, "--config", "gateway.yaml")
        yield f"{address}/runs/{token.strip()}/mcp"


def shown(text: str) -> list[str]:
    """The lines of `show` without what differs from run to run."""
    for pattern, word in (
        (r"run_[0-9a-f]{32}", "RUN"),
        (r"local:\w+", "local:USER"),
        (r"\d{4}-\d\d-\d\dT\S+", "TIME"),
        (r"\d+(\.\d+)? m?s\b", "SECONDS"),
        (r"\d+ bytes", "BYTES"),
        (r"(?m)^ +\d+  ", "STEP "),
    ):
        text = re.sub(pattern, word, text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def pasted(example: str, command: str) -> str:
    """What the example's page says that the command prints."""
    page = (EXAMPLES / example / "README.md").read_text()
    return page.partition(f"$ {command}\n")[2].partition("\n```")[0]


@in_("repo-repair")
def test_only_a_proven_repair_is_a_success(shell: Shell) -> None:
    with repairing(shell, "repair") as url:
        told = shell.run("python", "agent.py", url)
    assert (
        told.splitlines() == pasted("repo-repair", "python agent.py http://127.0.0.1:8321/runs/$TOKEN/mcp").splitlines()
    )
    assert shell.run("git", "-C", "shop", "log", "--format=%s").splitlines() == [
        "Quote what needs quotes in the CSV export",
        "Export orders",
    ]
    assert shell.run("git", "-C", "shop", "status", "--porcelain") == ""
    assert shell.run("python", "-m", "unittest", "discover", "--start-directory", "shop") == ""  # it ends with 0

    [run] = json.loads(shell.run("counterfoil", "runs", "--json", "--ledger", "ledger.db"))
    assert (run["workflow"], run["phase"], run["state"]) == ("repair", "committed", "verified_success")
    shell.env["COLUMNS"] = "100"
    for command in ("counterfoil show last --ledger ledger.db", "counterfoil show last --changes --ledger ledger.db"):
        assert shown(shell.run(*command.split())) == shown(pasted("repo-repair", command))
    assert "17 of 17 cases hold" in shell.run("counterfoil", "check", "policy.yaml")


@pytest.mark.slow
@pytest.mark.long
@in_("repo-repair")
def test_the_same_agent_succeeds_under_the_simplest_policy_of_its_kind(shell: Shell) -> None:
    config = shell.folder / "gateway.yaml"
    text = config.read_text().replace("policies: policy.yaml", "policies: ../../policies/repo-repair.yaml")
    config.write_text(text.replace("workflow: repair", "workflow: repo-repair"))
    with repairing(shell, "repo-repair") as url:
        told = shell.run("python", "agent.py", url)
    calls = [re.split(r"[\s:,]+", line)[:2] for line in told.splitlines() if "__" in line[:24]]
    assert [[tool, outcome] for tool, outcome in calls if not tool.startswith("gateway__")] == [
        ["fs__read_text_file", "passed"],
        ["runner__run_tests", "passed"],
        ["fs__edit_file", "passed"],
        ["git__git_commit", "denied"],
        ["runner__run_tests", "verification_failed"],
        ["fs__read_text_file", "passed"],
        ["fs__edit_file", "passed"],
        ["runner__run_tests", "passed"],
        ["git__git_add", "passed"],
        ["git__git_commit", "verified_success"],
    ]
    [run] = json.loads(shell.run("counterfoil", "runs", "--json", "--ledger", "ledger.db"))
    assert (run["workflow"], run["phase"], run["state"]) == ("repo-repair", "done", "verified_success")


CONVENIENT = """\
import unittest

class ExportTest(unittest.TestCase):
    def test_all_is_well(self):
        pass
"""
NO_PYTEST = """\
open("report.xml", "w").write('<testsuite><testcase name="a"/><testcase name="b"/><testcase name="c"/></testsuite>')
"""


@asynccontextmanager
async def at_work(shell: Shell) -> AsyncIterator[Client]:
    """An agent that has seen the tests fail."""
    with repairing(shell, "repair") as url, anyio.fail_after(LIMIT_S):
        async with Client(url) as agent:
            while not {"fs__write_file", "git__git_add"} <= {tool.name for tool in (await agent.list_tools()).tools}:
                await anyio.sleep(0.1)
            await agent.call_tool("runner__run_tests", {})
            yield agent


async def written(agent: Client, path: str, content: str) -> None:
    assert not (await agent.call_tool("fs__write_file", {"path": path, "content": content})).is_error


@pytest.mark.slow
@in_("repo-repair")
async def test_an_agent_that_writes_its_own_tests_convinces_its_runner_alone(shell: Shell) -> None:
    async with at_work(shell) as agent:
        await written(agent, "test_export.py", CONVENIENT)
        await written(agent, "pytest.py", NO_PYTEST)
        await written(agent, "conftest.py", "def pytest_ignore_collect(): return True\n")
        checked = (await agent.call_tool("runner__run_tests", {})).structured_content
        claimed = (await agent.call_tool("gateway__finish", {})).structured_content
    assert checked is not None
    assert (checked["outcome"], checked["phase"]) == ("verification_failed", "failed_check")
    assert checked["reason"].startswith("`tests` found that 2 of 3 tests failed: ")
    assert claimed is not None
    assert (claimed["finished"], [one["what"] for one in claimed["missing"]]) == (
        False,
        ["tests", "commit", "committed"],
    )


SOUND = """\
import csv, io

def to_csv(rows):
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
"""


@pytest.mark.slow
@pytest.mark.long
@in_("repo-repair")
async def test_a_commit_of_what_was_changed_behind_the_gateway_is_not_believed(shell: Shell) -> None:
    async with at_work(shell) as agent:
        await written(agent, "export.py", SOUND)
        checked = (await agent.call_tool("runner__run_tests", {})).meta
        (shell.folder / "shop" / "export.py").write_text("def to_csv(rows):\n    return ''\n")
        await agent.call_tool("git__git_add", {"repo_path": ".", "files": ["export.py"]})
        told = (await agent.call_tool("git__git_commit", {"repo_path": ".", "message": "Tested"})).structured_content
    assert checked is not None
    assert checked["counterfoil/record"]["phase"] == "verified"
    assert told is not None
    assert (told["outcome"], told["executed"], told["phase"]) == ("verification_failed", True, "failed_check")
