"""A connection over streamable HTTP: one POST a call, so that a call which fails harms no other.

Our own, because the SDK's client tears down every call of a connection when one POST fails.
"""

import asyncio
import io
import itertools
from collections import Counter
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import aiohttp

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence
from gateway.outbound.upstream.exchange import EXCHANGE_FAILED, Call, Reader, what_failed
from gateway.outbound.upstream.headers import SESSION, headers_of, unfit
from gateway.outbound.upstream.negotiate import MODERN, Agreement, Client, Unreachable, negotiate
from gateway.outbound.upstream.spec import HttpSpec, Patience, unsendable
from gateway.outbound.upstream.wire import (
    UNSUPPORTED_VERSION,
    Ask,
    Asked,
    Hear,
    Late,
    Told,
    cancelled,
    encode,
    notification,
    reply,
    request,
)

MAX_LATE = 256
"""Calls that are read on after their time, oldest given up first: each holds a connection."""

LATE_S = 3600.0
"""For how long."""

_REUSE_S = 1.0
"""An idle connection is used again. Servers close theirs after 2 s (gunicorn), 5 s (uvicorn, Node); a call that meets
a closing one is a call of which nobody knows whether it arrived."""

_PROBE_S = 10.0
_GOODBYE_S = 0.5
_MAX_SAYING = 16
_LARGE = 512 * 1024


class HttpConnection:
    """The way to one server at an address."""

    def __init__(self, spec: HttpSpec, client: Client, patience: Patience, counts: Counter[str], hear: Hear) -> None:
        self._spec = spec
        self._client = client
        self._patience = patience
        self._counts = counts
        self._hear = hear
        self._reader = Reader(spec.name, counts, self._other)
        self._http: aiohttp.ClientSession | None = None
        self._ids = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: dict[int, asyncio.Task[None]] = {}
        self._saying = 0
        self._session: str | None = None
        self._agreement: Agreement | None = None
        self._renewing = asyncio.Lock()
        self._lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def connect(self) -> Agreement:
        """An agreement; what is under way is not touched.

        Raises: Unreachable.
        """
        self._session = None
        agreement = await negotiate(self, self._client, probe_s=_PROBE_S, timeout_s=self._patience.start_s)
        self._agreement = agreement
        self._lost = asyncio.get_running_loop().create_future()
        return agreement

    async def lost(self) -> str:
        """The server cannot be reached, or knows us no more; why, as the rest of a sentence."""
        return await asyncio.shield(self._lost)

    async def drop(self) -> None:
        """Nothing is to be dropped: each call has a connection of its own."""

    async def close(self) -> None:
        """Nothing is under way any more; whoever still waited for an answer is told so."""
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_GOODBYE_S)
        http, self._http = self._http, None
        if http is not None:
            if self._session is not None:
                await self._goodbye(http, self._session)
            await http.close()

    def unfit(self, definition: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called over this connection; None if it can."""
        return unfit(definition) if self._agreement is not None and self._agreement.modern else None

    # --- one call ---------------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`. A call that timed out is read on: closing its stream could stop it half-way."""
        if (bad := unsendable(ask.headers)) is not None:
            return NotSent(f"the header `{bad[:64]}` cannot be sent")
        call = Call(next(self._ids), ask, asyncio.get_running_loop().create_future())
        task = self._spawn(self._carry(call))
        task.add_done_callback(lambda _: call.end(Silence("the connection was closed before the answer came")))
        try:
            await asyncio.wait({call.answered}, timeout=ask.timeout_s)
        except asyncio.CancelledError:
            self._withdraw(call, task)
            raise
        if call.answered.done():
            return call.answered.result()
        if not call.reached:
            task.cancel()
            return NotSent(f"there was no connection within {ask.timeout_s:g} s")
        self._hope_for(call, task)
        return Silence(f"no answer within {ask.timeout_s:g} s")

    async def _carry(self, call: Call) -> None:
        try:
            if not await self._exchange(call):
                await self._once_more(call)
        except EXCHANGE_FAILED as error:
            if call.reached:
                call.end(Silence(f"the answer was not read: {what_failed(error)}"))
                return
            reason = f"cannot be reached: {what_failed(error)}"
            call.end(NotSent(f"the upstream {reason}"))
            self._lose(reason)

    async def _exchange(self, call: Call) -> bool:
        """Whether the call has its answer; if not, the server did not know our session."""
        call.session = self._session if call.ask.version is not None else None
        body = encode(request(call.id, call.ask.method, call.ask.params))
        async with self._client_session().post(
            self._spec.url,
            data=_payload(body),
            headers=headers_of(call.ask, self._spec.headers, call.session),
            allow_redirects=False,
            trace_request_ctx=call,
        ) as response:
            if call.ask.version is None:
                self._session = response.headers.get(SESSION)
            answered = await self._reader.receive(response, call)
        if answered and call.ask.acts:
            self._look_for_a_loss(response.status, call)
        return answered

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
            try:
                agreement = await negotiate(self, self._client, probe_s=None, timeout_s=self._patience.start_s)
                renewed = self._session is not None and agreement.version == call.ask.version
            except Unreachable:
                pass  # `cannot be reached` is said when it is connected to again
            finally:
                if not renewed:
                    self._session = None
                    self._lose("forgot our session")
            return renewed

    def _look_for_a_loss(self, status: int, call: Call) -> None:
        # Only for the calls to come: this one keeps its answer, whatever it meant.
        answer = call.answered.result()
        if not isinstance(answer, ProtocolError):
            return
        message = answer.error["message"].lower()
        if answer.error["code"] == UNSUPPORTED_VERSION:
            self._lose("speaks another protocol version now")
        elif call.session is not None and status in {400, 404} and ("session" in message or "initialized" in message):
            self._lose("forgot our session")

    # --- what becomes of it -----------------------------------------------------------------------------------------

    def _withdraw(self, call: Call, task: "asyncio.Task[None]") -> None:
        # In the newer era, to close the stream is to cancel; in the older one it says nothing.
        task.cancel()
        if call.reached and call.ask.acts:
            self._say(cancelled(call.id), call.ask.version)

    def _hope_for(self, call: Call, task: "asyncio.Task[None]") -> None:
        self._counts["timed_out"] += 1
        call.expired = True
        if not call.ask.acts:
            task.cancel()
            return
        timer = asyncio.get_running_loop().call_later(LATE_S, task.cancel)
        self._late[call.id] = task
        task.add_done_callback(lambda _: timer.cancel())
        task.add_done_callback(lambda _: self._late.pop(call.id, None))
        call.answered.add_done_callback(lambda answered: self._came_late(answered.result(), call.ask.late))
        if len(self._late) > MAX_LATE:
            self._late.pop(next(iter(self._late))).cancel()

    def _came_late(self, answer: Answer, late: Late | None) -> None:
        if late is not None and not isinstance(answer, Silence | NotSent):
            self._counts["late"] += 1
            late(answer)

    def _lose(self, reason: str) -> None:
        if not self._lost.done():
            self._lost.set_result(reason)

    # --- beside the calls -------------------------------------------------------------------------------------------

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:
        """As `Channel.notify`."""
        await self._post(notification(method, params), version)

    def _other(self, other: Told | Asked, call: Call) -> None:
        match other:
            case Told(method, params):
                # Soon, not now: an error of the handler must not cost the call that is being read.
                asyncio.get_running_loop().call_soon(self._hear, method, params)
            case Asked():
                self._say(reply(other), call.ask.version)

    def _say(self, message: Mapping[str, Any], version: str | None) -> None:
        # The newer era has no messages but requests; and a flood of questions must not become one of answers.
        if self._http is None or version is None or version == MODERN or self._saying >= _MAX_SAYING:
            self._counts["unsaid"] += 1
            return
        self._saying += 1
        self._spawn(self._post(message, version)).add_done_callback(self._said)

    def _said(self, _: "asyncio.Task[None]") -> None:
        self._saying -= 1

    async def _post(self, message: Mapping[str, Any], version: str) -> None:
        headers = headers_of(Ask("", {}, 0.0, version), self._spec.headers, self._session)
        try:
            async with (
                asyncio.timeout(self._patience.connect_s),
                self._client_session().post(
                    self._spec.url, data=encode(message), headers=headers, allow_redirects=False
                ),
            ):
                pass
        except EXCHANGE_FAILED:
            self._counts["unsaid"] += 1

    async def _goodbye(self, http: aiohttp.ClientSession, session: str) -> None:
        headers = {**self._spec.headers, SESSION: session}
        with suppress(*EXCHANGE_FAILED):
            async with (
                asyncio.timeout(_GOODBYE_S),
                http.delete(self._spec.url, headers=headers, allow_redirects=False),
            ):
                pass

    # --- small things -----------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _client_session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_REUSE_S),
                timeout=aiohttp.ClientTimeout(total=None, connect=self._patience.connect_s),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                headers={"User-Agent": f"{self._client.name}/{self._client.version}"},
                trace_configs=[_reach()],
                read_bufsize=_LARGE,
            )
        return self._http


def _payload(body: bytes) -> bytes | io.BytesIO:
    return body if len(body) < _LARGE else io.BytesIO(body)  # in parts: aiohttp would send it in one blocking write


def _reach() -> aiohttp.TraceConfig:
    """Notes on each call that it has a connection: from then on nobody knows how much of it was sent."""

    async def reached(_: aiohttp.ClientSession, context: SimpleNamespace, __: object) -> None:
        if isinstance(context.trace_request_ctx, Call):
            context.trace_request_ctx.reached = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(reached)
    trace.on_connection_reuseconn.append(reached)
    return trace
