"""How each of the three is started: a home of its own, nothing of this machine's environment, no key.

What each needs was found by running it: which of its errands it can be told to leave, and what it asks before it
trusts a folder or a server.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import real_servers

PACKAGES = {"@anthropic-ai/claude-code": "2.1.332", "@openai/codex": "0.171.0", "@google/gemini-cli": "0.61.0"}
SERVER = "gw"
MINUTES = 10
"""Each agent's own patience for one call is longer than any call here."""

Target = Mapping[str, Any]
Started = tuple[list[str], dict[str, str]]
"""A command and the whole of its environment."""


@dataclass(frozen=True)
class Agent:
    """One of the three."""

    name: str
    package: str
    start: Callable[[Path, str, Target], Started]
    """Given an empty home, the model's address and the server's `{"url"}` or `{"command"}`."""


def installed() -> Path:
    """The `node_modules` with all three: 900 MB, the programs themselves among them, so that no script has to run.

    Raises: CannotInstall.
    """
    cache = real_servers.VENVS / "agents"
    cache.mkdir(parents=True, exist_ok=True)
    return real_servers.npm_packages(PACKAGES, cache=cache, before=None) / "node_modules"


def _claude(home: Path, model: str, target: Target) -> Started:
    if "url" in target:
        server = {"type": "http", **target}
    else:
        server = {"type": "stdio", "command": target["command"][0], "args": target["command"][1:]}
    configuration = home / "mcp.json"
    configuration.write_text(json.dumps({"mcpServers": {SERVER: server}}))
    (program,) = installed().glob("@anthropic-ai/claude-code-*/claude")
    command = [str(program), "-p", "go", "--mcp-config", str(configuration), "--strict-mcp-config"]
    command += ["--allowedTools", f"mcp__{SERVER}", "--model", "claude-sonnet-4-5"]
    return command, {
        **_bare(home),
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "ENABLE_TOOL_SEARCH": "false",  # else the model must search for the tools first
    }


def _codex(home: Path, model: str, target: Target) -> Started:
    folder = home / ".codex"
    folder.mkdir()
    if "url" in target:
        server = f'url = "{target["url"]}"'
    else:
        server = f"command = {json.dumps(target['command'][0])}\nargs = {json.dumps(target['command'][1:])}"
    (folder / "config.toml").write_text(
        f"""
model = "gpt-5"
model_provider = "scripted"
approval_policy = "never"
check_for_update_on_startup = false
[model_providers.scripted]
name = "scripted"
base_url = "{model}/v1"
wire_api = "responses"
requires_openai_auth = false
supports_websockets = false
[analytics]
enabled = false
[mcp_servers.{SERVER}]
{server}
required = true  # `exec` waits for no other: it would ask the model before the server has said what it offers
startup_timeout_sec = 60
tool_timeout_sec = {MINUTES * 60}
default_tools_approval_mode = "approve"
"""
    )
    (program,) = (path for path in installed().glob("@openai/codex-*/vendor/*/**/codex") if path.is_file())
    return [str(program), "exec", "--skip-git-repo-check", "go"], _bare(home)


def _gemini(home: Path, model: str, target: Target) -> Started:
    folder = home / ".gemini"
    folder.mkdir()
    if "url" in target:
        server: dict[str, Any] = {"httpUrl": target["url"]}
    else:
        server = {"command": target["command"][0], "args": target["command"][1:]}
    settings = {
        "mcpServers": {SERVER: {**server, "trust": True, "timeout": MINUTES * 60_000}},
        "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
        "privacy": {"usageStatisticsEnabled": False},
        "general": {"enableAutoUpdate": False},
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    program = installed() / "@google" / "gemini-cli" / "bundle" / "gemini.js"
    command = [str(real_servers.node()), str(program), "-p", "go", "--model", "gemini-2.5-pro"]
    return [*command, "--approval-mode", "yolo"], {
        **_bare(home),
        "GOOGLE_GEMINI_BASE_URL": model,
        "GEMINI_API_KEY": "none",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_CLI_NO_RELAUNCH": "true",  # one process, so that ending it ends it
    }


def _bare(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{real_servers.node().parent}:/usr/local/bin:/usr/bin:/bin", "TERM": "dumb"}


AGENTS = [
    Agent("claude-code", "@anthropic-ai/claude-code", _claude),
    Agent("codex", "@openai/codex", _codex),
    Agent("gemini-cli", "@google/gemini-cli", _gemini),
]
