"""(HTTP response) -> Answer. One POST, one call: what comes back on it can be about nothing else."""

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import aiohttp

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence
from gateway.outbound.upstream.sse import Events, EventTooLarge
from gateway.outbound.upstream.wire import (
    MAX_MESSAGE,
    Answered,
    Ask,
    Asked,
    Incoming,
    Malformed,
    Told,
    legible,
    read,
    worth_saying,
)

_LOG = logging.getLogger("counterfoil.upstream")

_MAX_REFUSAL = 1024 * 1024
_DRAIN_S = 0.5
"""For the end of a stream whose answer has come: the connection can be used again."""

_REFUSED = {
    401: "it wants other credentials",
    403: "it forbids the call",
    404: "there is nothing at its address",
    405: "it takes no POST at its address",
    413: "the call is too large for it",
    415: "it does not take JSON",
    429: "it has had too many calls",
}
"""The statuses that say that a call was turned away at the door, before any tool ran."""


@dataclass(slots=True, eq=False)
class Call:
    """One request under way."""

    id: int
    ask: Ask
    answered: asyncio.Future[Answer]
    reached: bool = False
    """There was a connection, so some bytes may have been written."""
    expired: bool = False
    """The caller was told that no answer came, so it must not be sent again."""
    session: str | None = None
    """Under which it was sent."""

    def end(self, answer: Answer) -> None:
        """Whoever waits has this answer, unless one came before."""
        if not self.answered.done():
            self.answered.set_result(answer)


class TooLarge(ValueError):
    """The body is larger than what we read."""


class Reader:
    """Reads the responses of one upstream."""

    def __init__(self, name: str, counts: Counter[str], on_other: Callable[[Told | Asked, Call], None]) -> None:
        """`on_other` takes what comes on a stream beside the answer."""
        self._name = name
        self._counts = counts
        self._on_other = on_other

    async def receive(self, response: aiohttp.ClientResponse, call: Call) -> bool:
        """Whether the call has its answer; if not, the server did not know its session, and did not run it.

        Raises: aiohttp.ClientError, OSError, TooLarge, EventTooLarge. The call may have its answer all the same.
        """
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity":
            call.end(Silence(f"the answer is encoded as `{encoding[:32]}`, which was not asked for"))
        elif response.status >= 300:  # noqa: PLR2004 - redirects are not followed, so they are refusals too
            return await self._refusal(response, call)
        elif response.content_type == "text/event-stream":
            await self._stream(response, call)
        elif response.content_type == "application/json":
            self._whole(await _body(response, MAX_MESSAGE), call)
        else:
            kind = f"status {response.status} and the content type `{response.content_type[:64]}`"
            call.end(Silence(f"it answered with {kind}, which is no answer to a call"))
        return True

    async def _stream(self, response: aiohttp.ClientResponse, call: Call) -> None:
        events = Events(MAX_MESSAGE)
        async for chunk in response.content.iter_any():
            for data in events.feed(chunk):
                self._event(data, call)
            if call.answered.done():
                break
        else:
            call.end(Silence("the stream ended without an answer"))
        try:
            async with asyncio.timeout(_DRAIN_S):
                async for chunk in response.content.iter_any():
                    for data in events.feed(chunk):
                        self._event(data, call)
        except TimeoutError:
            pass

    def _event(self, data: bytes, call: Call) -> None:
        match read(data):
            case Told() | Asked() as other:
                self._on_other(other, call)
            case Answered(call.id, answer) if not call.answered.done():
                call.end(answer)
            case Answered(answered, _):
                self._odd("unsolicited", f"an answer that nobody waits for, with the id `{str(answered)[:64]}`")
            case Malformed(answered, reason):
                self._odd("malformed", f"{reason}: {legible(data)}")
                if answered == call.id:
                    call.end(Silence(f"the answer is not valid: {reason}"))

    def _whole(self, body: bytes, call: Call) -> None:
        match read(body):
            case Answered(call.id, answer):
                call.end(answer)
            case Malformed(_, reason):
                self._odd("malformed", f"{reason}: {legible(body)}")
                call.end(Silence(f"the answer is not valid: {reason}"))
            case Answered(answered, _):
                self._odd("unsolicited", f"an answer with the id `{str(answered)[:64]}` to the call {call.id}")
                call.end(Silence("the answer carries the id of another call"))
            case Told() | Asked():
                call.end(Silence("it answered with a message that is no answer"))

    async def _refusal(self, response: aiohttp.ClientResponse, call: Call) -> bool:
        message: Incoming = Malformed(None, "no JSON")
        if response.content_type == "application/json":
            message = read(await _body(response, _MAX_REFUSAL))
        ours = isinstance(message, Answered) and message.id == call.id
        if response.status == 404 and call.session is not None and not ours:  # noqa: PLR2004
            return False
        call.end(refused(response.status, message, call.id))
        return True

    def _odd(self, kind: str, what: str) -> None:
        self._counts[kind] += 1
        if worth_saying(self._counts[kind]):
            _LOG.warning("%s: %s", self._name, what)


def refused(status: int, message: Incoming, call_id: int) -> Answer:
    """What a status that is no success means, with the body that came with it."""
    match message:
        case Answered(answered, answer) if answered == call_id:
            return answer
        case Answered(None | str(), ProtocolError() as error):
            return error  # refused before its id was read; servers say null, or `server-error`
        case _ if status in _REFUSED:
            return NotSent(f"the upstream refused the call with status {status}: {_REFUSED[status]}")
        case _ if status < 400:  # noqa: PLR2004
            return Silence(f"it answered with a redirect (status {status}), which is not followed")
        case _:
            return Silence(f"it answered with status {status} and without a JSON-RPC message")


async def _body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the answer is larger than {limit} bytes")
        parts.append(chunk)
    return b"".join(parts)


EXCHANGE_FAILED = (aiohttp.ClientError, OSError, TooLarge, EventTooLarge)
"""What an exchange may raise, beside cancellation. Timeouts are `OSError` since Python 3.11."""


def what_failed(error: Exception) -> str:
    """Why an exchange failed, as a rest of a sentence. Never in the library's words: they show the whole address."""
    match error:
        case TimeoutError():
            return "there was no connection in time"
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientSSLError():
            return "there is no trust in its certificate"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case aiohttp.ServerDisconnectedError():
            return "it was closed"
        case aiohttp.ClientPayloadError():
            return "it was cut off"
        case TooLarge() | EventTooLarge():
            return str(error)
        case _:
            return "it failed"
