"""A client of raw JSON-RPC on stdio: what a server offers, exactly as it says it."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

Message = dict[str, Any]

LIMIT_S = 60
QUIET_S = 0.5
"""A server that changes its lists on its own at the start has done so when it is quiet that long."""
STARTS = 10
"""Times at most that lists are asked for anew because they changed."""

LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
CAPABILITIES = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
"""What some servers offer depends on them."""
INFO = {"name": "raw", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": CAPABILITIES,
}
TO_ASK: Mapping[str, Message] = {"roots/list": {"roots": []}, "ping": {}}
"""What this client answers to a server's own requests."""


class Pipe:
    """The two ends of a server's process."""

    def __init__(self, process: asyncio.subprocess.Process, *, modern: bool) -> None:
        self._process = process
        self._modern = modern
        self._last = 0
        self.changed: set[str] = set()
        """The notifications that came since somebody looked."""

    async def request(self, method: str, params: Message | None = None) -> Message:
        """The answer: `result` or `error`."""
        self._last += 1
        with_meta = {**(params or {}), **({"_meta": META} if self._modern else {})}
        await self._write({"jsonrpc": "2.0", "id": self._last, "method": method, "params": with_meta})
        while True:
            message = await self._read()
            if message.get("id") == self._last and "method" not in message:
                return message

    async def notify(self, method: str) -> None:
        """A notification."""
        await self._write({"jsonrpc": "2.0", "method": method})

    async def quiet(self) -> None:
        """The server has had nothing to say for a while."""
        try:
            while True:
                async with asyncio.timeout(QUIET_S):
                    await self._read()
        except TimeoutError:
            return

    async def _read(self) -> Message:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise EOFError("the server ended")
        message: Message = json.loads(line)
        method = message.get("method")
        if method and "id" in message:
            known = method in TO_ASK
            told = {"result": TO_ASK[method]} if known else {"error": {"code": -32601, "message": "no such method"}}
            await self._write({"jsonrpc": "2.0", "id": message["id"], **told})
        elif method:
            self.changed.add(method)
        return message

    async def _write(self, message: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(message).encode() + b"\n")
        await self._process.stdin.drain()


async def offered(command: Sequence[str], era: str) -> Message | None:
    """The server's opening and its lists, in the form that `compare` reads; None if it does not speak that era."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=64 * 2**20,
    )
    assert process.stdin is not None
    try:
        async with asyncio.timeout(LIMIT_S):
            return await _offered(Pipe(process, modern=era == MODERN), era)
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), 10)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _offered(pipe: Pipe, era: str) -> Message | None:
    if era == MODERN:
        opening = await pipe.request("server/discover")
        if "error" in opening:
            return None
    else:
        hello = {"protocolVersion": era, "capabilities": CAPABILITIES, "clientInfo": INFO}
        opening = await pipe.request("initialize", hello)
        await pipe.notify("notifications/initialized")
    for _ in range(STARTS):
        pipe.changed.clear()
        steps = {method: await _all(pipe, method, key) for method, key in LISTS.items()}
        await pipe.quiet()
        if not any(method.endswith("list_changed") for method in pipe.changed):
            break
    else:
        raise TimeoutError("its lists never came to rest")
    result = opening["result"]
    return {"capabilities": result["capabilities"], "instructions": result.get("instructions"), "steps": steps}


async def _all(pipe: Pipe, method: str, key: str) -> Any:
    """Every page of a list, or the code of the error."""
    found: list[Any] = []
    params: Message = {}
    while True:
        answer = await pipe.request(method, params)
        if "error" in answer:
            return {"error": answer["error"]["code"]}
        found += answer["result"][key]
        cursor = answer["result"].get("nextCursor")
        if cursor is None:
            return found
        params = {"cursor": cursor}
