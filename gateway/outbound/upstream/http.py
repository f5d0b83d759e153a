"""A connection over streamable HTTP: one POST a call, so that a call which fails harms no other.

Our own, because the SDK's client tears down every call of a connection when one POST fails.
"""

import asyncio
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from typing import Any

from gateway.model.party import Behalf
from gateway.model.tool import Answer, NotSent, ProtocolError, Silence
from gateway.outbound.upstream.call import AFTER_CANCEL_S, HELD_UP, Call, behalf_of, carry
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.exchange import EXCHANGE_FAILED, Came, Reader
from gateway.outbound.upstream.headers import SESSION, headers_of, merged, unfit
from gateway.outbound.upstream.http1 import HttpFailure, Unsendable
from gateway.outbound.upstream.negotiate import MODERN, Agreement, Client, Introduce, Unreachable, negotiate
from gateway.outbound.upstream.place import Place, Unvouched
from gateway.outbound.upstream.spec import HttpSpec, Patience, unsendable
from gateway.outbound.upstream.sse import Events
from gateway.outbound.upstream.streams import Streams
from gateway.outbound.upstream.wire import (
    UNSUPPORTED_VERSION,
    Ask,
    cancelled,
    encode,
    notification,
    request,
)

MAX_LATE = 256
"""Calls that are read on after their time, oldest given up first: each holds a connection."""

LATE_S = 3600.0
"""For how long."""

_PROBE_S = 10.0
_GOODBYE_S = 0.5
_MAX_SAYING = 16

_NOT_STREAMABLE = {400, 404, 405}
"""What servers of the older transport answer to our first POST [MCP, transports: backwards compatibility]."""


class NotStreamable(Unreachable):
    """The server may be one of the older transport, HTTP+SSE."""


class HttpConnection:
    """The way to one server at an address."""

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
        self._reader = Reader(calls)
        self._tasks: set[asyncio.Task[None]] = set()
        self._under_way: dict[int, asyncio.Task[None]] = {}
        self._late: dict[int, asyncio.Task[None]] = {}
        self._saying = 0
        self._session: str | None = None
        self._agreement: Agreement | None = None
        self._greeted: int | None = None
        self._probe = True
        self._older = False
        self._renewing = asyncio.Lock()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._streams = Streams(self._place, self._reader, patience)
        self._standing: asyncio.Task[None] | None = None

    def expect_legacy(self) -> None:
        """The older era is asked for first, also after a loss: whoever speaks both is spoken to in that one."""
        self._probe, self._older = False, True

    async def connect(self) -> Agreement:
        """An agreement; what is under way is not touched.

        Raises: Unreachable.
        """
        self._session = self._greeted = None
        self._calls.bind(self._say, self._reply)
        try:
            agreement = await self._negotiate(_PROBE_S if self._probe else None)
        except Unreachable as error:
            self._probe = not self._older  # perhaps there is another server now
            if self._greeted in _NOT_STREAMABLE:
                raise NotStreamable(str(error)) from None
            raise
        self._lost = asyncio.get_running_loop().create_future()
        self._listen()
        return agreement

    async def _negotiate(self, probe_s: float | None) -> Agreement:
        agreement = self._agreement = await negotiate(
            self, self._client, probe_s=probe_s, timeout_s=self._patience.start_s, introduce=self._introduce
        )
        return agreement

    async def lost(self) -> str:
        """The server cannot be reached, or knows us no more; why, as the rest of a sentence."""
        return await asyncio.shield(self._lost)

    async def drop(self) -> None:
        """No stream of its own is read any more. Calls are not touched: each has a connection of its own."""
        self._unlisten()

    async def close(self) -> None:
        """Nothing is under way any more; whoever still waited for an answer is told so."""
        self._calls.questions.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GOODBYE_S)
        if self._session is not None:
            await self._goodbye(self._session)
        await self._place.close()

    def unfit(self, definition: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called over this connection; None if it can."""
        return unfit(definition) if self._agreement is not None and self._agreement.modern else None

    # --- one call, as `Way` -------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`."""
        return await self._calls.carried(self._calls.open(ask), self.carry)

    async def carry(self, call: Call) -> Answer:
        """What came of the call. One that timed out is read on: closing its stream could stop it half-way."""
        return await carry(call, self)

    async def begin(self, call: Call) -> NotSent | None:
        """As `Way.begin`."""
        if (bad := unsendable(call.ask.headers)) is not None:
            return NotSent(f"the header `{bad[:64]}` cannot be sent")
        task = self._under_way[call.id] = self._spawn(self._carry(call))
        task.add_done_callback(lambda _: self._ended(call))
        return None

    def _ended(self, call: Call) -> None:
        self._under_way.pop(call.id, None)
        call.end(Silence("the connection was closed before the answer came"))

    def withdraw(self, call: Call) -> float:
        """As `Way.withdraw`. In the newer era, to close the stream is to cancel; in the older one it says nothing."""
        if call.ask.version == MODERN or not call.ask.acts:
            self._stop(call)
            return 0.0
        if call.reached:
            self._say(cancelled(call.id))
        return AFTER_CANCEL_S

    def hope_for(self, call: Call) -> None:
        """As `Way.hope_for`."""
        task = self._under_way.get(call.id)
        if task is None or task.done():
            return
        if call.ask.method != "tools/call" and call.ask.late is None:
            task.cancel()
            return
        timer = asyncio.get_running_loop().call_later(LATE_S, task.cancel)
        self._late[call.id] = task
        task.add_done_callback(lambda _: timer.cancel())
        task.add_done_callback(lambda _: self._late.pop(call.id, None))
        if len(self._late) > MAX_LATE:
            self._late.pop(next(iter(self._late))).cancel()

    def forget(self, call: Call) -> None:
        """As `Way.forget`. Of an answered call the stream is read to its end, which is near."""
        if call.answer is None:
            self._stop(call)

    def _stop(self, call: Call) -> None:
        task = self._under_way.get(call.id)
        if task is not None:
            task.cancel()

    async def _carry(self, call: Call) -> None:
        try:
            if not await self._exchange(call):
                await self._once_more(call)
        except Unsendable as error:
            call.end(NotSent(str(error)))
        except EXCHANGE_FAILED as error:
            if call.reached:
                call.end(Silence(f"the answer was not read: {error}"))
                return
            if isinstance(error, Unvouched):
                # Nothing is wrong with the server: the words are about who calls.
                call.end(NotSent(str(error), needs_account=error.needs_account))
                return
            reason = f"cannot be reached: {error}"
            call.end(NotSent(f"the upstream {reason}"))
            self._lose(reason)

    async def _exchange(self, call: Call) -> bool:
        """Whether the call has its answer; if not, the server did not know our session."""
        greeting = call.ask.version is None
        call.session = None if greeting else self._session
        body = encode(request(call.id, call.ask.method, call.ask.params))
        events = Events(self._patience.answer_bytes)

        def reached() -> None:
            if call.ask.too_late:
                raise Unsendable(HELD_UP.reason)
            call.reached = True

        headers = headers_of(call.ask, self._place.headers, call.session)
        behalf = behalf_of(call)
        with await self._place.send("POST", headers, body, on_reached=reached, behalf=behalf) as response:
            if greeting:
                self._session = response.headers.get(SESSION)
                self._greeted = response.status
            came = await self._reader.receive(response, call, events)
        if came is Came.CUT:
            await self._streams.resume(call, events)
        if call.ask.acts and isinstance(call.answer, ProtocolError):
            self._look_for_a_loss(response.status, call, call.answer)
        return came is not Came.NO_SESSION

    async def _once_more(self, call: Call) -> None:
        # The server did not know the session, so the call did not run: the one case in which a call is sent twice.
        call.reached = False
        if call.expired or not await self._renewed(call):
            call.end(NotSent("the upstream had forgotten our session"))
        elif not await self._exchange(call):
            call.end(NotSent("the upstream does not know the session that it has just given"))

    async def _renewed(self, call: Call) -> bool:
        """Whether there is a session again. Of many calls that lost the same one, the first asks for the next."""
        async with self._renewing:
            if self._session != call.session:
                return self._session is not None
            renewed = False
            self._unlisten()
            try:
                agreement = await self._negotiate(None)
                renewed = self._session is not None and agreement.version == call.ask.version
            except Unreachable:
                pass  # `cannot be reached` is said when it is connected to again
            finally:
                if not renewed:
                    self._session = None
                    self._lose("forgot our session")
            if renewed:
                self._listen()
                self._calls.renewed()
            return renewed

    def _look_for_a_loss(self, status: int, call: Call, answer: ProtocolError) -> None:
        # Only for the calls to come: this one keeps its answer, whatever it meant.
        message = answer.error["message"].lower()
        if answer.error["code"] == UNSUPPORTED_VERSION:
            self._lose("speaks another protocol version now")
        elif call.session is not None and status in {400, 404} and ("session" in message or "initialized" in message):
            self._lose("forgot our session")

    def _lose(self, reason: str) -> None:
        if not self._lost.done():
            self._lost.set_result(reason)

    # --- the stream that belongs to no call ---------------------------------------------------------------------------

    def _listen(self) -> None:
        """The older era has one, for what a server says on its own [MCP 2025-11-25, listening for messages]."""
        self._unlisten()
        if self._agreement is not None and not self._agreement.modern:
            work = self._streams.listen(self._agreement.version, self._session, self._lose)
            self._standing = self._spawn(work)

    def _unlisten(self) -> None:
        if self._standing is not None:
            self._standing.cancel()
            self._standing = None

    # --- beside the calls ---------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:
        """As `Channel.notify`."""
        await self._post(notification(method, params), version)

    def _say(self, message: Mapping[str, Any]) -> None:
        # The newer era has no messages but requests; and a flood of questions must not become one of answers.
        agreement = self._agreement
        if agreement is None or agreement.modern or self._saying >= _MAX_SAYING:
            self._calls.counts["unsaid"] += 1
            return
        self._saying += 1
        self._spawn(self._post(message, agreement.version)).add_done_callback(self._said)

    def _said(self, _: "asyncio.Task[None]") -> None:
        self._saying -= 1

    async def _reply(self, message: Mapping[str, Any]) -> None:
        if self._agreement is not None:
            await self._post(message, self._agreement.version)

    async def _post(self, message: Mapping[str, Any], version: str) -> None:
        headers = headers_of(Ask("", {}, 0.0, version), self._place.headers, self._session)
        try:
            async with asyncio.timeout(self._patience.connect_s):
                with await self._place.send("POST", headers, encode(message)):
                    pass
        except (HttpFailure, TimeoutError):
            self._calls.counts["unsaid"] += 1

    async def _goodbye(self, session: str) -> None:
        headers = merged(self._place.headers, {SESSION: session})
        with suppress(HttpFailure, TimeoutError):
            async with asyncio.timeout(_GOODBYE_S):
                with await self._place.send("DELETE", headers):
                    pass

    # --- small things -------------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
