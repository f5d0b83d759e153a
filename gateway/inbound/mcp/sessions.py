"""The conversations of legacy HTTP clients: who they are, and what was said to them, to be said again.

Everything that goes over an event stream has an id, unique in its conversation, and is kept for a while: a client
that lost its connection comes back with `Last-Event-ID` and hears the rest of that stream, its answer included
[MCP 2025-11-25, resumability].
"""

import asyncio
import itertools
import secrets
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mcp_types.jsonrpc import INTERNAL_ERROR
from mcp_types.version import is_version_at_least

from gateway.inbound.mcp.door import Turned
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.streams import Event, Wire, answering_frame, quietly_framed
from gateway.model.canonical import JsonObject
from gateway.model.limits import DEFAULT
from gateway.model.principal import Principal

MAX_EVENTS = 1000
MAX_EVENT_BYTES = 4 * 1024 * 1024
"""Of one conversation, kept to be said again; the oldest are forgotten first, the newest never."""
MAX_WRITTEN_EVENTS = 100
MAX_WRITTEN_BYTES = 256 * 1024
"""Of those that were written to a client that was there: only the last of them can have been lost on the way."""
MAX_SESSIONS = DEFAULT.sessions
IDLE_S = 30 * 60.0
"""As the SDK's servers: a conversation in which nothing was said for so long has ended."""
RETRY_MS = 1000
"""After which a client comes back to a stream that was cut, unless the upstream says otherwise."""
PRIMES_SINCE = "2025-11-25"
"""From this version on, clients take an event without data, and come back to a stream that ended early."""

Closed = Callable[[Session], None]


class Track:
    """One stream of a conversation, over however many connections: of one request, or (0) of no request at all."""

    def __init__(self, conversation: "Conversation", number: int) -> None:
        self._conversation = conversation
        self.number = number
        self.wire: Wire | None = None
        """The connection that carries it now."""
        self._primed = False

    def send(self, message: JsonObject) -> None:
        """The message goes out, or is kept for the client to come and get it."""
        self._prime()
        self._keep(lambda event_id: quietly_framed(message, event_id))

    @property
    def there(self) -> bool:
        """Whether a connection carries it whose client is there; one that has left may come back for the rest."""
        return self.wire is not None and self.wire.there

    def pause(self, retry_ms: int | None) -> None:
        """The connection ends, where the client is known to come back for the rest."""
        if self.number == 0 or self.wire is None or not self._conversation.primes:
            return
        if retry_ms is not None:
            self._primed = True
            self._keep(lambda event_id: f"id: {event_id}\nretry: {retry_ms}\ndata: \n\n".encode())
        self._prime()
        self.wire.end()
        self.wire = None

    def silent(self) -> None:
        """The client learns that its request is being worked on."""
        self._prime()
        if self.wire is not None:
            self.wire.commit()

    async def answer(self, exchange: Exchange, message: JsonObject, wire: Wire) -> None:
        """The answer is written to whoever waits for it, or kept; `wire` is the connection of the request itself."""
        if self.wire is not wire or wire.streams:
            self._prime()
            self._keep(lambda event_id: answering_frame(message, exchange, event_id), exchange)
            if self.wire is not None:
                self.wire.end()
            self._conversation.settle(self)
            await wire.complete()
        elif exchange.message["method"] == "initialize":
            await wire.plain(message, 200, exchange)
        else:
            # Streamed, as the SDK's servers do: an answer that got lost on the way can then be fetched.
            self.wire = None
            events = [
                self._prime(),
                self._keep(lambda event_id: answering_frame(message, exchange, event_id), exchange),
            ]
            self._conversation.settle(self)
            await wire.whole_stream([event for event in events if event is not None])

    def carry(self, wire: Wire, after: int | None) -> None:
        """The connection carries the stream from now on: what came after that event, or what was never written."""
        if self.wire is not None:
            self.wire.end()
        self.wire = wire
        wire.commit()
        for event in self._conversation.kept(self.number):
            if event.number > after if after is not None else not event.sent:
                wire.push(event)

    def drop(self, wire: Wire) -> None:
        """That connection is lost."""
        if self.wire is wire:
            self.wire = None

    def _prime(self) -> Event | None:
        if not self.number or self._primed or not self._conversation.primes:
            return None
        self._primed = True
        return self._keep(lambda event_id: f"id: {event_id}\nretry: {RETRY_MS}\ndata: \n\n".encode())

    def _keep(self, framed: Callable[[str], bytes | None], exchange: Exchange | None = None) -> Event | None:
        event = self._conversation.keep(self.number, framed, exchange)
        if event is not None and self.wire is not None:
            self.wire.push(event)
        return event


class Carrier(Wire):
    """A connection that carries a track."""

    __slots__ = ("track",)

    track: Track

    def lost(self) -> None:
        """The track goes on without it."""
        self.track.drop(self)

    def silent(self) -> None:
        """The client learns that its request is being worked on."""
        self.track.silent()


class Conversation:
    """A session, as the transport sees it."""

    def __init__(self, principal: Principal) -> None:
        self.general = Track(self, 0)
        # 256 bits; whoever knows it and is the same principal speaks in this conversation.
        self.session = Session(secrets.token_urlsafe(32), principal, self.general)
        self.headers = ((b"mcp-session-id", self.session.id.encode()),)
        self.busy = 0
        """Connections that are open on it."""
        self.used_at = 0.0
        self._tracks: dict[int, Track] = {0: self.general}
        self._numbers = itertools.count(1)
        self._events: deque[Event] = deque()
        self._event_numbers = itertools.count(1)
        self._bytes = 0

    @property
    def owner(self) -> tuple[str, str]:
        """Tenant and principal whose it is."""
        return self.session.principal.whose

    @property
    def primes(self) -> bool:
        """Whether the client understands an event that only gives it an id."""
        version = self.session.version
        return version is not None and is_version_at_least(version, PRIMES_SINCE)

    def track(self) -> Track:
        """A new stream, for one request."""
        track = Track(self, next(self._numbers))
        self._tracks[track.number] = track
        return track

    def settle(self, track: Track) -> None:
        """Nothing more is said on the stream."""
        self._tracks.pop(track.number, None)

    def keep(self, track: int, framed: Callable[[str], bytes | None], exchange: Exchange | None) -> Event | None:
        """The event, with an id of its own; None if it cannot be framed."""
        number = next(self._event_numbers)
        data = framed(f"{track}-{number}")
        if data is None:
            return None
        event = Event(data, exchange, number, track)
        self._events.append(event)
        self._bytes += len(data)
        self._forget()
        return event

    def _forget(self) -> None:
        """The oldest events are forgotten, sooner if they were written."""
        while len(self._events) > 1:
            written = self._events[0].sent
            most, largest = (MAX_WRITTEN_EVENTS, MAX_WRITTEN_BYTES) if written else (MAX_EVENTS, MAX_EVENT_BYTES)
            if len(self._events) <= most and self._bytes <= largest:
                return
            self._bytes -= len(self._events.popleft().data)

    def kept(self, track: int) -> list[Event]:
        """What was said on that stream and is still known, in order."""
        return [event for event in self._events if event.track == track]

    def resume(self, last_event_id: str, wire: Carrier) -> None:
        """The connection carries what came after that event on its stream, up to the end of the stream.

        Raises: Turned if that is not known any more.
        """
        named, _, number = last_event_id.partition("-")
        if not (named.isascii() and named.isdecimal() and number.isascii() and number.isdecimal()):
            raise Turned(400, "no event has that id")
        track = self._tracks.get(int(named[:20]))
        ended = track is None
        if track is None:
            track = Track(self, int(named[:20]))
            if not self.kept(track.number):
                raise Turned(400, "the events after that one are no longer known")
        wire.track = track
        track.carry(wire, int(number[:20]))
        if ended:
            wire.end()

    def hang_up(self) -> None:
        """No event stream is open any more."""
        for track in self._tracks.values():
            if track.wire is not None and track.wire.streams:
                track.wire.cut()


class Sessions:
    """The conversations of one front."""

    def __init__(self, closed: Closed, *, idle_s: float = IDLE_S, limit: int = MAX_SESSIONS) -> None:
        self._closed = closed
        self._idle_s = idle_s
        self._limit = limit
        self._open: OrderedDict[str, Conversation] = OrderedDict()
        self._held: Counter[tuple[str, str]] = Counter()
        """How many are whose."""
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def make_room(self) -> None:
        """Another conversation may begin. For it ends, of whoever has most, the one that is idle for longest: so nobody
        ends those of others by opening many.

        Raises: Turned if there are too many, and none of them is idle.
        """
        if len(self._open) < self._limit:
            return
        for owner, _ in self._held.most_common():
            idlest = next((one for one in self._open.values() if one.owner == owner and not one.busy), None)
            if idlest is not None:
                self.end(idlest)
                return
        raise Turned(503, "too many open sessions", code=INTERNAL_ERROR)

    def admit(self, conversation: Conversation) -> None:
        """The conversation can be found from now on."""
        self._open[conversation.session.id] = conversation
        self._held[conversation.owner] += 1
        self._touch(conversation)
        if self._timer is None:
            self._later()

    def find(self, session_id: str, principal: Principal, request_id: str | int | None) -> Conversation:
        """The conversation of that id.

        Raises: Turned if there is none, in the same words if it is another principal's.
        """
        found = self._open.get(session_id)
        if found is None or found.owner != principal.whose:
            raise Turned(404, "session not found", request_id=request_id)
        return found

    @contextmanager
    def used(self, conversation: Conversation) -> Iterator[None]:
        """It is not idle while the block runs."""
        conversation.busy += 1
        self._touch(conversation)
        try:
            yield
        finally:
            conversation.busy -= 1
            self._touch(conversation)

    def end(self, conversation: Conversation) -> None:
        """It cannot be found any more, and nobody waits for its answers."""
        if self._open.pop(conversation.session.id, None) is None:
            return
        self._held[conversation.owner] -= 1
        if not self._held[conversation.owner]:
            del self._held[conversation.owner]
        for exchange in conversation.session.flights:
            exchange.withdrawal.say(cancelled=False)
        conversation.hang_up()
        self._closed(conversation.session)

    def close(self) -> None:
        """All have ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for conversation in list(self._open.values()):
            self.end(conversation)

    def _touch(self, conversation: Conversation) -> None:
        conversation.used_at = asyncio.get_running_loop().time()
        if conversation.session.id in self._open:
            self._open.move_to_end(conversation.session.id)

    def _later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._idle_s / 10, self._sweep)

    def _sweep(self) -> None:
        """The idle ones, which are in front, are ended."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        idle = itertools.takewhile(lambda one: one.used_at + self._idle_s <= now, self._open.values())
        for conversation in list(idle):
            if not conversation.busy:
                self.end(conversation)
        if self._open:
            self._later()
