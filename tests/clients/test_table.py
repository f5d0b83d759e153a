"""Where each client's files are, by platform."""

from pathlib import Path

import pytest

from gateway.outbound.clients.sheet import Unusable
from gateway.outbound.clients.table import CLIENTS, Machine, client_named, this_machine


@pytest.mark.parametrize(
    ("platform", "client", "expected"),
    [
        ("linux", "claude-desktop", ["/h/.config/Claude/claude_desktop_config.json"]),
        ("darwin", "claude-desktop", ["/h/Library/Application Support/Claude/claude_desktop_config.json"]),
        ("win32", "claude-desktop", ["/h/AppData/Roaming/Claude/claude_desktop_config.json"]),
        ("darwin", "vscode", ["/p/.vscode/mcp.json", "/h/Library/Application Support/Code/User/mcp.json"]),
        ("linux", "zed", ["/p/.zed/settings.json", "/h/.config/zed/settings.json"]),
        ("darwin", "zed", ["/p/.zed/settings.json", "/h/.config/zed/settings.json"]),
        ("win32", "zed", ["/p/.zed/settings.json", "/h/AppData/Roaming/Zed/settings.json"]),
        ("linux", "claude-code", ["/p/.mcp.json", "/h/.claude.json"]),
        ("linux", "codex", ["/p/.codex/config.toml", "/h/.codex/config.toml"]),
        ("linux", "cursor", ["/p/.cursor/mcp.json", "/h/.cursor/mcp.json"]),
        ("linux", "gemini", ["/p/.gemini/settings.json", "/h/.gemini/settings.json"]),
        ("linux", "windsurf", ["/h/.codeium/windsurf/mcp_config.json"]),
    ],
)
def test_a_clients_files_are_where_its_platform_has_them(platform: str, client: str, expected: list[str]) -> None:
    machine = Machine(Path("/h"), Path("/p"), {}, platform)
    assert [str(path) for path, _ in machine.spots(client_named(client))] == expected


def test_variables_move_them() -> None:
    environ = {"XDG_CONFIG_HOME": "/x", "CODEX_HOME": "/c", "CLAUDE_CONFIG_DIR": "/k", "APPDATA": "relative"}
    machine = Machine(Path("/h"), Path("/p"), environ, "linux")
    last = {client.name: str([*machine.spots(client)][-1][0]) for client in CLIENTS}
    moved = {name: last[name] for name in ("claude-desktop", "zed", "codex", "claude-code")}
    assert moved == {
        "claude-desktop": "/x/Claude/claude_desktop_config.json",
        "zed": "/x/zed/settings.json",
        "codex": "/c/config.toml",
        "claude-code": "/k/.claude.json",
    }


def test_a_project_at_home_is_looked_at_once() -> None:
    machine = Machine(Path("/h"), Path("/h"), {}, "linux")
    assert [str(path) for path, _ in machine.spots(client_named("cursor"))] == ["/h/.cursor/mcp.json"]


@pytest.mark.parametrize(
    ("environ", "platform", "variable"),
    [({}, "linux", "HOME"), ({"HOME": "/h"}, "win32", "USERPROFILE"), ({"HOME": "h"}, "darwin", "HOME")],
)
def test_without_a_home_it_is_said_which_variable_is_wanted(
    environ: dict[str, str], platform: str, variable: str
) -> None:
    with pytest.raises(Unusable, match=rf"`{variable}` is not"):
        this_machine(environ, Path("/p"), platform)
