"""A connection over HTTP+SSE, the transport of 2024-11-05: answers come on one stream, requests go beside it.

Where a server may be of either transport, the newer one is tried first [MCP, transports: backwards compatibility].
"""

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from gateway.model.party import Behalf
from gateway.model.tool import Answer, NotSent, Silence
from gateway.outbound.upstream.call import Call, behalf_of, carry
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.duplex import Duplex
from gateway.outbound.upstream.exchange import EVENT_STREAM, EXCHANGE_FAILED, refused
from gateway.outbound.upstream.headers import headers_of, stream_headers
from gateway.outbound.upstream.http import HttpConnection, NotStreamable
from gateway.outbound.upstream.http1 import HttpFailure, Response
from gateway.outbound.upstream.negotiate import Agreement, Client, Introduce, Unreachable, negotiate
from gateway.outbound.upstream.place import Place
from gateway.outbound.upstream.spec import HttpSpec, Patience
from gateway.outbound.upstream.sse import Events
from gateway.outbound.upstream.wire import Ask, Malformed

_GOODBYE_S = 0.5
_OK = 200
_FAILED = 300


class SseConnection:
    """The way to one server of the older transport."""

    def __init__(
        self,
        spec: HttpSpec,
        client: Client,
        patience: Patience,
        calls: Calls,
        introduce: Introduce | None = None,
        behalf: Behalf | None = None,
    ) -> None:
        """Nothing is sent yet. `introduce` as in `negotiate`, `behalf` as in `Place`."""
        self._client = client
        self._patience = patience
        self._calls = calls
        self._introduce = introduce
        self._place = Place(spec, client, patience, behalf)
        self._duplex: Duplex | None = None
        self._path: str | None = None
        self._version: str | None = None
        self._reading: asyncio.Task[str] | None = None
        self._posts: set[asyncio.Task[None]] = set()

    def expect_legacy(self) -> None:
        """It is of the older era anyway."""

    async def connect(self) -> Agreement:
        """A new stream, and an agreement.

        Raises: Unreachable.
        """
        self._path = self._version = None
        self._duplex = Duplex(self._calls, write=self._write, has_room=lambda: True, room=_at_once)
        found: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.get_running_loop().create_task(self._read(self._duplex, found))
        await asyncio.wait({self._reading, found}, return_when=asyncio.FIRST_COMPLETED)
        if not found.done():
            raise Unreachable(f"it {self._reading.result()}")
        self._path = _path_of(self._place.url, found.result())
        agreement = await negotiate(
            self, self._client, probe_s=None, timeout_s=self._patience.start_s, introduce=self._introduce
        )
        self._version = agreement.version
        return agreement

    async def lost(self) -> str:
        """The stream has ended; how, as the rest of a sentence."""
        return await asyncio.shield(self._reading) if self._reading is not None else "was never connected to"

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`."""
        return await self._calls.carried(self._calls.open(ask), self.carry)

    async def carry(self, call: Call) -> Answer:
        """What came of the call."""
        return NotSent("there is no connection") if self._duplex is None else await carry(call, self._duplex)

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:  # noqa: ARG002 - known anyway
        """As `Channel.notify`."""
        if self._duplex is not None:
            self._duplex.notify(method, params)

    def unfit(self, definition: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - only the newer era says it in headers
        """Why a tool cannot be called over this connection; None if it can."""
        return None

    async def drop(self) -> None:
        """The stream is closed; whoever still waited for an answer is told so."""
        if self._duplex is not None:
            self._duplex.end("was disconnected")
        tasks = {*self._posts, *({self._reading} if self._reading is not None else ())}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_GOODBYE_S)
        self._duplex = self._reading = None

    async def close(self) -> None:
        """As `drop`, for good."""
        await self.drop()
        await self._place.close()

    # --- in -----------------------------------------------------------------------------------------------------------

    async def _read(self, duplex: Duplex, found: "asyncio.Future[str]") -> str:
        """The stream has ended, and every open call is told so; how it ended."""
        reason = "ended its stream"
        try:
            with await self._place.send("GET", stream_headers(None, self._place.headers, None, None)) as response:
                if response.status == _OK and response.content_type == EVENT_STREAM:
                    await self._take(response, duplex, found)
                else:
                    reason = f"offers no stream: status {response.status}"
        except EXCHANGE_FAILED as error:
            reason = f"cannot be reached: {error}"
        duplex.end(reason)
        return reason

    async def _take(self, response: Response, duplex: Duplex, found: "asyncio.Future[str]") -> None:
        events = Events(self._patience.answer_bytes)
        async for chunk in response:
            for data in events.feed(chunk):
                duplex.take(data)
            if events.endpoint is not None and not found.done():
                found.set_result(events.endpoint.decode("utf-8", "replace"))

    # --- out ----------------------------------------------------------------------------------------------------------

    def _write(self, body: bytes, call: Call | None) -> bool:
        if self._path is None:
            return False
        if call is not None:
            call.reached = False  # until there is a connection
        self._post_soon(self._post(body, call, self._path))
        return True

    def _post_soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)

    async def _post(self, body: bytes, call: Call | None, path: str) -> None:
        def reached() -> None:
            if call is not None:
                call.reached = True

        headers = headers_of(call.ask if call is not None else Ask("", {}, 0.0), self._place.headers, None)
        behalf = behalf_of(call) if call is not None else None
        limit_s = call.ask.timeout_s if call is not None else self._patience.connect_s
        try:
            async with asyncio.timeout(limit_s):
                sent = self._place.send("POST", headers, body, path=path, on_reached=reached, behalf=behalf)
                with await sent as response:
                    if response.status >= _FAILED and call is not None:
                        call.end(refused(response.status, Malformed(None, "not read"), call.id))
        except (HttpFailure, TimeoutError) as error:
            if call is None:
                self._calls.counts["unsaid"] += 1
            elif not call.reached:
                call.end(NotSent(f"the upstream cannot be reached: {error}"))
            elif not isinstance(error, TimeoutError):
                call.end(Silence(f"the answer was not read: {error}"))


async def _at_once() -> None:
    """There is always room: each message has a connection of its own."""


def _path_of(url: str, endpoint: str) -> str:
    """Where messages go; at the same server, for our credentials go with them.

    Raises: Unreachable.
    """
    ours, theirs = urlsplit(url), urlsplit(urljoin(url, endpoint))
    if (ours.scheme, ours.netloc) != (theirs.scheme, theirs.netloc):
        raise Unreachable("it wants its messages sent to another server")
    return (theirs.path or "/") + (f"?{theirs.query}" if theirs.query else "")


class EitherConnection:
    """The way to a server of whichever HTTP transport it turns out to have."""

    def __init__(
        self,
        spec: HttpSpec,
        client: Client,
        patience: Patience,
        calls: Calls,
        introduce: Introduce | None = None,
        behalf: Behalf | None = None,
    ) -> None:
        """As `HttpConnection`."""
        self._newer = HttpConnection(spec, client, patience, calls, introduce, behalf)
        self._older = SseConnection(spec, client, patience, calls, introduce, behalf)
        self._now: HttpConnection | SseConnection = self._newer

    def expect_legacy(self) -> None:
        """Another connection found the older era there: it is not probed again."""
        self._newer.expect_legacy()

    async def connect(self) -> Agreement:
        """An agreement over the newer transport, or else the older one.

        Raises: Unreachable.
        """
        self._now = self._newer
        try:
            return await self._newer.connect()
        except NotStreamable as error:
            self._now = self._older
            try:
                return await self._older.connect()
            except Unreachable:
                await self._older.drop()
                self._now = self._newer
                raise error from None

    async def lost(self) -> str:
        """As the connection that there is."""
        return await self._now.lost()

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`."""
        return await self._now.ask(ask)

    async def carry(self, call: Call) -> Answer:
        """What came of the call."""
        return await self._now.carry(call)

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:
        """As `Channel.notify`."""
        await self._now.notify(method, params, version)

    def unfit(self, definition: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called over this connection; None if it can."""
        return self._now.unfit(definition)

    async def drop(self) -> None:
        """What was left of a lost connection is gone."""
        await self._now.drop()

    async def close(self) -> None:
        """Nothing is held open, and nobody waits."""
        await asyncio.gather(self._newer.close(), self._older.close())
