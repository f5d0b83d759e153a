"""JSON-RPC over one stream each way: an answer goes to the call that has its id, and to no other."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.model.tool import Answer, NotSent, Silence
from gateway.outbound.upstream.call import AFTER_CANCEL_S, HELD_UP, UNSENT, Call
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.wire import (
    Answered,
    Asked,
    Malformed,
    Told,
    cancelled,
    encode,
    legible,
    notification,
    read,
    request,
    worth_saying,
)

_LOG = logging.getLogger("counterfoil.upstream")

MAX_LATE = 10_000
"""Answers that we still hope for after their time, oldest given up first: an upstream that never answers costs this."""

REPLY_S = 10.0
"""For an answer of the client's to be taken by an upstream that does not read."""


class Duplex:
    """The calls over one connection, for as long as it lasts."""

    def __init__(
        self,
        calls: Calls,
        *,
        write: Callable[[bytes, Call | None], bool],
        has_room: Callable[[], bool],
        room: Callable[[], Awaitable[None]],
    ) -> None:
        """`write` takes one message, for a call or beside them, and says whether any byte may have been handed over."""
        self._calls = calls
        self._counts = calls.counts
        self._write = write
        self._has_room = has_room
        self._room = room
        self._open: dict[int, Call] = {}
        self._late: dict[int, Call] = {}
        self._end: str | None = None
        calls.bind(self.say, self._reply)

    # --- one call, as `Way` -------------------------------------------------------------------------------------------

    async def begin(self, call: Call) -> NotSent | None:
        """As `Way.begin`: it was sent, or is not."""
        line = encode(request(call.id, call.ask.method, call.ask.params))
        if not self._has_room() and not await self._room_within(call.deadline.left_s() if call.deadline else 0.0):
            return NotSent(f"the upstream took no input within {call.ask.timeout_s:g} s")
        if call.withdrawn:
            return UNSENT
        if self._end is not None:
            return NotSent(f"the upstream {self._end}")
        if call.ask.too_late:
            return HELD_UP
        self._open[call.id] = call
        call.reached = True
        if not self._write(line, call):
            self.forget(call)
            return NotSent("the upstream takes no input any more")
        return None

    def withdraw(self, call: Call) -> float:
        """As `Way.withdraw`."""
        if call.reached and call.answer is None and call.ask.method != "initialize":
            self.say(cancelled(call.id))
        return AFTER_CANCEL_S

    def hope_for(self, call: Call) -> None:
        """As `Way.hope_for`."""
        self.forget(call)
        if call.ask.late is None or self._end is not None:
            return
        self._late[call.id] = call
        if len(self._late) > MAX_LATE:
            del self._late[next(iter(self._late))]

    def forget(self, call: Call) -> None:
        """As `Way.forget`."""
        self._open.pop(call.id, None)

    # --- beside the calls ---------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """The notification was sent, unless the upstream takes nothing now."""
        self.say(notification(method, params))

    def say(self, message: Mapping[str, Any]) -> None:
        """The message was sent. Never waited for: who asks but does not read must not fill our memory."""
        if self._end is not None or not self._has_room() or not self._write(encode(message), None):
            self._counts["unsaid"] += 1

    async def _reply(self, message: Mapping[str, Any]) -> None:
        await self._room_within(REPLY_S)
        self.say(message)

    async def _room_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not self._has_room():
                    await self._room()
        except TimeoutError:
            return False
        return True

    def end(self, reason: str) -> None:
        """Nothing is sent any more, and nobody waits. `reason` is the rest of a sentence about the upstream."""
        self._end = self._end or reason
        for call in list(self._open.values()):
            call.end(Silence(f"the upstream {self._end} before it answered"))
        self._late.clear()
        self._calls.questions.close()

    # --- in -----------------------------------------------------------------------------------------------------------

    def take(self, line: bytes | None) -> None:
        """One message has come; None is one that was too long."""
        if line is None:
            self._malformed(Malformed(None, "a line longer than 64 MiB"), b"")
            return
        if not line or line.isspace():
            return
        match read(line):
            case Answered(answered, answer):
                self._answer(answered, answer)
            case Told() as told:
                self._calls.heard(told)
            case Asked() as asked:
                self._calls.asked(asked)
            case Malformed() as malformed:
                self._malformed(malformed, line)

    def _answer(self, answered: int | str | None, answer: Answer) -> None:
        ours = answered if isinstance(answered, int) else -1
        waiting = self._open.get(ours)
        if waiting is not None and waiting.answer is None:
            waiting.end(answer)
            return
        late = self._late.pop(ours, None)
        if late is not None and not isinstance(answer, Silence):
            late.end(answer)
            return
        self._counts["unsolicited"] += 1
        if worth_saying(self._counts["unsolicited"]):
            what = "an answer that nobody waits for, with the id"
            _LOG.warning("%s: %s `%s`", self._calls.name, what, str(answered)[:64])

    def _malformed(self, malformed: Malformed, line: bytes) -> None:
        self._counts["malformed"] += 1
        if worth_saying(self._counts["malformed"]):
            _LOG.warning("%s: %s: %s", self._calls.name, malformed.reason, legible(line))
        waiting = self._open.get(malformed.id) if malformed.id is not None else None
        if waiting is not None:
            waiting.end(Silence(f"the answer is not valid: {malformed.reason}"))
