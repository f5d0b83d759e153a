"""`counterfoil init` as a person meets it, and what a client then gets."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli.commands import app
from gateway.inbound.mcp.own_tools import OWN_TOOLS
from tests.cli.agents import counterfoil
from tests.clients.machine import SECRETS, a_machine, furnish, tree

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """`counterfoil` in the project of a machine of its own."""
    machine = a_machine(tmp_path)
    monkeypatch.chdir(machine.project)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(machine.home))
    return lambda *args, **more: CliRunner().invoke(app, list(args), catch_exceptions=False, **more)


def files(folder: Path) -> dict[str, bytes]:
    """All but what the command keeps for itself."""
    return {name: body for name, body in tree(folder).items() if ".local" not in name}


def test_it_shows_before_it_asks_and_without_a_yes_touches_nothing(command: Command, tmp_path: Path) -> None:
    furnish(a_machine(tmp_path))
    before = files(tmp_path)
    told: Result | None = None
    for args, given, code in ((["--dry-run"], None, 0), ([], "n\n", 1), ([], "", 1)):
        told = command("init", *args, input=given)
        assert told.exit_code == code
        assert "+mcpServers:" in told.stdout
        assert '-    "github": {' in told.stdout
        assert '+    "counterfoil": {' in told.stdout
        assert files(tmp_path) == before
    assert told is not None
    assert "Change 20 files? [y/N]" in told.stdout
    assert told.stderr.endswith("counterfoil: nothing was changed (`--yes` agrees beforehand)\n")


def test_it_moves_and_undoes_and_shows_no_secret_in_either(command: Command, tmp_path: Path) -> None:
    furnish(a_machine(tmp_path))
    before = files(tmp_path)
    shown = command("init", input="y\n")
    assert shown.exit_code == 0
    assert files(tmp_path).keys() - before.keys() >= {"project/gateway.yaml"}
    moved = files(tmp_path)
    assert command("init", "--undo", "--dry-run").exit_code == 0
    assert command("init", "--undo", input="n\n").exit_code == 1
    assert files(tmp_path) == moved
    again = command("init")
    assert again.exit_code == 0
    assert again.stderr.endswith(
        "counterfoil: no client has a server that could move to the gateway; nothing is changed\n"
    )
    undone = command("init", "--undo", "--yes")
    assert undone.exit_code == 0
    assert files(tmp_path) == before
    assert "-mcpServers:" in undone.stdout
    for told in (shown, again, undone):
        assert not [secret for secret in SECRETS if secret in told.stdout + told.stderr]
    nothing = command("init", "--undo")
    assert "init has changed nothing for" in nothing.stderr


def test_one_client_alone(command: Command, tmp_path: Path) -> None:
    furnish(a_machine(tmp_path))
    before = files(tmp_path)
    assert command("init", "--client", "zed", "--config", "zed.yaml", "--yes").exit_code == 0
    changed = {name for name, body in files(tmp_path).items() if before.get(name) != body}
    secrets = {f"project/zed.secrets/{name}" for name in ("tickets.args.1", "wiki.headers.Authorization")}
    assert changed == {"home/.config/zed/settings.json", "project/zed.yaml", *secrets}


def test_undo_keeps_what_was_done_since_or_says_what_it_would_lose(command: Command, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    laid = furnish(machine, "claude-code")
    assert command("init", "--yes").exit_code == 0
    user, shared = machine.home / ".claude.json", machine.project / ".mcp.json"
    user.write_bytes(user.read_bytes().replace(b"184", b"185"))
    ours = shared.read_bytes()
    shared.write_bytes(ours.replace(b'"--stdio"', b'"--mine"'))
    refused = command("init", "--undo", "--yes")
    assert refused.exit_code == 2
    assert '"--mine"' in refused.stdout
    assert "nothing is taken back" in refused.stderr
    assert b"counterfoil" in user.read_bytes()
    shared.write_bytes(ours)
    config = machine.project / "gateway.yaml"
    config.write_text(config.read_text() + "# mine\n")
    kept = command("init", "--undo", "--yes")
    assert kept.exit_code == 0
    assert "gateway.yaml was changed since" in kept.stderr
    assert config.exists()
    assert (machine.project / "gateway.secrets" / "postgres-prod.args.2").exists()
    assert shared.read_bytes() == laid[shared]
    assert user.read_bytes() == laid[user].replace(b"184", b"185")


def test_bad_input_gets_one_line_that_says_what_to_do(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = a_machine(tmp_path)
    furnish(machine, "cursor")
    before = files(tmp_path)
    clients = "`claude-code`, `claude-desktop`, `cursor`, `vscode`, `codex`, `gemini`, `windsurf`, `zed`"
    cases = [
        (["--client", "emacs"], f"no client `emacs` is known; there are {clients}"),
        (
            ["--undo", "--client", "zed"],
            "`--undo` takes back all that init did with this configuration; leave `--client` out",
        ),
    ]
    for args, message in cases:
        told = command("init", *args)
        assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"counterfoil: {message}\n")
    told = command("init", "--config", "none/gateway.yaml")
    nowhere = f"there is no folder `{machine.project}/none` for `gateway.yaml`; make it first"
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"counterfoil: {nowhere}\n")
    (machine.project / ".mcp.json").write_text("{")
    told = command("init", "--yes")
    where = f"{machine.project}/.mcp.json:1:2"
    assert (
        told.stderr == f"counterfoil: {where}: a text in double quotes is wanted; mend that, or leave its client out\n"
    )
    (machine.project / ".mcp.json").unlink()
    monkeypatch.delenv("HOME")
    told = command("init", "--yes")
    wanted = "`HOME` is not set, so the files of your clients cannot be found; set it to your home folder"
    assert (told.exit_code, told.stderr) == (2, f"counterfoil: {wanted}\n")
    assert files(tmp_path) == before


def test_hostile_names_do_not_act_on_the_terminal(command: Command, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    body = json.dumps(
        {"mcpServers": {"\x1b[2Jx": {"command": "x\x1b]0;"}, "\u202ey": {"url": "ftp://"}}}, ensure_ascii=False
    )
    (machine.project / ".mcp.json").write_text(body.replace("\x1b", "\\u001b"))
    told = command("init", "--yes")
    assert told.exit_code == 0
    assert not {"\x1b", "\u202e"} & set(told.stdout + told.stderr)


def test_a_change_of_line_ends_alone_is_said_to_be_one(command: Command, tmp_path: Path) -> None:
    machine = a_machine(tmp_path)
    file = machine.project / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": {"a": {"command": "a"}}, "other": "NEVERSHOWN"}, indent=1))
    assert command("init", "--yes").exit_code == 0
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    told = command("init", "--undo", "--yes")
    assert told.exit_code == 2
    assert told.stdout == f"--- {file}\n+++ {file}\n(only values differ that are not shown, or line ends)\n"


def test_stdio_refuses_a_configuration_in_one_line(command: Command) -> None:
    told = command("serve", "--stdio", "--config", "none.yaml")
    message = "counterfoil: none.yaml:1:1: cannot be read: no such file or directory\n"
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", message)


@pytest.mark.anyio
async def test_a_client_that_was_moved_reaches_its_server_through_the_gateway(
    command: Command, time_server: list[str], tmp_path: Path
) -> None:
    machine = a_machine(tmp_path)
    file = machine.project / ".mcp.json"
    server = {"type": "stdio", "command": time_server[0], "args": time_server[1:], "env": {"TIME_TOKEN": "NEVERSHOWN"}}
    file.write_text(json.dumps({"mcpServers": {"Time": server}}))
    assert command("init", "--yes").exit_code == 0
    entry = json.loads(file.read_text())["mcpServers"]["counterfoil"]
    assert Path(entry["command"]).parent == Path(sys.executable).parent
    async with counterfoil(*entry["args"], HOME=str(machine.home), XDG_STATE_HOME=str(tmp_path)) as window:
        names = {tool["name"] for tool in (await window.request("tools/list"))["result"]["tools"]}
        assert names == {"time__get_current_time", "time__convert_time", *OWN_TOOLS}
        told = await window.call("time__get_current_time", {"timezone": "UTC"})
        assert told["structuredContent"]["timezone"] == "UTC"
