"""A real gateway before a real liar and a real witness, and what the command line tells of it afterwards."""

import json
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import anyio.to_thread
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.inbound.mcp.tokens import mint
from gateway.model.principal import Principal
from gateway.reviewing import run_key_of
from tests.cli.agents import LIMIT_S, Process, counterfoil, ledger_of, post
from tests.conftest import SERVERS
from tests.lies.ground import policy
from tests.servers.lying_server import World

PUT, LOOK = "liar__put", "witness__look"
SESSION = "Mcp-Session-Id"


@dataclass
class Shop:
    """A folder with all that a gateway needs."""

    folder: Path
    world: World

    @property
    def config(self) -> Path:
        """Of the gateway."""
        return self.folder / "gateway.yaml"

    def reached(self) -> int:
        """How many calls came to a server."""
        log = self.folder / "world.calls"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return sum("tool" in line for line in lines)

    async def told(self, *words: str) -> Any:
        """What the command says of the ledger, as JSON."""
        shown = await anyio.to_thread.run_sync(
            partial(CliRunner().invoke, app, [*words, "--json", *ledger_of(self.folder)])
        )
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.output)

    def token(self, workflow: str = "shop") -> tuple[str, str]:
        """A new run, and the token with which an agent works in it."""
        name, now = f"run_{secrets.token_hex(8)}", time.time()
        key, who = run_key_of(self.config), Principal("agent-7")
        return name, mint(key, run=name, principal=who, workflow=workflow, expires_at=now + 600, now=now, parent=None)

    async def events(self, run: str = "last") -> list[dict[str, Any]]:
        """All events of the run, as `show` has them."""
        return [record["event"] for record in await self.told("show", run)]


def shop(folder: Path, policies: Mapping[str, Mapping[str, Any]], **places: Any) -> Shop:
    """The files of a gateway with these policies, by workflow; the first is the default."""
    it = Shop(folder, World(folder / "world"))
    (folder / "policies").mkdir()
    for name, text in policies.items():
        (folder / "policies" / f"{name}.yaml").write_text(json.dumps({**text, "workflow": name}))
    liar = [str(SERVERS / "lying_server.py"), str(it.world.folder)]
    config = {
        "listen": {"host": "127.0.0.1", "port": 0},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "policies": "policies",
        "workflow": next(iter(policies)),
        "mcpServers": {
            "liar": {"command": sys.executable, "args": liar},
            "witness": {"command": sys.executable, "args": [*liar, "--witness"]},
        },
        "places": {
            "shop": {"folder": str(it.world.folder)},
            "orders": {"database": f"sqlite:///{it.world.database}"},
            **places,
        },
    }
    it.config.write_text(json.dumps(config))
    return it


def believing(kind: str, **more: Any) -> dict[str, Any]:
    """As `policy`, by the names that tools have behind `serve`."""
    return policy(kind, PUT, LOOK, **more)


@asynccontextmanager
async def window(it: Shop) -> AsyncIterator[Process]:
    """An agent at the gateway, over stdio."""
    async with counterfoil("serve", "--stdio", "--config", str(it.config)) as process:
        yield process


@dataclass
class Bound:
    """An agent whose every request, in either era, has the token of one run."""

    url: str
    token: str

    @property
    def headers(self) -> dict[str, str]:
        """What binds it to its run."""
        return {"Counterfoil-Run": self.token}

    async def call(self, tool: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """The result of one call of a client of 2026-07-28."""
        params = {"name": tool, "arguments": {} if arguments is None else arguments}
        return dict((await post(f"{self.url}/mcp", "tools/call", params, headers=self.headers, **meta))[1]["result"])

    async def told(self, tool: str, arguments: Any = None, **meta: Any) -> dict[str, Any]:
        """As `call`, what is structured of it."""
        return dict((await self.call(tool, arguments, **meta))["structuredContent"])

    async def tools(self) -> list[str]:
        """The names that it is listed."""
        answer = (await post(f"{self.url}/mcp", "tools/list", headers=self.headers))[1]
        return [one["name"] for one in answer["result"]["tools"]]

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Callable[[str, Any], Awaitable[dict[str, Any]]]]:
        """Calls of a client of 2025-06-18, in a session of its own."""
        sent = {**self.headers, "Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
        timeout, opened = aiohttp.ClientTimeout(LIMIT_S), dict[str, str]()
        async with aiohttp.ClientSession(timeout=timeout, headers=sent) as http:

            async def ask(number: int, method: str, params: Any) -> dict[str, Any]:
                body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
                async with http.post(f"{self.url}/mcp", json=body, headers=opened) as answer:
                    opened.update({name: answer.headers[name] for name in (SESSION,) if name in answer.headers})
                    text = await answer.text()
                lines = [line[5:] for line in text.splitlines() if line.startswith("data:") and '"id"' in line]
                return dict(json.loads(lines[-1] if lines else text)["result"])

            info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            await ask(1, "initialize", info)

            async def call(tool: str, arguments: Any) -> dict[str, Any]:
                return await ask(2, "tools/call", {"name": tool, "arguments": arguments})

            yield call


@asynccontextmanager
async def served(it: Shop) -> AsyncIterator[Callable[[str], Bound]]:
    """The gateway over HTTP, and agents of it by their tokens."""
    async with counterfoil("serve", "--config", str(it.config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (liar): 1 tool")
        await gateway.hear(r"upstream (witness): 1 tool")
        yield lambda token: Bound(url, token)
