"""A real HTTP receiver of messages, which answers by script; signatures are verified by Standard Webhooks' own code."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from standardwebhooks import Webhook as Verifier

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of the specification's own example

Script: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None] | None]


def says(status: str, *headers: str) -> Script:
    """An answer without a body."""
    return lambda out: out.write("\r\n".join([f"HTTP/1.1 {status}", *headers, "Content-Length: 0", "", ""]).encode())


OK = says("204 No Content")


def resets(out: asyncio.StreamWriter) -> None:
    """Breaks the connection."""
    out.transport.abort()


async def hangs(_: asyncio.StreamWriter) -> None:
    """Says nothing for as long as anybody waits."""
    await asyncio.sleep(60)


@dataclass
class Got:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.body)
        return told

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = self.said["data"]
        return data


@dataclass
class Receiver:
    """Answers each request by the next of its scripts, and by the last one for ever."""

    scripts: list[Script] = field(default_factory=lambda: [OK])
    got: list[Got] = field(default_factory=list)
    secret: str | None = SECRET
    port: int = 0
    here: set["asyncio.Task[None]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.got]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            if self.secret is not None:
                Verifier(self.secret).verify(body, headers)
            self.got.append(Got(head[0], headers, body))
            script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
            done = script(writer)
            if done is not None:
                await done
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving(*scripts: Script, secret: str | None = SECRET, port: int = 0) -> AsyncIterator[Receiver]:
    """A receiver at an address of this machine. A signature that does not fit fails the test."""
    it = Receiver(list(scripts) or [OK], secret=secret)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        it.here.add(task)
        try:
            await it.serve(reader, writer)
        except asyncio.CancelledError:
            return  # at the end of the test; asyncio's own callback takes it badly
        except Exception as error:  # noqa: BLE001 - told to the test, not to the event loop
            failed.append(error)
        finally:
            it.here.discard(task)

    failed: list[Exception] = []
    listening = await asyncio.start_server(one, "127.0.0.1", port)
    it.port = listening.sockets[0].getsockname()[1]
    try:
        yield it
    finally:
        listening.close()
        for task in list(it.here):
            task.cancel()
        await asyncio.gather(*it.here, return_exceptions=True)
    assert failed == []
