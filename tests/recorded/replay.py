"""A recorded conversation, spoken again to a server: the same messages with the same headers, in the same order.

Three things are put in, as the client itself would have: the session id that this server gave, the state that it
handed out, and the id of the server's own request where the recording answers one.
"""

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

Message = dict[str, Any]
LIMIT_S = 40
LEFT_TO_THE_CLIENT = {"host", "connection", "accept-encoding", "mcp-session-id"}
"""Headers that are another's business: of the connection, of the codecs here, of this session."""


@dataclass
class Talk:
    """What was answered so far, and what the recorded client still has to say."""

    answers: dict[str, Message] = field(default_factory=dict)
    """By place in the recording and method; the client's own answers have none."""
    replies: deque[Message] = field(default_factory=deque)
    """The client's recorded answers to requests of the server."""
    session: str = ""
    state: str = ""

    def filled(self, message: Message) -> Message:
        """The recorded message with the state that this server handed out."""
        params = message.get("params", {})
        return {**message, "params": {**params, "requestState": self.state}} if "requestState" in params else message

    def heard(self, message: Message) -> None:
        """One answer of the server, whose state is kept."""
        self.state = message.get("result", {}).get("requestState", self.state)

    def reply(self, request: Message) -> Message:
        """The recorded answer to what the server asks."""
        return {**self.replies.popleft(), "id": request["id"]}


def messages_of(entry: Mapping[str, Any], transport: str) -> Message:
    """The JSON-RPC message of a recorded entry; empty for a GET or a DELETE."""
    found: Message = dict(entry.get("body", {}) if transport == "http" else entry)
    return found


async def replayed(file: Path, target: Mapping[str, Any]) -> dict[str, Message]:
    """The server's answer to each recorded request, by `PLACE METHOD`."""
    recorded = json.loads(file.read_text())
    transport, entries = recorded["transport"], recorded["requests"]
    messages = [messages_of(entry, transport) for entry in entries]
    talk = Talk(replies=deque(message for message in messages if _is_reply(message)))
    async with asyncio.timeout(LIMIT_S):
        if transport == "http":
            await _over_http(talk, entries, target["url"])
        else:
            await _on_stdio(talk, messages, target["command"])
    return talk.answers


def _is_reply(message: Mapping[str, Any]) -> bool:
    return "id" in message and "method" not in message


def _name(place: int, message: Mapping[str, Any]) -> str:
    tool = message.get("params", {}).get("name", "")
    return f"{place} {message['method']} {tool}".rstrip()


# HTTP


async def _over_http(talk: Talk, entries: Sequence[Mapping[str, Any]], url: str) -> None:
    timeout = aiohttp.ClientTimeout(LIMIT_S)
    async with aiohttp.ClientSession(timeout=timeout) as client, contextlib.AsyncExitStack() as streams:
        for place, entry in enumerate(entries):
            message = messages_of(entry, "http")
            if _is_reply(message):
                continue  # said when it is asked for
            call = _call(client, talk, entry["method"], url, entry["headers"], message)
            if entry["method"] == "GET":
                stream = await streams.enter_async_context(call)
                talk.answers[f"{place} GET"] = {"status": stream.status, "type": stream.content_type}
            else:
                async with call as response:
                    await _take(client, talk, place, message, entry, response, url)


def _call(
    client: aiohttp.ClientSession, talk: Talk, method: str, url: str, headers: Mapping[str, str], message: Message
) -> Any:
    sent = {name: value for name, value in headers.items() if name.lower() not in LEFT_TO_THE_CLIENT}
    if talk.session and any(name.lower() == "mcp-session-id" for name in headers):
        sent["Mcp-Session-Id"] = talk.session
    data = json.dumps(talk.filled(message), ensure_ascii=False).encode() if message else None
    return client.request(method, url, headers=sent, data=data)


async def _take(
    client: aiohttp.ClientSession,
    talk: Talk,
    place: int,
    message: Message,
    entry: Mapping[str, Any],
    response: aiohttp.ClientResponse,
    url: str,
) -> None:
    talk.session = response.headers.get("Mcp-Session-Id", talk.session)
    if "id" not in message:
        what = message.get("method", entry["method"])
        talk.answers[f"{place} {what}"] = {"status": response.status}
        return
    async for one in _messages(response):
        if "method" in one and "id" in one:
            async with _call(client, talk, "POST", url, entry["headers"], talk.reply(one)) as accepted:
                assert accepted.status == 202, await accepted.text()
        elif "method" not in one:
            talk.heard(one)
            talk.answers[_name(place, message)] = one
            return  # what the stream may still hold is for nobody


async def _messages(response: aiohttp.ClientResponse) -> AsyncIterator[Message]:
    if response.content_type != "text/event-stream":
        yield json.loads(await response.text())
        return
    async for line in response.content:
        if line.startswith(b"data:") and line[5:].strip():
            yield json.loads(line[5:])


# stdio


async def _on_stdio(talk: Talk, messages: Sequence[Message], command: Sequence[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=64 * 2**20
    )
    assert process.stdin is not None
    try:
        for place, message in enumerate(messages):
            if not _is_reply(message):
                await _say(process, talk.filled(message))
                if "id" in message:
                    talk.answers[_name(place, message)] = await _answer(process, talk, message["id"])
        process.stdin.close()
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _say(process: asyncio.subprocess.Process, message: Message) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message, ensure_ascii=False).encode() + b"\n")
    await process.stdin.drain()


async def _answer(process: asyncio.subprocess.Process, talk: Talk, wanted: Any) -> Message:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        one: Message = json.loads(line)
        if "method" in one and "id" in one:
            await _say(process, talk.reply(one))
        elif "method" not in one and one.get("id") == wanted:
            talk.heard(one)
            return one
    raise EOFError("the server ended")
