"""The calls of one link under way; and for whom it is what its upstream tells and asks meanwhile."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from gateway.model.canonical import JsonObject
from gateway.model.offer import Kind
from gateway.model.tool import Answer
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.questions import PROGRESS, TOKEN, AskClient, Questions
from gateway.outbound.upstream.vetting import refusal
from gateway.outbound.upstream.wire import Ask, Asked, Hear, Told
from gateway.ports import Caller

CHANGES: Mapping[str, Sequence[Kind]] = {
    "notifications/tools/list_changed": ("tools",),
    "notifications/prompts/list_changed": ("prompts",),
    "notifications/resources/list_changed": ("resources", "resourceTemplates"),
}

Vet: TypeAlias = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | str]

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"

_LOGGED = "notifications/message"

_ASIDE = {"notifications/resources/updated", "notifications/elicitation/complete"}
"""Belong to what was subscribed to, or asked, and to no call."""


class Calls:
    """All requests of ours over one link, whatever connections it has one after the other."""

    def __init__(
        self,
        name: str,
        counts: Counter[str],
        *,
        told: Hear,
        changed: Callable[[Kind], None],
        asked: AskClient | None = None,
        renewed: Callable[[], None] = lambda: None,
        vet: Vet = lambda _, params: params,
    ) -> None:
        """`told` and `asked` take what belongs to no call; `changed` hears which list is another one.

        `renewed` is called by a connection whose session was lost and has a successor, which knows of nothing.
        """
        self.counts = counts
        self.modern = False
        """Whether the upstream is of the newer era, which asks nothing on its own."""
        self.name = name
        self.renewed = renewed
        self._vet = vet
        self._told = told
        self._changed = changed
        self._asked = asked
        self._ids = itertools.count(1)
        self._open: dict[int, Call] = {}
        self.questions = Questions(name, counts, _unsaid, _unsent)

    def bind(self, say: Callable[[JsonObject], None], reply: Callable[[JsonObject], Awaitable[None]]) -> None:
        """How the upstream hears our answers to its questions."""
        self.questions.say, self.questions.reply = say, reply

    def open(self, ask: Ask, caller: Caller | None = None, hears: Hear | None = None) -> Call:
        """A call with an id that the link has never used; its progress token too. `carried`, or else `close`, it."""
        call = Call(next(self._ids), ask, self.counts, caller, hears)
        self._open[call.id] = call
        return call

    def close(self, call: Call) -> None:
        """The call is over; progress of it is heard no more."""
        self._open.pop(call.id, None)

    async def carried(self, call: Call, carry: Callable[[Call], Awaitable[Answer]]) -> Answer:
        """What came of the call, which is closed whatever came."""
        try:
            return await carry(call)
        finally:
            self.close(call)

    @property
    def under_way(self) -> int:
        """How many there are."""
        return len(self._open)

    # --- what comes in beside the answers -----------------------------------------------------------------------------

    def heard(self, told: Told, own: Call | None = None, *, apart: bool = False) -> None:
        """A notification goes to whom it concerns; `own` is the call on whose own stream it came.

        With `apart` it came on a stream that belongs to no call.
        """
        method, params = told.method, told.params
        own, apart = (None, True) if own is not None and own.expired else (own, apart)
        hear: Hear | None
        if method == PROGRESS:
            hear = self._progressing(params)
        elif method == "notifications/cancelled":
            self.questions.withdraw(params.get("requestId"))
            return
        elif method in CHANGES:
            for kind in CHANGES[method]:
                self._soon(partial(self._changed, kind))
            return
        elif own is not None:
            hear = own.hears or (own.caller.tell if own.caller is not None else self._told)
        elif self.modern and (about := _subscription(params)) is not None:
            hear = self._listening(about)
        else:
            hear = self._told if apart or method in _ASIDE else self._nearest(method)
        if hear is not None:
            self._soon(partial(hear, method, params))

    def asked(self, asked: Asked, own: Call | None = None) -> None:
        """A request of the upstream's goes to whom it concerns; `own` as in `heard`."""
        if not self.modern:
            fit = self._vet(asked.method, asked.params)
            if isinstance(fit, str):
                self.questions.refuse(asked, refusal(fit))
                return
            asked = replace(asked, params=fit)
        call = own if own is not None and not own.expired else self._latest()
        client = call.caller.ask if call is not None and call.caller is not None else self._asked
        self.questions.put(asked, None if self.modern else client, call)

    def _progressing(self, params: Mapping[str, Any]) -> Hear | None:
        token = params.get(TOKEN)
        call = self._open.get(token) if type(token) is int else None
        if call is None or call.caller is None or TOKEN not in call.ask.meta:
            self.counts["stray_progress"] += 1
            return None
        return call.caller.tell

    def _listening(self, about: object) -> Hear | None:
        # On stdio the stream of a subscription is told by its id alone [MCP 2026-07-28, subscriptions].
        call = self._open.get(about) if type(about) is int else None
        if call is None or call.hears is None:
            self.counts["stray_events"] += 1  # of a stream that we have closed
            return None
        return call.hears

    def _nearest(self, method: str) -> Hear | None:
        if not self.modern:  # one party's alone; while it calls, that is the one stream that it is sure to read
            call = self._latest()
            return call.caller.tell if call is not None and call.caller is not None else self._told
        if method != _LOGGED:
            return self._told
        # Shared by all, and a log does not say of which call it is: never told to one who may not be meant.
        callers = [call.caller for call in self._open.values() if call.caller and call.caller.log_level is not None]
        if len({caller.party.key for caller in callers}) != 1:
            self.counts["stray_logs"] += 1
            return None
        return callers[-1].tell

    def _latest(self) -> Call | None:
        with_caller = (call for call in reversed(self._open.values()) if call.caller is not None)
        return next(with_caller, None)

    def _soon(self, say: Callable[[], None]) -> None:
        # Soon, not now: an error of the hearer must not cost what is read behind this. The order is kept.
        asyncio.get_running_loop().call_soon(say)


def _subscription(params: Mapping[str, Any]) -> object:
    meta = params.get("_meta")
    return meta.get(SUBSCRIPTION) if isinstance(meta, dict) else None


def _unsaid(_: JsonObject) -> None:
    """Without a connection nothing can be said."""


async def _unsent(_: JsonObject) -> None:
    """As `_unsaid`."""
