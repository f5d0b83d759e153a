"""A gateway whose policy bounds what agents get, and an agent that follows what it is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.model.answer import Shown
from gateway.model.artifact import Piece, artifact_of
from gateway.model.canonical import Digest, canonical
from gateway.model.tool import ToolResult
from tests import world
from tests.runtime.house import House, house

MOST = 4_096
TEXT = "".join(f"line {number}: grüße\n" for number in range(3_000))
CITED = Digest("hmac-sha256:0")
SCHEMA = {"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"]}
STRICT = {"type": "object", "properties": {"content": {"type": "string", "pattern": "^[^\\[]*$"}}}


def result(text: str = TEXT, **more: Any) -> ToolResult:
    return ToolResult({"content": [{"type": "text", "text": text}], **more})


@asynccontextmanager
async def bounding(schema: Any = None, rule: dict[str, Any] | None = None, **fields: Any) -> AsyncIterator[House]:
    upstreams = world.ScriptedUpstreams()
    said = {} if schema is None else {"outputSchema": schema}
    upstreams.offer(world.tool("read", read=True, **said), world.tool("write"), world.tool("check"))
    fields = {"result": {"max_bytes": MOST}} | fields
    if rule is not None:
        fields["tools"] = {"read": {"effect": "read", **rule}, "write": {"effect": "write"}}
    async with house(upstreams=upstreams, **fields) as it:
        yield it


def size(shown: Shown) -> int:
    return len(canonical(dict(shown.result or {})))


def text_of(shown: Shown) -> str:
    assert shown.result is not None
    return str(shown.result["content"][0]["text"])


async def read(it: House, address: str, run: str | None = "run_1", who: Any = world.USER) -> Piece:
    return await it.engine.artifacts.read(artifact_of(address), who, run)


async def read_all(it: House, address: str) -> bytes:
    """What the address leads to, range after range, as an agent would follow it."""
    read_so_far, at = b"", address
    for _ in range(200):
        piece = await read(it, at)
        assert piece.start == len(read_so_far)
        read_so_far += piece.body
        if piece.following is None:
            return read_so_far
        at = str(piece.following)
    raise AssertionError("it never ends")
