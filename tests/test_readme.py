"""The README tells the truth: its commands exist, its configuration loads, and its two commands run as written."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.model.answer import Refusal
from gateway.model.events import Outcome
from gateway.settings import load_settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def command(name: str) -> str:
    """The command behind a `readme:` mark."""
    found = re.search(rf"<!-- readme: {name} -->\n```sh\n(.*?)\n```", README)
    assert found is not None
    return found[1]


COMMANDS = sorted(
    {
        line.split("#")[0].strip()
        for block in blocks("sh")
        for line in block.splitlines()
        if line.startswith("counterfoil ")
    }
)


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_and_option_that_the_readme_shows_exists(line: str) -> None:
    words = line.split()[1:]
    group = words[: 2 if words[0] in {"approvals", "run"} else 1]
    told = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert told.exit_code == 0, told.output
    own = words[: words.index("--")] if "--" in words else words
    for option in (word for word in own if word.startswith("--")):
        assert option in told.output


def test_the_client_configurations_are_what_those_clients_read() -> None:
    wrapped = ["wrap", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/some/dir"]
    claude, code = (json.loads(block) for block in blocks("json"))
    codex = tomllib.loads(blocks("toml")[0])
    entries = [claude["mcpServers"]["files"], code["servers"]["files"], codex["mcp_servers"]["files"]]
    assert [(entry["command"], entry["args"]) for entry in entries] == [("counterfoil", wrapped)] * 3


def test_the_configuration_of_serve_loads(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(blocks("yaml")[0])
    settings = load_settings(config)
    assert [upstream.name for upstream in settings.upstreams] == ["fs", "git", "runner"]
    assert settings.workflow == "repo-repair"


def test_every_outcome_that_a_client_can_be_told_is_in_the_table() -> None:
    told = set(re.findall(r"`([a-z_]+)`", README.partition("## What a client is told")[2].partition("\n## ")[0]))
    to_come = {"rate_limited", "infeasible", "human_escalation"}
    assert {str(outcome) for outcome in Outcome} - to_come <= told
    assert Refusal.model_json_schema()["properties"]["outcome"]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def fresh_clone(folder: Path) -> Path:
    """What a clone of the repository would hold, as it is now."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.mark.slow
def test_the_commands_of_the_readme_run_one_after_another_in_a_fresh_clone(tmp_path: Path) -> None:
    clone, home = fresh_clone(tmp_path / "clone"), tmp_path / "home"
    home.mkdir()
    said = {}
    for name in ("demo", "scale"):
        ran = subprocess.run(
            ["bash", "-c", command(name).replace("python3", sys.executable, 1)],
            cwd=clone,
            capture_output=True,
            check=False,
            text=True,
            timeout=300,
            env={"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "LANG": "C.UTF-8"},
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said[name] = ran.stdout
    assert "budget_exhausted" in said["demo"]
    moved = re.findall(r"^gateway (.*)$", said["scale"], re.MULTILINE)
    assert moved == [
        "1: one: noted",
        "2: two: noted",
        "1: three: noted",
        "2: four: noted",
        "1 is killed",
        "2: five: noted",
        "2: six: noted",
        "2: seven: budget_exhausted",
    ]
    assert "notes.txt: one two three four five six" in said["scale"]


def test_the_ledger_that_gateways_share_is_configured_as_shown(tmp_path: Path) -> None:
    config = tmp_path / "gateway.yaml"
    config.write_text(blocks("yaml")[1] + "mcpServers: {a: {command: b}}\n")
    settings = load_settings(config, {"LEDGER_PASSWORD": "pw", "RUN_TOKEN_KEY": "k" * 40, "HOME": str(tmp_path)})
    assert settings.ledger == "postgresql://gateway:pw@db.example/counterfoil"
