"""The calls over one child: an answer goes to the call that has its id, and to no other."""

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import Mapping
from typing import Any

from gateway.model.tool import Answer, NotSent, Silence
from gateway.outbound.upstream.child import Child
from gateway.outbound.upstream.spec import StdioSpec
from gateway.outbound.upstream.wire import (
    Answered,
    Ask,
    Asked,
    Hear,
    Late,
    Malformed,
    Told,
    cancelled,
    encode,
    legible,
    notification,
    read,
    reply,
    request,
    worth_saying,
)

_LOG = logging.getLogger("counterfoil.upstream")

MAX_LATE = 10_000
"""Answers that we still hope for after their time, oldest given up first: an upstream that never answers costs this."""


class Pipe:
    """JSON-RPC over a child's stdin and stdout, for as long as it lives."""

    def __init__(self, spec: StdioSpec, counts: Counter[str], hear: Hear) -> None:
        self.child = Child(spec, self._take)
        self._name = spec.name
        self._counts = counts
        self._hear = hear
        self._ids = itertools.count(1)
        self._open: dict[int, asyncio.Future[Answer]] = {}
        self._late: dict[int, Late] = {}
        self._end: str | None = None

    async def ask(self, ask: Ask) -> Answer:
        """What came of one request. A call that timed out is not cancelled: it may still be acting."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + ask.timeout_s
        call_id = next(self._ids)
        line = encode(request(call_id, ask.method, ask.params))
        if not await self._has_room(deadline):
            return NotSent(f"the upstream took no input within {ask.timeout_s:g} s")
        if self._end is not None or not self.child.write(line):
            return NotSent(f"the upstream {self._end or 'takes no input any more'}")
        # INVARIANT: no await between the write and here, so no answer can come before its call is known.
        answered: asyncio.Future[Answer] = loop.create_future()
        self._open[call_id] = answered
        try:
            await asyncio.wait({answered}, timeout=max(0.0, deadline - loop.time()))
        except asyncio.CancelledError:
            self._withdraw(call_id, ask)
            raise
        finally:
            del self._open[call_id]
        if answered.done():
            if isinstance(answered.result(), Silence):
                self._hope_for(call_id, ask.late)  # what came was not valid; what comes yet may be
            return answered.result()
        self._counts["timed_out"] += 1
        self._hope_for(call_id, ask.late)
        return Silence(f"no answer within {ask.timeout_s:g} s")

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """The notification was sent, unless the child takes nothing now."""
        self._say(notification(method, params))

    async def watch(self) -> str:
        """The child has ended, and every open call is told so; how it ended."""
        reason = await self.child.ended()
        self.end(reason)
        return reason

    def end(self, reason: str) -> None:
        """Nothing is sent any more, and nobody waits. `reason` is the rest of a sentence about the upstream."""
        self._end = self._end or reason
        for answered in self._open.values():
            if not answered.done():
                answered.set_result(Silence(f"the upstream {self._end} before it answered"))
        self._late.clear()

    # --- out --------------------------------------------------------------------------------------------------------

    async def _has_room(self, deadline: float) -> bool:
        if self.child.has_room:
            return True
        try:
            async with asyncio.timeout_at(deadline):
                await self.child.room()
        except TimeoutError:
            return False
        return True

    def _say(self, message: Mapping[str, Any]) -> None:
        # Never waited for: an upstream that asks but does not read must not fill our memory.
        if not self.child.has_room or not self.child.write(encode(message)):
            self._counts["unsaid"] += 1

    def _withdraw(self, call_id: int, ask: Ask) -> None:
        if not self._open[call_id].done() and ask.acts:
            self._say(cancelled(call_id))

    def _hope_for(self, call_id: int, late: Late | None) -> None:
        if late is None or self._end is not None:
            return
        self._late[call_id] = late
        if len(self._late) > MAX_LATE:
            del self._late[next(iter(self._late))]

    # --- in ---------------------------------------------------------------------------------------------------------

    def _take(self, line: bytes | None) -> None:
        if line is None:
            self._malformed(Malformed(None, "a line longer than 64 MiB"), b"")
            return
        if not line or line.isspace():
            return
        match read(line):
            case Answered(answered, answer):
                self._answer(answered, answer)
            case Told(method, params):
                # Soon, not now: an error of the handler must not cost the lines behind this one.
                asyncio.get_running_loop().call_soon(self._hear, method, params)
            case Asked() as asked:
                self._say(reply(asked))
            case Malformed() as malformed:
                self._malformed(malformed, line)

    def _answer(self, answered: int | str | None, answer: Answer) -> None:
        waiting = self._open.get(answered) if isinstance(answered, int) else None
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
            return
        late = self._late.pop(answered, None) if isinstance(answered, int) else None
        if late is not None and not isinstance(answer, Silence):
            self._counts["late"] += 1
            asyncio.get_running_loop().call_soon(late, answer)
            return
        self._counts["unsolicited"] += 1
        if worth_saying(self._counts["unsolicited"]):
            _LOG.warning("%s: an answer that nobody waits for, with the id `%s`", self._name, str(answered)[:64])

    def _malformed(self, malformed: Malformed, line: bytes) -> None:
        self._counts["malformed"] += 1
        if worth_saying(self._counts["malformed"]):
            _LOG.warning("%s: %s: %s", self._name, malformed.reason, legible(line))
        waiting = self._open.get(malformed.id) if malformed.id is not None else None
        if waiting is not None and not waiting.done():
            waiting.set_result(Silence(f"the answer is not valid: {malformed.reason}"))
