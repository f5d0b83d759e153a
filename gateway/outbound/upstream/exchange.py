"""(HTTP response) -> Answer. One POST, one call: what comes back on it can be about nothing else."""

import asyncio
import logging
from enum import Enum

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.http1 import HttpFailure, Response
from gateway.outbound.upstream.sse import Events, EventTooLarge
from gateway.outbound.upstream.wire import (
    Answered,
    Asked,
    Incoming,
    Malformed,
    Told,
    legible,
    read,
    worth_saying,
)

_LOG = logging.getLogger("counterfoil.upstream")

EVENT_STREAM = "text/event-stream"
_JSON = "application/json"
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

EXCHANGE_FAILED = (HttpFailure, EventTooLarge)
"""What an exchange may raise, beside cancellation. Each says why, as the rest of a sentence."""


class Came(Enum):
    """What a response was for its call."""

    ANSWER = "the call has its answer"
    NO_SESSION = "the server did not know its session, and did not run it"
    CUT = "its stream ended before the answer, and can be resumed"


class Reader:
    """Reads the responses of one upstream."""

    def __init__(self, calls: Calls) -> None:
        """What comes on a stream beside the answer goes to `calls`."""
        self._calls = calls

    async def receive(self, response: Response, call: Call, events: Events) -> Came:
        """What came. `events` knows afterwards from where the stream can be resumed.

        Raises: HttpFailure, EventTooLarge. The call may have its answer all the same.
        """
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            call.end(Silence(f"the answer is encoded as `{encoding[:32]}`, which was not asked for"))
        elif response.status >= 300:  # noqa: PLR2004 - redirects are not followed, so they are refusals too
            return await self._refusal(response, call)
        elif response.content_type == EVENT_STREAM:
            return await self.stream(response, call, events)
        elif response.content_type == _JSON:
            self._whole(await response.read(events.limit), call)
        else:
            kind = f"status {response.status} and the content type `{response.content_type[:64]}`"
            call.end(Silence(f"it answered with {kind}, which is no answer to a call"))
        return Came.ANSWER

    async def stream(self, response: Response, call: Call, events: Events) -> Came:
        """As `receive`, of a stream; also of one that was resumed.

        Raises: as `receive`.
        """
        try:
            async for chunk in response:
                for data in events.feed(chunk):
                    self._event(data, call)
                if _answered(call):
                    break
        except HttpFailure:
            if _answered(call):
                return Came.ANSWER
            if events.last_id is None:
                raise
        if not _answered(call):
            if events.last_id is not None:
                return Came.CUT
            call.end(Silence("the stream ended without an answer"))
            return Came.ANSWER
        await self._drain(response, call, events)
        return Came.ANSWER

    async def _drain(self, response: Response, call: Call, events: Events) -> None:
        try:
            async with asyncio.timeout(_DRAIN_S):
                async for chunk in response:
                    for data in events.feed(chunk):
                        self._event(data, call)
        except (TimeoutError, *EXCHANGE_FAILED):
            pass  # the answer is here

    def _event(self, data: bytes, call: Call) -> None:
        match read(data):
            case Told() as told:
                self._calls.heard(told, call)
            case Asked() as asked:
                self._calls.asked(asked, call)
            case Answered(call.id, answer) if not _answered(call):
                call.end(answer)
            case Answered(answered, _):
                self.odd("unsolicited", f"an answer that nobody waits for, with the id `{str(answered)[:64]}`")
            case Malformed(answered, reason):
                self.odd("malformed", f"{reason}: {legible(data)}")
                if answered == call.id:
                    call.end(Silence(f"the answer is not valid: {reason}"))

    def aside(self, data: bytes) -> None:
        """One event of the stream that belongs to no call."""
        match read(data):
            case Told() as told:
                self._calls.heard(told, apart=True)
            case Asked() as asked:
                self._calls.asked(asked)
            case Answered(answered, _):
                self.odd("unsolicited", f"an answer that nobody waits for, with the id `{str(answered)[:64]}`")
            case Malformed(_, reason):
                self.odd("malformed", f"{reason}: {legible(data)}")

    def _whole(self, body: bytes, call: Call) -> None:
        match read(body):
            case Answered(call.id, answer):
                call.end(answer)
            case Malformed(_, reason):
                self.odd("malformed", f"{reason}: {legible(body)}")
                call.end(Silence(f"the answer is not valid: {reason}"))
            case Answered(answered, _):
                self.odd("unsolicited", f"an answer with the id `{str(answered)[:64]}` to the call {call.id}")
                call.end(Silence("the answer carries the id of another call"))
            case Told() | Asked():
                call.end(Silence("it answered with a message that is no answer"))

    async def _refusal(self, response: Response, call: Call) -> Came:
        message: Incoming = Malformed(None, "no JSON")
        if response.content_type == _JSON:
            message = read(await response.read(_MAX_REFUSAL))
        ours = isinstance(message, Answered) and message.id == call.id
        if response.status == 404 and call.session is not None and not ours:  # noqa: PLR2004
            return Came.NO_SESSION
        call.end(refused(response.status, message, call.id))
        return Came.ANSWER

    def odd(self, kind: str, what: str) -> None:
        """It is counted, and said now and then."""
        counts = self._calls.counts
        counts[kind] += 1
        if worth_saying(counts[kind]):
            _LOG.warning("%s: %s", self._calls.name, what)


def _answered(call: Call) -> bool:
    return call.answer is not None and not (call.expired and isinstance(call.answer, Silence))


def refused(status: int, message: Incoming, call_id: int) -> Answer:
    """What a status that is no success means, with the body that came with it."""
    match message:
        case Answered(answered, answer) if answered == call_id:
            return answer
        case Answered(None | str(), ProtocolError() as error):
            return error  # refused before its id was read; servers say null, or `server-error`
        case _ if status in _REFUSED:
            return NotSent(f"the upstream refused the call with status {status}: {_REFUSED[status]}", refused=True)
        case _ if status < 400:  # noqa: PLR2004
            return Silence(f"it answered with a redirect (status {status}), which is not followed")
        case _:
            return Silence(f"it answered with status {status} and without a JSON-RPC message")
