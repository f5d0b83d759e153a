"""Where the demo plays: a repository that git itself is asked about, and windows through which an agent works in it."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from pydantic import ValidationError

from gateway.cli.demo import lossy
from gateway.model.answer import RECORD_KEY, Refusal
from gateway.model.canonical import parse
from gateway.model.events import ReceiptRecorded
from gateway.outbound.ledger import open_ledger

CALL_S = 20.0
"""How long any single thing may take before the demo gives up on it."""
POLICY = Path(__file__).with_name("policy.yaml")
COUNTERFOIL = (sys.executable, "-P", "-c", "from gateway.cli import main; main()")
"""The `counterfoil` command of this very installation; -P, so that nothing in the repository can pass for a module."""
PLAIN_GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
"""No setting of the user's changes what git says to us."""
SETTINGS = {
    "user.name": "An Agent",
    "user.email": "agent@example.invalid",
    "core.excludesFile": os.devnull,
    "status.short": "false",
    "status.showUntrackedFiles": "normal",
    "advice.statusHints": "true",
}
"""Of the repository itself: they win over the user's own, which the git server would heed."""


class Repository:
    """A git repository, read and written without the gateway."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> None:
        """One commit, and two files that nobody has committed yet."""
        self.path.mkdir()
        self._git("init", "--quiet", "--initial-branch=main", "--template=")  # no hooks of the user's either
        for name, value in SETTINGS.items():
            self._git("config", name, value)
        (self.path / "README.md").write_text("# A small project\n")
        self._git("add", "README.md")
        self._git("commit", "--quiet", "--message=Start")
        (self.path / "app.py").write_text('print("hello")\n')
        (self.path / "CHANGELOG.md").write_text("1.0: it says hello\n")

    def commits(self) -> list[str]:
        """Subjects, newest first."""
        return self._git("log", "--format=%s").splitlines()

    def uncommitted(self) -> list[str]:
        """What `git status` lists, staged or not."""
        return [line[3:] for line in self._git("status", "--porcelain").splitlines()]

    def staged(self) -> list[str]:
        """What the next commit would take."""
        return self._git("diff", "--cached", "--name-only").splitlines()

    def _git(self, *arguments: str) -> str:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(  # noqa: S603 - our own words
            ["git", *arguments],  # noqa: S607 - whichever git the user has
            cwd=self.path,
            env=clean | PLAIN_GIT,
            capture_output=True,
            check=True,
            text=True,
            timeout=CALL_S,
        )
        return done.stdout


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent was answered."""

    refusal: Refusal | None
    """The gateway's typed object, or None if the tool itself answered."""
    text: str
    record: Mapping[str, Any] = field(default_factory=dict)
    """What the gateway says beside the tool's own answer: run, attempt, phase, budget left."""


class Window:
    """One agent at work: its MCP client, in front of a gateway process of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> Told:
        """What came of one call in the repository.

        Raises: TimeoutError.
        """
        with anyio.fail_after(CALL_S):
            result = await self._client.call_tool(tool, {"repo_path": ".", **arguments})
        try:
            refusal = Refusal.model_validate(result.structured_content) if result.is_error else None
        except ValidationError:
            refusal = None  # the tool's own error
        text = "\n".join(block.text for block in result.content if block.type == "text")
        return Told(refusal, text, (result.meta or {}).get(RECORD_KEY, {}))


@dataclass(frozen=True, slots=True)
class World:
    """All that the demo makes, below one temporary directory."""

    root: Path

    @property
    def repository(self) -> Repository:
        """The one repository."""
        return Repository(self.root / "project")

    @property
    def ledger(self) -> str:
        """URL of the one ledger that all windows share."""
        return f"sqlite:///{self.root / 'ledger.db'}"

    @property
    def flag(self) -> Path:
        """While this file exists, the next answer of the git server is lost."""
        return self.root / "lose-the-next-answer"

    @property
    def log(self) -> Path:
        """What the processes behind the windows say to people."""
        return self.root / "gateway.log"

    @asynccontextmanager
    async def window(self) -> AsyncIterator[Window]:
        """A gateway process, its git server, and a client in front; all of them end with it.

        Raises: TimeoutError.
        """
        server = [sys.executable, "-P", "-m", "mcp_server_git", "--repository", "."]
        pipe = [sys.executable, "-I", lossy.__file__, str(self.flag), "--", *server]
        command, *options = COUNTERFOIL
        arguments = [*options, "wrap", "--policy", str(POLICY), "--ledger", self.ledger, "--", *pipe]
        started = StdioServerParameters(command=command, args=arguments, env=PLAIN_GIT, cwd=self.repository.path)
        with self.log.open("a") as log:
            with anyio.fail_after(CALL_S) as limit:
                async with Client(stdio_client(started, errlog=log)) as client:
                    limit.deadline = float("inf")  # it is up; from here on each call has its own limit
                    yield Window(client)

    async def claim(self, attempt: str) -> str:
        """What the tool itself answered to an attempt, as the ledger keeps it."""
        ledger = await open_ledger(self.ledger)
        try:
            for record, _ in await ledger.read(attempt.rpartition(".")[0]):
                event = record.event
                if isinstance(event, ReceiptRecorded) and event.attempt == attempt and event.result is not None:
                    answer = parse(await ledger.payload(event.result) or b"{}")
                    return " ".join(block["text"] for block in answer["content"] if block["type"] == "text")
        finally:
            await ledger.close()
        return ""

    async def settle(self, attempt: str, reason: str) -> tuple[int, str]:
        """A person has said that the attempt happened; the command's exit code and what it printed."""
        command = [*COUNTERFOIL, "resolve", attempt, "--happened", "--reason", reason, "--ledger", self.ledger]
        with anyio.fail_after(CALL_S):
            done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout.decode().strip()
