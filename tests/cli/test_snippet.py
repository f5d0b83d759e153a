"""`counterfoil snippet`: what each client is given to paste, read back as that client reads it."""

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import snippet
from gateway.cli.commands import app
from gateway.inbound.mcp.identity import RUN_HEADER
from gateway.outbound.clients import pointing

NO_ADDRESS = "Claude Desktop takes no address of a server in its file; use `--config gateway.yaml`"

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/anna")
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(snippet, "started_by", lambda config: ["/bin/counterfoil", "stdio", "--config", config.name])
    return lambda *args: CliRunner().invoke(app, ["snippet", *args], catch_exceptions=False)


def pasted(told: Result) -> dict[str, object]:
    assert told.exit_code == 0
    text = told.stdout
    found: dict[str, object] = json.loads(text) if text.startswith("{") else tomllib.loads(text)
    return found


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (
            "claude-code",
            {"mcpServers": {"counterfoil": {
                "type": "http", "url": "http://127.0.0.1:8321/mcp", "headers": {"Counterfoil-Run": "${GW_TOKEN}"}}}},
        ),
        (
            "cursor",
            {"mcpServers": {"counterfoil": {
                "url": "http://127.0.0.1:8321/mcp", "headers": {"Counterfoil-Run": "${env:GW_TOKEN}"}}}},
        ),
        (
            "vscode",
            {
                "inputs": [{"type": "promptString", "id": "counterfoil-run", "description": "Run token of Counterfoil",
                            "password": True}],
                "servers": {"counterfoil": {
                    "type": "http", "url": "http://127.0.0.1:8321/mcp",
                    "headers": {"Counterfoil-Run": "${input:counterfoil-run}"}}},
            },
        ),
        (
            "codex",
            {"mcp_servers": {"counterfoil": {
                "url": "http://127.0.0.1:8321/mcp", "env_http_headers": {"Counterfoil-Run": "GW_TOKEN"}}}},
        ),
        (
            "gemini",
            {"mcpServers": {"counterfoil": {
                "httpUrl": "http://127.0.0.1:8321/mcp", "headers": {"Counterfoil-Run": "$GW_TOKEN"}}}},
        ),
        (
            "windsurf",
            {"mcpServers": {"counterfoil": {
                "serverUrl": "http://127.0.0.1:8321/mcp", "headers": {"Counterfoil-Run": "${env:GW_TOKEN}"}}}},
        ),
        (
            "zed",
            {"context_servers": {"counterfoil": {
                "url": "http://127.0.0.1:8321/mcp", "headers": {"Counterfoil-Run": "TOKEN"}}}},
        ),
    ],
)  # fmt: skip
def test_a_client_reaches_the_served_gateway_with_its_run_token(
    client: str, expected: dict[str, object], command: Command
) -> None:
    assert pasted(command(client)) == expected


def test_the_token_goes_where_the_gateway_reads_it() -> None:
    assert pointing.RUN_HEADER == RUN_HEADER


def test_the_commands_keep_the_token_unexpanded(command: Command) -> None:
    said = command("claude-code", "--url", "https://gw.example.com/mcp").stderr.splitlines()
    assert said[1] == (
        "counterfoil: or: claude mcp add --transport http -s project counterfoil https://gw.example.com/mcp "
        "--header 'Counterfoil-Run: ${GW_TOKEN}'"
    )


@pytest.mark.parametrize(
    "client", ["claude-code", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf", "zed"]
)
def test_a_client_starts_a_gateway_of_a_configuration_and_gives_it_its_variables(client: str, command: Command) -> None:
    Path("gateway.yaml").write_text("mcpServers: {x: {url: 'https://h', headers: {A: '${A_TOKEN} ${INPUT_B:-}'}}}\n")
    (root,) = pasted(command(client, "--config", "gateway.yaml")).values()
    assert isinstance(root, dict)
    entry = root["counterfoil"]
    assert [entry["command"], *entry["args"]] == ["/bin/counterfoil", "stdio", "--config", "gateway.yaml"]
    given = {
        "claude-code": {"A_TOKEN": "${A_TOKEN:-}"},
        "cursor": {"A_TOKEN": "${env:A_TOKEN}"},
        "vscode": {"A_TOKEN": "${env:A_TOKEN}"},
        "codex": ["A_TOKEN"],
        "gemini": {"A_TOKEN": "$A_TOKEN"},
        "windsurf": {"A_TOKEN": "${env:A_TOKEN}"},
    }
    assert entry.get("env", entry.get("env_vars")) == given.get(client)


def test_claude_desktop_starts_the_gateway_for_it_takes_no_address(command: Command) -> None:
    Path("gateway.yaml").write_text("mcpServers: {x: {command: x}}\n")
    told = pasted(command("claude-desktop"))
    assert told == {"mcpServers": {"counterfoil": {
        "command": "/bin/counterfoil", "args": ["stdio", "--config", "gateway.yaml"]}}}  # fmt: skip
    assert command("claude-desktop").stderr == (
        "counterfoil: goes into /home/anna/.config/Claude/claude_desktop_config.json\n"
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("claude-desktop", "--url", "http://x/mcp"), NO_ADDRESS),
        (("cursor", "--url", "x"), "`x` is no address; it begins with `http://` or `https://`"),
        (("cursor", "--url", "http://h:1/"), "`http://h:1/` has no path; `counterfoil serve` is reached at `/mcp`"),
        (("cursor", "--url", "http://x", "--config", "y"), "`--url` and `--config` exclude each other"),
        (("cursor", "--config", "none.yaml"), "none.yaml:1:1: cannot be read: no such file or directory"),
    ],
)  # fmt: skip
def test_bad_input_gets_one_line(args: tuple[str, ...], message: str, command: Command) -> None:
    told = command(*args)
    assert (told.exit_code, told.stdout, told.stderr) == (2, "", f"counterfoil: {message}\n")
