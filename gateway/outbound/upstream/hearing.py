"""What upstreams say and ask outside any call: who hears it, and who can answer."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.model.offer import Kind
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.link import Link
from gateway.outbound.upstream.wire import METHOD_NOT_FOUND
from gateway.ports import Caller, Listener

ANSWER_S = 60.0
"""How long what an upstream asks of a modern client, outside any call, waits for the client's next one."""
MAX_WAITING = 16
"""Such questions of one party."""

Tell = Callable[[str, Mapping[str, Any]], None]


@dataclass(slots=True, eq=False)
class _Waiting:
    """A question that waits for its client's next call."""

    caller: "asyncio.Future[Caller]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Hearing:
    """All who listen, and what they subscribed to."""

    def __init__(self) -> None:
        self._listeners: dict[Listener, dict[str, Link]] = {}
        """With the resources that each hears of, and over which connection."""
        self._waiting: dict[str, list[_Waiting]] = {}
        """By party: what its servers want to know before anything else."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def attach(self, listener: Listener) -> None:
        """It hears from now on."""
        self._listeners[listener] = {}

    def detach(self, listener: Listener) -> None:
        """It hears no more."""
        for uri, link in self._listeners.pop(listener, {}).items():
            self.spawn(link.unsubscribe(uri))

    async def subscribe(self, listener: Listener, link: Link, uri: str) -> Answer:
        """It hears of that resource, if the upstream agrees."""
        if uri in self._listeners.get(listener, {}):
            return ToolResult({})
        answer = await link.subscribe(uri)
        if isinstance(answer, ToolResult) and listener in self._listeners:
            self._listeners[listener][uri] = link
        return answer

    async def unsubscribe(self, listener: Listener, uri: str) -> Answer:
        """It hears of that resource no more; who never did has nothing to undo."""
        link = self._listeners.get(listener, {}).pop(uri, None)
        return await link.unsubscribe(uri) if link is not None else ToolResult({})

    # --- from the upstreams -------------------------------------------------------------------------------------------

    def changed(self, link: Link, kind: Kind) -> None:
        """A list of that connection is another one."""
        for listener in self._of(link):
            listener.changed(kind)

    def shown_anew(self, kind: Kind) -> None:
        """Agents are shown another list than before, though no server's is another: all who listen are told."""
        for listener in list(self._listeners):
            listener.changed(kind)

    def shown_to(self, tenant: str, principal: str, kind: Kind) -> None:
        """As `shown_anew`, to that principal alone."""
        for listener in list(self._listeners):
            behalf = listener.party.behalf
            if behalf is not None and (behalf.tenant, behalf.principal) == (tenant, principal):
                listener.changed(kind)

    def told(self, link: Link, method: str, params: Mapping[str, Any]) -> None:
        """A notification that belongs to no call."""
        for listener, subscribed in list(self._listeners.items()):
            if not _concerns(link, listener):
                continue
            uri = params.get("uri")
            if method == "notifications/resources/updated" and subscribed.get(str(uri)) is not link:
                continue
            listener.told(link.name, method, params)

    async def asked(self, link: Link, method: str, params: Mapping[str, Any], told: Tell) -> Answer:
        """What the party answers: a legacy client at once, a modern one with its next call."""
        for listener in self._of(link):
            if not listener.party.modern:
                return await listener.ask(method, params, told)
        if link.party is None:
            return ProtocolError({"code": METHOD_NOT_FOUND, "message": f"Method not found: {method[:128]}"})
        waiting = self._waiting.setdefault(link.party.key, [])
        if len(waiting) >= MAX_WAITING:
            return Silence("too many questions wait for the client")
        question = _Waiting()
        waiting.append(question)
        try:
            async with asyncio.timeout(ANSWER_S):
                caller = await question.caller
            return await caller.ask(method, params, told)
        except TimeoutError:
            return Silence("the client made no call in which it could be asked")
        finally:
            question.over.set()
            if question in waiting:
                waiting.remove(question)
            if not waiting and self._waiting.get(link.party.key) is waiting:
                del self._waiting[link.party.key]

    async def busy(self, caller: Caller) -> None:
        """A call is about to be made, with which its client can be asked what waits: in direct use it would have been
        asked before, so the call is made after it has answered.
        """
        waiting = self._waiting.pop(caller.party.key, None)
        if waiting is None:
            return
        for question in waiting:
            if not question.caller.done():
                question.caller.set_result(caller)
        await asyncio.gather(*(question.over.wait() for question in waiting))

    def _of(self, link: Link) -> list[Listener]:
        return [listener for listener in self._listeners if _concerns(link, listener)]

    def spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        """Done soon; nobody waits for it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _concerns(link: Link, listener: Listener) -> bool:
    """A party's own connection is its own; one that is shared is everybody's."""
    if link.party is not None:
        return link.party.key == listener.party.key
    return link.health.agreement is not None and link.health.agreement.modern
