"""Streams over GET, in the older era: one for what belongs to no call, and the rest of those that broke.

A stream is resumed from its last event [MCP 2025-11-25, resumability]; a call is never sent again for it.
"""

import asyncio
from collections.abc import Callable

from gateway.model.tool import Silence
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.exchange import EVENT_STREAM, EXCHANGE_FAILED, Came, Reader
from gateway.outbound.upstream.headers import stream_headers
from gateway.outbound.upstream.http1 import CannotConnect, Response
from gateway.outbound.upstream.negotiate import MODERN
from gateway.outbound.upstream.place import Place
from gateway.outbound.upstream.spec import Patience
from gateway.outbound.upstream.sse import Events

_LEAST_PAUSE_S = 0.05
_FIRST_PAUSE_S = 1.0
_OK = 200
_NOT_FOUND = 404
_OWN_FAULT = 500


class Streams:
    """The streams that one connection reads over GET."""

    def __init__(self, place: Place, reader: Reader, patience: Patience) -> None:
        """Nothing is read yet."""
        self._place = place
        self._reader = reader
        self._last_pause_s = patience.last_pause_s
        self._answer_bytes = patience.answer_bytes

    async def resume(self, call: Call, events: Events) -> None:
        """The call has an answer: that of its stream's rest, or that the rest cannot be had. Ends with the call."""
        if call.ask.version in {None, MODERN}:
            call.end(Silence("the stream ended without an answer"))
            return
        fails = 0
        while True:
            if call.caller is not None and fails == 0:
                call.caller.pause(events.retry_ms)
            await asyncio.sleep(self._pause_s(events, fails))
            events = events.again()
            seen = events.last_id
            try:
                with await self._get(call.ask.version, call.session, events) as response:
                    if not _is_stream(response):
                        if response.status < _OWN_FAULT:
                            words = f"the stream ended without an answer, and its rest was refused: {response.status}"
                            call.end(Silence(words))
                            return
                        fails += 1
                    elif await self._reader.stream(response, call, events) is Came.ANSWER:
                        return
                    else:
                        fails = 0
            except EXCHANGE_FAILED:
                fails = fails + 1 if events.last_id == seen else 0

    async def listen(self, version: str | None, session: str | None, lose: Callable[[str], None]) -> None:
        """What the server says on its own is heard, for as long as it offers such a stream. Ends if it offers none.

        `lose` is told if the server is no longer there, or does not know us any more.
        """
        events = Events(self._answer_bytes)
        fails, before = 0, False
        while True:
            try:
                with await self._get(version, session, events) as response:
                    if not _is_stream(response):
                        if response.status < _OWN_FAULT or not before:
                            if before and response.status == _NOT_FOUND:
                                lose("forgot our session")
                            return
                        fails += 1
                    else:
                        fails, before = 0, True
                        async for chunk in response:
                            for data in events.feed(chunk):
                                self._reader.aside(data)
            except CannotConnect as error:
                if before:
                    lose(f"cannot be reached: {error}")
                    return
                fails += 1
            except EXCHANGE_FAILED:
                fails += 1
            await asyncio.sleep(self._pause_s(events, fails))
            events = events.again()

    async def _get(self, version: str | None, session: str | None, events: Events) -> Response:
        headers = stream_headers(version, self._place.headers, session, events.last_id)
        return await self._place.send("GET", headers)

    def _pause_s(self, events: Events, fails: int) -> float:
        said_s = _FIRST_PAUSE_S if events.retry_ms is None else max(events.retry_ms / 1000, _LEAST_PAUSE_S)
        return min(said_s * float(1 << min(fails, 10)), max(said_s, self._last_pause_s))


def _is_stream(response: Response) -> bool:
    return response.status == _OK and response.content_type == EVENT_STREAM
