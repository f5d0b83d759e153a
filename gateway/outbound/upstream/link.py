"""One connection to one upstream, kept: for one party, or shared by all where the server keeps no state."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from gateway.model.offer import Kind
from gateway.model.party import Party
from gateway.model.tool import Answer, NotSent, ToolResult
from gateway.outbound.upstream import rounds
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.connection import connection_to
from gateway.outbound.upstream.listing import METHODS, Listing
from gateway.outbound.upstream.lists import Lists
from gateway.outbound.upstream.negotiate import (
    Agreement,
    Client,
    Introduction,
    Unreachable,
    relayed,
    why,
)
from gateway.outbound.upstream.questions import TOKEN, Tell
from gateway.outbound.upstream.sight import BAGGAGE, UNSEEN, Sight, address_of, for_headers, sending
from gateway.outbound.upstream.spec import HttpSpec, Patience, Spec
from gateway.outbound.upstream.subscriptions import Subscriptions
from gateway.outbound.upstream.vetting import passed, vetted_rounds
from gateway.outbound.upstream.wire import Ask, Hear, unknown
from gateway.ports import Caller

_LOG = logging.getLogger("counterfoil.upstream")

_LASTED_S = 5.0
"""A connection that held this long was a good one: the next attempt is made at once."""

AWAITED_S = 7.0
"""After which nobody waits for a first attempt any more, however long it may take; clients give `initialize` 10 s
(Codex) or more, and the other upstreams are there."""
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of logs, least severe first [RFC 5424]."""

_LISTEN_S = 86_400.0
"""A standing stream is opened anew once a day, if nothing ends it before."""

_WAITING = "it waits for its first client"


@dataclass(frozen=True, slots=True)
class Hooks:
    """What a link tells and asks where no call is concerned. All are called on the event loop."""

    changed: Callable[["Link", Kind], None]
    """A list of it is another one now, or its upstream says so; and `link.listing(kind)` is fresh already."""
    told: Callable[["Link", str, Mapping[str, Any]], None]
    """A notification that belongs to no call: resources/updated, logs, elicitation/complete, unknown ones."""
    asked: "Callable[[Link, str, Mapping[str, Any], Tell], Awaitable[Answer]] | None" = None
    """What a legacy upstream asks while no call is under way; None: it is told that we know no such method."""
    sight: Sight = UNSEEN
    """What is seen of its requests."""


@dataclass(frozen=True, slots=True)
class Health:
    """How a link is."""

    state: Literal["starting", "healthy", "unhealthy"] = "starting"
    reason: str | None = "it has not answered yet"
    """Why it is not healthy."""
    agreement: Agreement | None = None
    """The last one; it holds only while the state is healthy."""
    needs_account: bool = False
    """Whether that is because its principal has connected no account there."""


class Link:
    """One party's way to one upstream, from the first attempt to reach it until `close`."""

    def __init__(
        self,
        spec: Spec,
        client: Client,
        patience: Patience,
        hooks: Hooks,
        *,
        party: Party | None = None,
        waits: bool = False,
        legacy: bool = False,
        refusal: str | None = None,
    ) -> None:
        """With `waits` a server of the older era is initialised only after `meet`. `legacy`: that it is one is known.

        With a `refusal` nothing is ever started, and the health says so.
        """
        self.name = spec.name
        self._unsaid = spec.unsaid
        self.headers = isinstance(spec, HttpSpec)
        """Whether calls over it have HTTP headers."""
        self._address = address_of(spec)
        self.party = party
        self.counts: Counter[str] = Counter()
        self.health = Health()
        self._client = client
        self._vet = partial(passed, spec.name if client.federates else None, secrets=spec.ask_secrets)
        self._vet_rounds = partial(vetted_rounds, spec.name if client.federates else None, secrets=spec.ask_secrets)
        self._patience = patience
        self._hooks = hooks
        self._known: asyncio.Event | None = asyncio.Event() if waits else None
        self._limit: asyncio.Timeout | None = None
        self._level: str | None = None
        self._agreement: Agreement | None = None
        told: Hear = partial(hooks.told, self)
        self._calls = Calls(
            spec.name,
            self.counts,
            told=told,
            changed=self._list_changed,
            renewed=self._renewed,
            asked=self._asked if hooks.asked is not None else None,
            vet=self._vet,
        )
        self.behalf = behalf = party.behalf if party is not None else None
        """For whom the last request was, to upstreams that ask."""
        self._connection = connection_to(spec, client, patience, self._calls, self._introduce, behalf)
        if legacy:
            self._connection.expect_legacy()
        self._lists = Lists(
            spec.name,
            patience,
            self._own,
            unfit=self._connection.unfit,
            on_change=partial(hooks.changed, self),
            is_up=lambda: self.health.state == "healthy",
        )
        self._subscriptions = Subscriptions(
            spec.name, patience, self._own, self._listen, told=told, refetch=self._refetch
        )
        self._settled = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._keeper: asyncio.Task[None] | None = None
        self._awaited = asyncio.get_running_loop().call_later(AWAITED_S, self._settled.set)
        if refusal is None:
            self._keeper = self._spawn(self._keep())
        else:
            self._down(refusal)

    async def settled(self) -> None:
        """The first attempt to connect has come to an end, good or bad, or takes too long to wait for; or it waits for
        the first client.
        """
        await self._settled.wait()

    @property
    def tried(self) -> bool:
        """Whether there is nothing to wait for: as `settled`, and it does not wait for its client either."""
        return self._settled.is_set() and self.health.reason != _WAITING

    def meet(self, party: Party | None) -> None:
        """Who the client is: an `initialize` that waited for it is sent now. Only the first time counts."""
        if self._known is None or self._known.is_set():
            return
        self.party = party
        if self.health.reason == _WAITING:
            self._settled.clear()
            self._awaited = asyncio.get_running_loop().call_later(AWAITED_S, self._settled.set)
            self.health = replace(self.health, reason="it has not answered yet")
        self._known.set()

    @property
    def idle(self) -> bool:
        """Whether nothing of it is in use now."""
        return self._calls.under_way == 0 and not self._subscriptions.any

    async def close(self) -> None:
        """Nothing of it runs on. Takes less than 3 s."""
        self.health = Health("unhealthy", "the connection to it was closed", self.health.agreement)
        self._awaited.cancel()
        self._settled.set()
        self._subscriptions.down()
        self._lists.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._connection.close()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def ask(self, ask: Ask, caller: Caller | None = None) -> Answer:
        """What came of one request, within its time, in which what the client is asked does not count.

        Never raises for what the upstream does, never re-sends. `InputRequired` only for a caller who is modern, or if
        there is none. The link puts the envelope of the upstream's era around `ask.meta`.
        """
        agreement = self.health.agreement
        if self.health.state != "healthy" or agreement is None:
            if self.health.needs_account:  # which is the server's no more than ours
                return NotSent(str(self.health.reason), needs_account=True)
            return NotSent(f"the upstream `{self.name}` is not there: {self.health.reason}")
        self.counts["calls"] += 1
        if caller is not None and caller.modern and not agreement.modern and caller.log_level is not None:
            await self._log_from(caller.log_level)
        once = partial(self._once, agreement, caller)
        if caller is not None and not caller.modern and agreement.modern and ask.method in rounds.METHODS:
            return await rounds.drive(ask, caller, once)
        return await once(ask)

    async def _once(self, agreement: Agreement, caller: Caller | None, ask: Ask) -> Answer:
        call, sight = self._calls.open(ask, caller), self._hooks.sight
        if caller is not None:
            self.behalf = caller.party.behalf or self.behalf
        if sight.observing is None:
            return await self._carried(call, agreement, {})
        with sight.observing(sending(call, agreement.version, self.name, self._address)) as observed:
            answer = await self._carried(call, agreement, observed.carrier)
            observed.answered(answer)
        return answer

    async def _carried(self, call: Call, agreement: Agreement, carrier: Mapping[str, str]) -> Answer:
        """The call, with the trace context that it goes out under."""
        ask = call.ask
        meta = self._hooks.sight.meta(ask.meta)
        told = for_headers(carrier)
        if BAGGAGE in meta:
            told = {BAGGAGE: meta[BAGGAGE], **told}
        if carrier:  # a state that the client brought for another trace means nothing in ours [W3C Trace Context, 3.3]
            meta = {**{key: value for key, value in meta.items() if key != "tracestate"}, **carrier}
        if TOKEN in meta:
            meta = {**meta, TOKEN: call.id}
        params = agreement.params(ask.params, meta, call.caller)
        call.ask = ask.sent(params, agreement.version, {**ask.headers, **told} if told else ask.headers)
        answer = await self._calls.carried(call, self._connection.carry)
        return self._vet_rounds(answer, task=ask.method.startswith("tasks/"))

    async def _own(self, method: str, params: Mapping[str, Any]) -> Answer:
        """What the gateway itself wants to know, also while the link is coming up."""
        agreement = self._agreement
        if agreement is None:
            return NotSent(f"the upstream `{self.name}` is not there: {self.health.reason}")
        asked = agreement.params(params, {})
        return await self._connection.ask(
            Ask(method, asked, self._patience.start_s, agreement.version, name=params.get("uri"))
        )

    async def _listen(self, params: Mapping[str, Any], hear: Hear) -> Answer:
        agreement = self._agreement
        if agreement is None:
            return NotSent("there is no connection")
        asked = agreement.params(params, {})
        call = self._calls.open(Ask("subscriptions/listen", asked, _LISTEN_S, agreement.version), hears=hear)
        return await self._calls.carried(call, self._connection.carry)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """A notification of the client's own is passed on, if the server is of the older era."""
        agreement = self.health.agreement
        if self.health.state == "healthy" and agreement is not None and not agreement.modern:
            _ = self._spawn(self._connection.notify(method, params, agreement.version))

    # --- what it offers and what it is told ---------------------------------------------------------------------------

    def listing(self, kind: Kind) -> Listing:
        """The last list of that kind; empty if it never gave one. Never waits."""
        return self._lists.listing(kind)

    def look(self, kind: Kind | None = None) -> None:
        """Somebody reads its lists: what is stale is read again, behind his back."""
        for each in METHODS if kind is None else (kind,):
            self._lists.look(each)

    async def subscribe(self, uri: str) -> Answer:
        """`ToolResult({})` if `told` hears of that resource from now on; counted, so each needs its `unsubscribe`."""
        return await self._subscriptions.subscribe(uri)

    async def unsubscribe(self, uri: str) -> Answer:
        """One of those who subscribed does so no more."""
        return await self._subscriptions.unsubscribe(uri)

    async def set_level(self, level: str) -> Answer:
        """A server of the older era logs from that level on, if it can; in the newer one each request says it."""
        agreement = self.health.agreement
        if agreement is None or agreement.modern or "logging" not in agreement.capabilities:
            self._level = level
            return ToolResult({})
        answer = await self._own("logging/setLevel", {"level": level})
        self._level = level if isinstance(answer, ToolResult) else self._level
        return answer

    async def _log_from(self, level: str) -> None:
        """What a request of the newer era says for itself, a server of the older one is told for all: the least severe
        level that any wanted. Each caller is told only what it asked for.
        """
        known = LEVELS.index(self._level) if self._level in LEVELS else len(LEVELS)
        if level in LEVELS and LEVELS.index(level) < known:
            await self.set_level(level)
            self._level = level  # also if it was refused: once is enough

    def _list_changed(self, kind: Kind) -> None:
        self._lists.changed(kind)

    async def _asked(self, method: str, params: Mapping[str, Any], told: Tell) -> Answer:
        # For nobody nothing was declared: to whoever asks all the same, there is no such method.
        if self.party is None or self._hooks.asked is None:
            return unknown(method)
        return await self._hooks.asked(self, method, params, told)

    def _refetch(self) -> None:
        for kind in METHODS:
            self._lists.changed(kind)

    # --- keeping it ---------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause_s = first_s = self._patience.first_pause_s
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._patience.start_s) as self._limit:
                    await self._connect()
                since = loop.time()
                self._down(f"it {await self._connection.lost()}")
                pause_s = 0.0 if loop.time() - since > _LASTED_S else pause_s
            except TimeoutError:
                self._down(f"it did not come up within {self._patience.start_s:g} s")
            except Unreachable as error:
                self._down(str(error), needs_account=error.needs_account)
            self._agreement = None
            self._subscriptions.down()
            await self._connection.drop()
            await asyncio.sleep(pause_s)
            pause_s = min(max(pause_s * 2, first_s), self._patience.last_pause_s)
            self.counts["restarts"] += 1

    async def _introduce(self) -> Introduction:
        if self._known is not None and not self._known.is_set() and self._limit is not None:
            self.health = replace(self.health, state="starting", reason=_WAITING)
            self._settled.set()
            self._limit.reschedule(None)
            await self._known.wait()
            self._limit.reschedule(asyncio.get_running_loop().time() + self._patience.start_s)
        party = self.party
        if party is None:
            return Introduction(self._client.info)
        return Introduction(party.client or self._client.info, relayed(party.capabilities))

    async def _connect(self) -> None:
        agreement = self._agreement = await self._connection.connect()
        self._calls.modern = agreement.modern
        self._subscriptions.up(agreement)
        changed = await self._lists.load(agreement.capabilities)
        if self._level is not None and not agreement.modern:
            await self.set_level(self._level)
        former = self.health.agreement
        self.health = Health("healthy", None, agreement)
        self._settled.set()
        if not changed and (former is None or former.capabilities != agreement.capabilities):
            changed = ["tools"]  # what all of them can do together is told anew
        for kind in changed:
            self._hooks.changed(self, kind)
        _LOG.info("%s: up, protocol %s", self.name, agreement.version)

    def _renewed(self) -> None:
        """There is another session, which knows of no level and no resource."""
        if self._agreement is not None:
            self._subscriptions.up(self._agreement)
            if self._level is not None:
                _ = self._spawn(self._set_level_again(self._level))

    async def _set_level_again(self, level: str) -> None:
        answer = await self.set_level(level)
        if not isinstance(answer, ToolResult):
            _LOG.warning("%s: logs are not what they were: %s", self.name, why(answer))

    def _down(self, reason: str, *, needs_account: bool = False) -> None:
        reason = self._unsaid.out_of(reason)
        self.health = Health("unhealthy", reason, self.health.agreement, needs_account)
        self._settled.set()
        _LOG.warning("%s: %s", self.name, reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("%s: a task of its supervisor failed", self.name, exc_info=error)
            if task is self._keeper:
                self._down("its supervisor failed")
