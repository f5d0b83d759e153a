"""The packs in front of servers: the work that they are for goes through, and the attack does not.

The filesystem, git and test servers are the real ones. No cluster can be had here, nor the servers that run commands:
those two packs stand before small servers of ours with the same tools (`tests/servers`).
"""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

POLICIES = Path(__file__).parent.parent.parent / "policies"
COUNTERFOIL = str(Path(sys.executable).parent / "counterfoil")
LIMIT_S = 90
"""For a walk of three seconds, on a machine that is shared."""

pytestmark = pytest.mark.anyio


class Agent:
    """An agent behind a gateway, and the person who is asked."""

    def __init__(self, client: Client, ledger: str) -> None:
        self._client = client
        self._ledger = ledger
        self.answer: dict[str, Any] = {}
        """To the last call, as its structured content, or the gateway's refusal."""
        self.text = ""
        """Of the last answer."""

    async def ask(self, tool: str, **arguments: Any) -> str:
        """What became of it: `passed`, the gateway's outcome, or `error` where the tool itself says so."""
        result = await self._client.call_tool(tool, arguments)
        self.answer = result.structured_content or {}
        self.text = "".join(block.text for block in result.content if block.type == "text")
        if not result.is_error:
            return "passed"
        return str(self.answer.get("outcome", "error"))

    @property
    def refused_by(self) -> str:
        """The rule that the last refusal cites."""
        return str(self.answer["policy"]["rule"])

    async def agree(self) -> None:
        """The person says yes to what was asked last."""
        approval = str(self.answer["approval"]["id"])
        await anyio.run_process([COUNTERFOIL, "approvals", "approve", approval, "--ledger", self._ledger])


@asynccontextmanager
async def wrapped(folder: Path, policy: str, server: list[str]) -> AsyncIterator[Agent]:
    """An agent at a server behind `counterfoil wrap`, under this text of a policy."""
    (folder / "policy.yaml").write_text(policy)
    ledger = f"sqlite:///{folder}/ledger.db"
    args = ["wrap", "--policy", str(folder / "policy.yaml"), "--ledger", ledger, "--", *server]
    with anyio.fail_after(LIMIT_S):
        async with Client(StdioServerParameters(command=COUNTERFOIL, args=args)) as client:
            yield Agent(client, ledger)


def pack(name: str, *changes: tuple[str, str]) -> str:
    """The text of a pack, edited as its reader is told to."""
    text = (POLICIES / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


class TestFilesystemWorkspace:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        root = tmp_path / "workspace"
        (root / ".git").mkdir(parents=True)
        (root / "app.py").write_text("a = 1\n")
        (root / ".env").write_text("TOKEN=s3cret\n")
        (tmp_path / "outside.txt").write_text("private\n")
        return root.resolve()

    @pytest.fixture
    def policy(self, root: Path) -> str:
        return pack("filesystem-workspace", ("/home/you/workspace", str(root)))

    async def test_the_work_of_a_folder_goes_through(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        app, new = str(root / "app.py"), str(root / "new.py")
        edits = [{"oldText": "a = 1", "newText": "a = 2"}]
        async with wrapped(tmp_path, policy, [*filesystem_server, str(root)]) as agent:
            assert await agent.ask("list_allowed_directories") == "passed"
            assert await agent.ask("read_text_file", path=app) == "passed"
            assert agent.text == "a = 1\n"
            assert await agent.ask("edit_file", path=app, edits=edits, dryRun=True) == "passed"
            assert (root / "app.py").read_text() == "a = 1\n"
            assert await agent.ask("edit_file", path=app, edits=edits) == "passed"
            assert (root / "app.py").read_text() == "a = 2\n"
            assert await agent.ask("write_file", path=new, content="b = 1\n") == "needs_approval"
            assert await agent.ask("list_directory", path=str(root)) == "passed"
            assert await agent.ask("write_file", path=new, content="b = 1\n") == "passed"
            assert (root / "new.py").read_text() == "b = 1\n"
            assert await agent.ask("create_directory", path=str(root / "sub")) == "passed"

    async def test_what_overwrites_or_moves_happens_when_a_person_agrees(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        app = str(root / "app.py")
        async with wrapped(tmp_path, policy, [*filesystem_server, str(root)]) as agent:
            assert await agent.ask("list_directory", path=str(root)) == "passed"
            assert await agent.ask("write_file", path=app, content="gone\n") == "needs_approval"
            assert (root / "app.py").read_text() == "a = 1\n"
            await agent.agree()
            assert await agent.ask("write_file", path=app, content="other\n") == "needs_approval"
            assert await agent.ask("write_file", path=app, content="gone\n") == "passed"
            assert (root / "app.py").read_text() == "gone\n"
            moved = {"source": app, "destination": str(root / "moved.py")}
            assert await agent.ask("move_file", **moved) == "needs_approval"
            await agent.agree()
            assert await agent.ask("move_file", **moved) == "passed"
            assert (root / "moved.py").read_text() == "gone\n"

    async def test_secrets_and_what_is_outside_are_out_of_reach(
        self, tmp_path: Path, root: Path, policy: str, filesystem_server: list[str]
    ) -> None:
        env = str(root / ".env")
        # The server itself is given the folder above: what is refused here is refused by the pack.
        async with wrapped(tmp_path, policy, [*filesystem_server, str(tmp_path.resolve())]) as agent:
            tried: list[tuple[str, dict[str, Any]]] = [
                ("read_text_file", {"path": env}),
                ("read_text_file", {"path": f"{root}/./.env"}),
                ("read_text_file", {"path": f"{root}/../outside.txt"}),
                ("read_text_file", {"path": str(tmp_path / "outside.txt")}),
                ("read_multiple_files", {"paths": [str(root / "app.py"), env]}),
                ("move_file", {"source": env, "destination": str(root / "env.txt")}),
                ("write_file", {"path": str(root / ".git" / "hooks" / "pre-commit"), "content": "#!/bin/sh\n"}),
                ("search_files", {"path": str(tmp_path), "pattern": "**"}),
            ]
            for tool, arguments in tried:
                assert await agent.ask(tool, **arguments) == "denied", (tool, arguments)
                assert "s3cret" not in json.dumps(agent.answer) + agent.text
        assert not (root / "env.txt").exists()
        assert not (root / ".git" / "hooks").exists()
