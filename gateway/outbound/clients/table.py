"""The clients, one row each: where their files are, what they write in them, and what they put in for a variable."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from gateway.model.flaws import Place
from gateway.outbound.clients.sheet import Unusable

Form: TypeAlias = Literal["plain", "dollar", "env", "input", "file", "folder"]
"""`${V}` and `${V:-d}`; `$V`; `${env:V}`; `${input:id}`; `${file:/path}`; `${workspaceFolder}` and `${userHome}`."""


class Spot(NamedTuple):
    """A file in which a client looks, and the mappings in it that hold servers."""

    path: str
    """`{…}` is one of `Machine.folders`."""
    roots: tuple[Place, ...]
    shared: bool = False
    """It belongs to a project, and others may get it with the project."""


@dataclass(frozen=True, slots=True)
class Client:
    """What has to be known of a client [their documentation; runs of Claude Code, Codex and Gemini]."""

    name: str
    title: str
    spots: tuple[Spot, ...]
    forms: frozenset[Form]
    """In which it writes what it puts a value in for."""
    passed_on: str | None
    """How a variable is written in the `env` of an entry; None where nothing is ever put in."""
    address: str | None
    """The key of a remote server's address; None where there are no remote servers."""
    typed: bool = False
    """Whether entries say their `type`."""
    sse_by_default: bool = False
    """Whether a `url` without a type is the transport of 2024."""

    @property
    def syntax(self) -> str:
        """`json` or `toml`."""
        return "toml" if self.spots[0].path.endswith(".toml") else "json"


MCP_SERVERS: tuple[Place, ...] = (("mcpServers",),)
OF_EDITORS: frozenset[Form] = frozenset({"env", "folder"})

CLIENTS: tuple[Client, ...] = (
    Client(
        "claude-code",
        "Claude Code",
        (
            Spot("{project}/.mcp.json", MCP_SERVERS, shared=True),
            Spot("{claude}/.claude.json", (*MCP_SERVERS, ("projects", "{project}", "mcpServers"))),
        ),
        frozenset({"plain"}),
        "${{{name}:-}}",  # one that is not set would else stay as it is written
        "url",
        typed=True,
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        (Spot("{config}/Claude/claude_desktop_config.json", MCP_SERVERS),),
        frozenset(),
        None,
        None,
    ),
    Client(
        "cursor",
        "Cursor",
        (Spot("{project}/.cursor/mcp.json", MCP_SERVERS, shared=True), Spot("{home}/.cursor/mcp.json", MCP_SERVERS)),
        OF_EDITORS,
        "${{env:{name}}}",
        "url",
    ),
    Client(
        "vscode",
        "VS Code",
        (
            Spot("{project}/.vscode/mcp.json", (("servers",),), shared=True),
            Spot("{config}/Code/User/mcp.json", (("servers",),)),
        ),
        OF_EDITORS | {"input"},
        "${{env:{name}}}",
        "url",
        typed=True,
    ),
    Client(
        "codex",
        "Codex",
        (
            Spot("{project}/.codex/config.toml", (("mcp_servers",),), shared=True),
            Spot("{codex}/config.toml", (("mcp_servers",),)),
        ),
        frozenset(),
        "{name}",  # in `env_vars`, which is a list of names
        "url",
    ),
    Client(
        "gemini",
        "Gemini CLI",
        (
            Spot("{project}/.gemini/settings.json", MCP_SERVERS, shared=True),
            Spot("{home}/.gemini/settings.json", MCP_SERVERS),
        ),
        frozenset({"plain", "dollar"}),
        "${name}",
        "httpUrl",
        sse_by_default=True,
    ),
    Client(
        "windsurf",
        "Windsurf",
        (Spot("{home}/.codeium/windsurf/mcp_config.json", MCP_SERVERS),),
        frozenset({"env", "file"}),
        "${{env:{name}}}",
        "serverUrl",
    ),
    Client(
        "zed",
        "Zed",
        (
            Spot("{project}/.zed/settings.json", (("context_servers",),), shared=True),
            Spot("{zed}/settings.json", (("context_servers",),)),
        ),
        frozenset(),
        None,
        "url",
    ),
)


def client_named(name: str) -> Client:
    """The client of that name.

    Raises: Unusable.
    """
    for client in CLIENTS:
        if client.name == name:
            return client
    raise Unusable(f"no client `{name[:64]}` is known; there are {', '.join(f'`{one.name}`' for one in CLIENTS)}")


@dataclass(frozen=True, slots=True)
class Machine:
    """Where we are."""

    home: Path
    project: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    @property
    def folders(self) -> Mapping[str, Path]:
        """What the paths of the table begin with."""
        windows = self.platform == "win32"
        dotted = self._told("XDG_CONFIG_HOME", self.home / ".config")
        roaming = self._told("APPDATA", self.home / "AppData" / "Roaming")
        of_system = {"win32": roaming, "darwin": self.home / "Library" / "Application Support"}
        return {
            "home": self.home,
            "project": self.project,
            "config": of_system.get(self.platform, dotted),
            "claude": self._told("CLAUDE_CONFIG_DIR", self.home),
            "codex": self._told("CODEX_HOME", self.home / ".codex"),
            "zed": roaming / "Zed"
            if windows
            else (dotted if self.platform == "linux" else self.home / ".config") / "zed",
        }

    def _told(self, name: str, otherwise: Path) -> Path:
        told = Path(self.environ.get(name, ""))
        return told if told.is_absolute() else otherwise

    def spots(self, client: Client) -> Iterator[tuple[Path, Spot]]:
        """The files of the client, whether they exist or not, with the places in them filled in."""
        seen: set[Path] = set()
        folders = {key: str(path) for key, path in self.folders.items()}
        for spot in client.spots:
            path = Path(spot.path.format(**folders))
            if path not in seen:  # a home may be the project
                seen.add(path)
                roots = tuple(tuple(str(step).format(**folders) for step in root) for root in spot.roots)
                yield path, spot._replace(roots=roots)


def this_machine(environ: Mapping[str, str], project: Path, platform: str = sys.platform) -> Machine:
    """The machine that we are on.

    Raises: Unusable where nobody says whose files are meant.
    """
    variable = "USERPROFILE" if platform == "win32" else "HOME"
    home = Path(environ.get(variable, ""))
    if not home.is_absolute():
        state = "is not an absolute path" if environ.get(variable) else "is not set"
        raise Unusable(
            f"`{variable}` {state}, so the files of your clients cannot be found; set it to your home folder"
        )
    return Machine(home, project, environ, platform)
