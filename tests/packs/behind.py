"""An agent behind a gateway with a pack as its policy, and the person who is asked."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from gateway.model.tool import Tool

POLICIES = Path(__file__).parent.parent.parent / "policies"
SERVERS = Path(__file__).parent.parent / "servers" / "packs"
COUNTERFOIL = str(Path(sys.executable).parent / "counterfoil")
LIMIT_S = 90
"""For a walk of three seconds, on a machine that is shared."""


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
        await anyio.run_process([COUNTERFOIL, "approvals", "approve", "--yes", approval, "--ledger", self._ledger])


@asynccontextmanager
async def wrapped(folder: Path, policy: str, server: list[str]) -> AsyncIterator[Agent]:
    """An agent at a server behind `counterfoil wrap`, under this text of a policy."""
    (folder / "policy.yaml").write_text(policy)
    ledger = f"sqlite:///{folder}/ledger.db"
    args = ["wrap", "--policy", str(folder / "policy.yaml"), "--ledger", ledger, "--", *server]
    with anyio.fail_after(LIMIT_S):
        async with Client(StdioServerParameters(command=COUNTERFOIL, args=args)) as client:
            yield Agent(client, ledger)


@asynccontextmanager
async def served(folder: Path, workflow: str, policy: str, upstreams: dict[str, list[str]]) -> AsyncIterator[Agent]:
    """An agent with a run of its own at these servers behind `counterfoil serve`."""
    (folder / "policies").mkdir()
    (folder / "policies" / "policy.yaml").write_text(policy)
    config, ledger = folder / "gateway.yaml", f"sqlite:///{folder}/ledger.db"
    told = {name: {"command": command, "args": args} for name, (command, *args) in upstreams.items()}
    listen = {"listen": {"port": 0}, "ledger": ledger, "policies": "policies", "workflow": workflow}
    config.write_text(json.dumps({**listen, "upstreams": told}))  # JSON is YAML
    with started(config) as gateway, anyio.fail_after(LIMIT_S):
        address = await anyio.to_thread.run_sync(listening, gateway)
        opened = await anyio.run_process([COUNTERFOIL, "run", "open", "-w", workflow, "--config", str(config)])
        async with Client(f"{address}/runs/{opened.stdout.decode().strip()}/mcp") as client:
            yield Agent(client, ledger)


@contextmanager
def started(config: Path) -> "Iterator[subprocess.Popen[str]]":
    """A gateway, which ends within 10 s of being told to."""
    with subprocess.Popen(
        [COUNTERFOIL, "serve", "--config", str(config)], stderr=subprocess.PIPE, text=True
    ) as gateway:
        try:
            yield gateway
        finally:
            gateway.send_signal(signal.SIGTERM)
            try:
                gateway.wait(10)
            except subprocess.TimeoutExpired:
                gateway.kill()


def listening(gateway: "subprocess.Popen[str]") -> str:
    """Where the gateway says that it listens."""
    assert gateway.stderr is not None
    heard: list[str] = []
    for line in gateway.stderr:
        heard.append(line)
        if found := re.search(r"listening at (http://\S+)/mcp", line):
            return found[1]
    raise AssertionError("".join(heard))


WHO = ("-c", "user.name=A", "-c", "user.email=a@example.com")


def git(folder: Path, *words: str) -> str:
    """What git says there."""
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True, text=True, timeout=30)
    return done.stdout.strip()


async def offered(server: list[str], prefix: str = "") -> list[Tool]:
    """The tools of a server, named as they are behind a gateway."""
    with anyio.fail_after(LIMIT_S):
        async with Client(StdioServerParameters(command=server[0], args=server[1:])) as client:
            tools = (await client.list_tools()).tools
    told = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]
    return [Tool(prefix + one["name"], prefix.removesuffix("__"), one["name"], one) for one in told]


def pack(name: str, *changes: tuple[str, str]) -> str:
    """The text of a pack, edited as its reader is told to."""
    text = (POLICIES / f"{name}.yaml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text
