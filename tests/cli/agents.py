"""Agents of both eras over stdio and HTTP, as raw requests: nothing of an SDK may smooth what the gateway says."""

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from tests.cli import warm

LIMIT_S = 40
"""For whatever a subprocess has to do: machines are shared."""

META_2026 = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "claude-code", "version": "2.1.332"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}, "url": {}}, "roots": {}},
}


@dataclass
class Process:
    """A `counterfoil` process with an agent of raw JSON-RPC on its stdio."""

    process: warm.Forked
    said: list[str] = field(default_factory=list)
    modern: bool = True
    _next: int = 0

    async def request(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """The whole answer to one request."""
        self._next += 1
        sent = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": self._params(params or {}, meta)}
        await self.write(sent)
        return await self.answer(self._next)

    def _params(self, params: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
        whole = {**(META_2026 if self.modern else {}), **meta}
        return {**params, "_meta": whole} if whole else params

    async def write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        await self.process.stdin.drain()

    async def answer(self, wanted: int) -> dict[str, Any]:
        with anyio.fail_after(LIMIT_S):
            while True:
                line = await self.process.stdout.readline()
                assert line, f"the gateway ended: {self.said}"
                message: dict[str, Any] = json.loads(line)
                if message.get("id") == wanted:
                    return message

    async def call(self, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
        """The result of one `tools/call`; who wants to know our roots on the way is told that there are none."""
        params = {"name": tool, "arguments": arguments}
        result: dict[str, Any] = (await self.request("tools/call", params, **meta))["result"]
        while result.get("resultType") == "input_required":
            brought: dict[str, Any] = {key: {"roots": []} for key in result["inputRequests"]}
            again = {**params, "inputResponses": brought, "requestState": result["requestState"]}
            result = (await self.request("tools/call", again, **meta))["result"]
        return result

    async def codex(self) -> None:
        """Speak as Codex does: `initialize` with 2025-06-18."""
        self.modern = False
        info = {"name": "codex-mcp-client", "version": "0.171.0", "title": "Codex"}
        params = {"protocolVersion": "2025-06-18", "capabilities": {"elicitation": {}}, "clientInfo": info}
        answer = await self.request("initialize", params)
        assert answer["result"]["protocolVersion"] == "2025-06-18"
        await self.write({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def hear(self, pattern: str) -> str:
        """The first group of the pattern, once a line of stderr fits it."""
        with anyio.fail_after(LIMIT_S):
            while True:
                for line in self.said:
                    if found := re.search(pattern, line):
                        return found[1]
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def counterfoil(*args: str, **env: str) -> AsyncIterator[Process]:
    """The command, with these arguments, ended with its block; no call is held for a person unless they say so."""
    if args[0] == "wrap" and "--hold" not in args:
        args = ("wrap", "--hold", "0", *args[1:])
    process = await warm.started(*args, env={**os.environ, **env})
    it = Process(process)
    listening = asyncio.ensure_future(_listen(it))
    try:
        yield it
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        try:
            with anyio.fail_after(LIMIT_S):
                await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
            await listening
            process.close()


async def _listen(it: Process) -> None:
    while line := await it.process.stderr.readline():
        it.said.append(line.decode().rstrip())


async def run(*args: str, expect: int = 0, **env: str) -> tuple[str, str]:
    """Standard output and error of the command, which ends by itself with that code."""
    process = await warm.started(*args, env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **env}, stdin=False)
    with anyio.fail_after(LIMIT_S):
        out, err = await asyncio.gather(process.stdout.read(), process.stderr.read())
        await process.wait()
    process.close()
    assert process.returncode == expect, (process.returncode, out.decode(), err.decode())
    return out.decode(), err.decode()


async def post(
    url: str, method: str, params: dict[str, Any] | None = None, *, headers: dict[str, str] | None = None, **meta: Any
) -> tuple[int, dict[str, Any]]:
    """Status and JSON-RPC answer of one 2026-07-28 request, as Claude Code sends it."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": {**META_2026, **meta}}}
    named = {"Mcp-Name": (params or {})["name"]} if method == "tools/call" else {}
    sent = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": method,
        "User-Agent": "claude-code/2.1.332 (cli)",
        **named,
        **(headers or {}),
    }
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(LIMIT_S)) as session,
        session.post(url, data=json.dumps(body), headers=sent) as response,
    ):
        return response.status, _message(await response.text())


def _message(text: str) -> dict[str, Any]:
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    found: dict[str, Any] = json.loads(lines[-1] if lines else text)
    return found


def ledger_of(folder: Path) -> Sequence[str]:
    """The option that names a ledger in the folder."""
    return ("--ledger", f"sqlite:///{folder / 'ledger.db'}")
