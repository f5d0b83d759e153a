"""Where one agent comes in over stdin and stdout, in the era in which it opens.

Descriptors are polled and then read and written on the event loop itself, never in a thread: a blocked read cannot
keep the process from ending, and an answer is known to be delivered before anything that the client says next is
read.
"""

import asyncio
import fcntl
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp_types.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from gateway.inbound.mcp.envelope import Refused, failure, id_of, is_request, read, version_of
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.http import Relay
from gateway.inbound.mcp.identity import local_user
from gateway.inbound.mcp.pipes import MAX_LINE_BYTES, Sink, Source
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject, dump_bytes, one_line
from gateway.model.party import Behalf
from gateway.model.principal import Principal

_LOG = logging.getLogger("counterfoil.inbound")

LAST_ANSWERS_S = 1.0
"""How long requests under way may take after stdin has ended."""
LET_GO_S = 0.2
"""How long they may take when the process is told to end: calls under way are recorded whatever comes of them."""
LAST_WORDS_S = 4.0
"""And how long what is still to be written."""
MAX_BACKLOG_BYTES = 4 * 1024 * 1024
"""Of what waits to be written; what is said beyond it is lost, but never an answer."""
MAX_UNREAD_BYTES = 16 * 1024 * 1024
"""Of answers that the client does not read: beyond it no more of its requests are read until it has."""


async def serve_stdio(*, relay: Relay, delivered: Callable[[Shown], None], principal: Principal | None = None) -> None:
    """Serve the client on stdin and stdout, in the era in which it opens, until stdin ends.

    Nothing else in the process can write to stdout meanwhile, nor read from stdin. The principal is the
    account that the process runs under, unless another is given.
    """
    with _taken_over() as (stdin, stdout):
        pipe = _Pipe(relay, delivered, principal or local_user(), Sink(stdout))
        source = pipe.source = Source(stdin, pipe.take)
        pipe.sink.eased = lambda: source.hold(back=False)
        try:
            await _first(source.ended, pipe.sink.broken)
            await pipe.finish()
        except asyncio.CancelledError:
            await pipe.let_go()
            raise
        finally:
            source.close()
            pipe.close()


async def _first(*futures: "asyncio.Future[None]") -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class _Pipe:
    """The client: its requests under way, and what is said to it."""

    def __init__(self, relay: Relay, delivered: Callable[[Shown], None], principal: Principal, sink: Sink) -> None:
        self._relay = relay
        self._delivered = delivered
        self._principal = principal
        self.sink = sink
        self.source: Source | None = None
        """Where its lines come from."""
        self._session = Session("stdio", principal, self)
        self._modern: bool | None = None
        """None until the first request has decided it."""
        self._opening: asyncio.Task[None] | None = None
        """The `initialize` under way."""
        self._held: list[bytes | None] = []
        """What came meanwhile: whoever pipes a whole conversation in does not wait for its answer."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered: set[Exchange] = set()
        """Requests whose answers are on their way out."""

    # --- as a line ----------------------------------------------------------------------------------------------------

    def send(self, message: JsonObject) -> None:
        """The message goes out, if anybody reads."""
        if self.sink.waiting > MAX_BACKLOG_BYTES:
            return
        try:
            self._write(message)
        except (TypeError, ValueError):
            _LOG.exception("a message to a client is not JSON")

    @property
    def there(self) -> bool:
        """Whether somebody still reads, and may still ask."""
        return not self.sink.broken.done()

    def pause(self, _retry_ms: int | None) -> None:
        """Nothing happens: there is one stream, and it stays."""

    # --- in -----------------------------------------------------------------------------------------------------------

    def take(self, line: bytes | None) -> None:
        """One line of the client's; None for one that is too long."""
        if self._opening is not None:
            self._held.append(line)
            return
        try:
            message = self._message(line)
            if is_request(message):
                self._start(message)
            else:
                self._notice(message)
        except Refused as refused:
            self._write(refused.response)

    def _notice(self, message: JsonObject) -> None:
        try:
            self._relay.notice(self._exchange(message))
        except Exception:  # noqa: BLE001 - a promise of the relay is broken; what follows is still read
            _LOG.exception("a notification failed")

    def _message(self, line: bytes | None) -> JsonObject:
        if line is None:
            raise Refused(INVALID_REQUEST, f"the line is longer than {MAX_LINE_BYTES} bytes", None)
        message = read(line)
        if is_request(message):
            self._check_era(message)
        return message

    def _check_era(self, message: JsonObject) -> None:
        """The first request decides the era, for good."""
        opens = message["method"] == "initialize"
        if opens and self._modern:
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": _requested(message)}
            raise Refused(UNSUPPORTED_PROTOCOL_VERSION, "Unsupported protocol version", id_of(message), data)
        if opens:
            return
        if version_of(message, modern=self._modern is True) is not None:
            if self._modern is False:
                raise Refused(INVALID_REQUEST, "this connection was opened by `initialize`", id_of(message))
            self._modern = True
        elif self._modern is None and message["method"] != "ping":
            raise Refused(INVALID_REQUEST, "`initialize` comes first", id_of(message))

    def _exchange(self, message: JsonObject) -> Exchange:
        exchange = Exchange(message, self._principal, "stdio", self, session=self._session)
        # Whoever's account we run under is as sure as a credential; their consents are theirs wherever they gave them.
        exchange.behalf = Behalf(self._principal.tenant, self._principal.id, by_token=False)
        return exchange

    def _start(self, message: JsonObject) -> None:
        exchange = self._exchange(message)
        if not self._session.flights.board(exchange):
            raise Refused(INVALID_REQUEST, "a request with that id is still under way", id_of(message))
        task = asyncio.ensure_future(self._serve(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if message["method"] == "initialize":
            self._opening = task
            task.add_done_callback(self._opened)

    def _opened(self, _task: "asyncio.Task[None]") -> None:
        self._opening = None
        if self._session.version is not None:
            self._modern = False
        held, self._held = self._held, []
        for line in held:
            self.take(line)

    # --- out ----------------------------------------------------------------------------------------------------------

    async def _serve(self, exchange: Exchange) -> None:
        answer = None
        try:
            answer = await self._relay.request(exchange)
        except Exception:  # noqa: BLE001 - the relay's promise is broken: the client must not wait for ever
            _LOG.exception("%s failed", exchange.message["method"])
            exchange.shown = None
            answer = failure(INTERNAL_ERROR, "internal error", exchange.message["id"])
        finally:
            if answer is None:
                self._session.flights.land(exchange)
        if answer is not None:
            self._answer(exchange, answer)

    def _answer(self, exchange: Exchange, answer: JsonObject) -> None:
        def written() -> None:
            if exchange.shown is not None and not exchange.withdrawal.gone:
                self._delivered(exchange.shown)
            self._answered.discard(exchange)
            self._session.flights.land(exchange)

        self._answered.add(exchange)
        try:
            self._write(answer, written)
        except (TypeError, ValueError):
            _LOG.exception("an answer is not JSON")
            exchange.shown = None
            self._write(failure(INTERNAL_ERROR, "internal error", exchange.message["id"]), written)

    def _write(self, message: JsonObject, written: Callable[[], None] | None = None) -> None:
        self.sink.put(one_line(dump_bytes(message)) + b"\n", written)
        if self.sink.waiting > MAX_UNREAD_BYTES and self.source is not None:
            self.source.hold(back=True)

    # --- the end ------------------------------------------------------------------------------------------------------

    async def finish(self) -> None:
        """What is under way was given a moment, and what was answered is written, if anybody reads."""
        if self.sink.broken.done():
            return
        self._relay.leaving(self._session)
        asking = asyncio.ensure_future(self._settled())
        try:
            await asyncio.wait({asking, self.sink.broken}, timeout=LAST_ANSWERS_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asking.cancel()
        self._withdraw()
        emptied = asyncio.ensure_future(self.sink.emptied())
        try:
            await asyncio.wait({emptied, self.sink.broken}, timeout=LAST_WORDS_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            emptied.cancel()

    async def let_go(self) -> None:
        """The process is to end: what waits for a person was answered, if anybody reads. The rest is not waited for."""
        self._relay.leaving(self._session)
        with suppress(TimeoutError):
            async with asyncio.timeout(LET_GO_S):
                while self._tasks and not self.sink.broken.done():
                    await asyncio.wait(set(self._tasks))

    async def _settled(self) -> None:
        while self._tasks:  # an answer to `initialize` lets others begin
            await asyncio.wait(set(self._tasks))

    def close(self) -> None:
        """Nobody waits for anything any more."""
        self._withdraw()
        for task in list(self._tasks):
            task.cancel()
        self.sink.close()
        self._relay.closed(self._session)

    def _withdraw(self) -> None:
        """Requests that have not been answered by now are not; the answers on their way out are."""
        self._held.clear()
        for exchange in self._session.flights:
            if self.sink.broken.done() or exchange not in self._answered:
                exchange.withdrawal.say(cancelled=False)


def _requested(message: JsonObject) -> Any:
    params = message.get("params") or {}
    return params.get("protocolVersion")


@contextmanager
def _taken_over() -> Iterator[tuple[int, int]]:
    """Private copies of stdin and stdout; in their places stand the null device and stderr."""
    source, sink = (fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3) for descriptor in (0, 1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    sys.stdout.flush()  # what was printed before goes to stderr as well
    try:
        yield source, sink
    finally:
        sys.stdout.flush()
        os.dup2(source, 0)
        os.dup2(sink, 1)
        os.close(source)
        os.close(sink)
