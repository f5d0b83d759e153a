"""The operators' endpoint, made when somebody first comes to it: it brings the SDK, which most gateways never need."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from gateway.inbound.console.paths import ASSISTANTS
from gateway.runtime.book import Book
from gateway.runtime.desk import Desk

if TYPE_CHECKING:
    from gateway.inbound.console.operator import Operator


class Assistants:
    """As an `Operator`: serves while `running` is entered."""

    def __init__(self, desk: Desk, book: Book, *, url: str, state_key: bytes, version: str) -> None:
        """As of an `Operator`."""
        self._desk = desk
        self._book = book
        self._url = url
        self._state_key = state_key
        self._version = version
        self._making = asyncio.Lock()
        self._running = AsyncExitStack()
        self._operator: Operator | None = None
        self._endpoint: ASGIApp | None = None
        self._closed = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Once."""
        async with self._running:
            yield

    def close(self) -> None:
        """Sessions and open streams end at once, and none begins."""
        self._closed = True
        if self._operator is not None:
            self._operator.close()

    def routes(self) -> Sequence[BaseRoute]:
        """For the application behind the door."""
        return [Route(ASSISTANTS, _Endpoint(self), methods=None)]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        async with self._making:
            if self._endpoint is None:
                self._endpoint = await self._made()
        await self._endpoint(scope, receive, send)

    async def _made(self) -> ASGIApp:
        kind = await asyncio.to_thread(_loaded)
        operator = kind(self._desk, self._book, url=self._url, state_key=self._state_key, version=self._version)
        await self._running.enter_async_context(operator.running())
        self._operator = operator
        if self._closed:
            operator.close()
        return operator.endpoint()


def _loaded() -> "type[Operator]":
    from gateway.inbound.console.operator import Operator  # noqa: PLC0415 - it takes a second, in a thread

    return Operator


class _Endpoint:
    """A class, so that Starlette takes it for an ASGI application."""

    def __init__(self, assistants: Assistants) -> None:
        self._assistants = assistants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._assistants.serve(scope, receive, send)
