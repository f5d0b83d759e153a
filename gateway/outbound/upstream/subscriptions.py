"""What one link listens to: resources that somebody watches, and in the newer era the changes of lists as well.

There, one standing `subscriptions/listen` carries all of it: opened anew whenever what is wanted changes, the new one
before the old one is closed, and whenever it was lost [MCP 2026-07-28, subscriptions].
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.calls import SUBSCRIPTION
from gateway.outbound.upstream.listing import AskPage
from gateway.outbound.upstream.negotiate import Agreement, why
from gateway.outbound.upstream.spec import Patience
from gateway.outbound.upstream.wire import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Hear

_LOG = logging.getLogger("counterfoil.upstream")

ACK_S = 10.0
"""For the first word on a stream that we asked for."""

MAX_URIS = 10_000
_LASTED_S = 5.0

_ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_URIS = "resourceSubscriptions"
_PROMISES = {"tools": "toolsListChanged", "prompts": "promptsListChanged", "resources": "resourcesListChanged"}

Listen: TypeAlias = Callable[[Mapping[str, Any], Hear], Awaitable[Answer]]
"""`subscriptions/listen` with this filter; returns when the stream ends, and closes it when it is cancelled."""


class Subscriptions:
    """Who watches what over one link, counted."""

    def __init__(
        self, name: str, patience: Patience, ask: AskPage, listen: Listen, *, told: Hear, refetch: Callable[[], None]
    ) -> None:
        """`refetch` is called when changes may have been missed."""
        self._name = name
        self._patience = patience
        self._ask = ask
        self._listen = listen
        self._told = told
        self._refetch = refetch
        self._wanted: Counter[str] = Counter()
        self._lock = asyncio.Lock()
        self._agreement: Agreement | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._dirty = asyncio.Event()
        self._waiting: list[tuple[str, asyncio.Future[Answer]]] = []

    @property
    def any(self) -> bool:
        """Whether a resource is watched."""
        return bool(self._wanted)

    def up(self, agreement: Agreement) -> None:
        """There is a connection, which knows nothing of the one before."""
        self.down()
        self._agreement = agreement
        if agreement.modern:
            self._keeper = asyncio.get_running_loop().create_task(self._stand())
        elif self._wanted:
            self._keeper = asyncio.get_running_loop().create_task(self._again([*self._wanted]))

    def down(self) -> None:
        """The connection is lost."""
        self._agreement = None
        if self._keeper is not None:
            self._keeper.cancel()
            self._keeper = None
        self._settle(Silence("the connection was lost"), None, None)

    # --- who wants what -----------------------------------------------------------------------------------------------

    async def subscribe(self, uri: str) -> Answer:
        """`ToolResult({})` if the resource is watched from now on, once more than before."""
        if uri not in self._wanted and len(self._wanted) >= MAX_URIS:
            return ProtocolError({"code": INTERNAL_ERROR, "message": "too many resources are watched"})
        if self._agreement is None or not self._agreement.modern:
            async with self._lock:
                answer = ToolResult({}) if self._wanted[uri] else await self._ask("resources/subscribe", {"uri": uri})
                if not isinstance(answer, ToolResult):
                    return answer
                self._count(uri, 1)
                return ToolResult({})
        self._count(uri, 1)
        if self._wanted[uri] > 1 and not any(waiting == uri for waiting, _ in self._waiting):
            return ToolResult({})
        answer = await self._acknowledged(uri)
        if not isinstance(answer, ToolResult):
            self._count(uri, -1)
            self._dirty.set()
        return answer

    async def unsubscribe(self, uri: str) -> Answer:
        """`ToolResult({})` if it is watched once less, or not at all any more."""
        async with self._lock:
            was_wanted = uri in self._wanted
            if was_wanted:
                self._count(uri, -1)
            if uri in self._wanted:
                return ToolResult({})
            if self._agreement is not None and self._agreement.modern:
                if was_wanted:
                    self._dirty.set()
                return ToolResult({})
            return await self._ask("resources/unsubscribe", {"uri": uri})

    def _count(self, uri: str, by: int) -> None:
        self._wanted[uri] += by
        if self._wanted[uri] <= 0:
            del self._wanted[uri]

    async def _again(self, uris: list[str]) -> None:
        for uri in uris:
            answer = await self._ask("resources/subscribe", {"uri": uri})
            if not isinstance(answer, ToolResult):
                _LOG.warning("%s: a resource is watched no more: %s", self._name, why(answer))

    # --- the standing stream ------------------------------------------------------------------------------------------

    async def _acknowledged(self, uri: str) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((uri, answered))
        self._dirty.set()
        try:
            async with asyncio.timeout(ACK_S):
                return await answered
        except TimeoutError:
            return Silence(f"the subscription was not acknowledged within {ACK_S:g} s")
        finally:
            self._waiting = [entry for entry in self._waiting if entry[1] is not answered]

    def _settle(self, answer: Answer, wanted: Mapping[str, Any] | None, honored: Mapping[str, Any] | None) -> None:
        """Those who wait for a stream with that filter, or for any, are told what came of it."""
        for uri, answered in self._waiting:
            if answered.done() or (wanted is not None and uri not in wanted.get(_URIS, ())):
                continue
            refused = ProtocolError({"code": INVALID_PARAMS, "message": "the upstream does not let it be watched"})
            answered.set_result(answer if honored is None or uri in honored.get(_URIS, ()) else refused)

    def _filter(self) -> dict[str, Any]:
        capabilities = self._agreement.capabilities if self._agreement is not None else {}
        promised = {
            word: True
            for kind, word in _PROMISES.items()
            if isinstance(capabilities.get(kind), dict) and capabilities[kind].get("listChanged") is True
        }
        return {**promised, _URIS: [*self._wanted]} if self._wanted else promised

    async def _stand(self) -> None:
        now: _Stream | None = None
        pause_s, missed = self._patience.first_pause_s, False
        try:
            while True:
                self._dirty.clear()
                wanted = self._filter()
                before, now = now, _Stream(self._listen, wanted, self._told, now) if wanted else None
                refusal = await now.begun() if now is not None else None
                if before is not None:
                    before.close()
                if refusal is None and missed and now is not None:
                    self._refetch()
                missed = refusal is not None
                self._settle(refusal or ToolResult({}), wanted, now.honored if now and refusal is None else None)
                if not await self._until_another(now, refusal):
                    lasted = now is not None and refusal is None and now.lasted_s() > _LASTED_S
                    pause_s = self._patience.first_pause_s if lasted else min(pause_s * 2, self._patience.last_pause_s)
                    missed = True
                    if now is not None:
                        now.close()
                    now = None
                    await self._pause(pause_s)
        finally:
            if now is not None:
                now.close()

    async def _until_another(self, now: "_Stream | None", refusal: Answer | None) -> bool:
        """Whether something else is wanted; if not, the stream is lost."""
        if now is None or _is_final(refusal):
            await self._dirty.wait()
            return True
        if refusal is not None:
            return False
        dirty = asyncio.get_running_loop().create_task(self._dirty.wait())
        try:
            await asyncio.wait({now.task, dirty}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            dirty.cancel()
        return self._dirty.is_set()

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._dirty.wait()


def _is_final(refusal: Answer | None) -> bool:
    return isinstance(refusal, ProtocolError) and refusal.error["code"] in {METHOD_NOT_FOUND, INVALID_PARAMS}


class _Stream:
    """One `subscriptions/listen`."""

    def __init__(self, listen: Listen, wanted: Mapping[str, Any], told: Hear, before: "_Stream | None" = None) -> None:
        """With its first word the one before it falls silent: what both carry is heard once."""
        self.honored: Mapping[str, Any] = {}
        self._told: Hear | None = told
        self._before = before
        self._acked = asyncio.get_running_loop().create_future()
        self._since = asyncio.get_running_loop().time()
        self.task: asyncio.Task[Answer] = asyncio.get_running_loop().create_task(self._run(listen, wanted))

    async def _run(self, listen: Listen, wanted: Mapping[str, Any]) -> Answer:
        return await listen({"notifications": wanted}, self._hear)

    def _hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method == _ACKNOWLEDGED:
            honored = params.get("notifications")
            self.honored = honored if isinstance(honored, dict) else {}
            if not self._acked.done():
                self._acked.set_result(None)
            if self._before is not None:
                self._before._told = None  # noqa: SLF001 - one of its own kind
                self._before = None
        elif self._told is not None:
            self._told(method, _without_its_id(params))

    async def begun(self) -> Answer | None:
        """Why there is no such stream; None if it has begun."""
        await asyncio.wait({self.task, self._acked}, timeout=ACK_S, return_when=asyncio.FIRST_COMPLETED)
        if self._acked.done():
            return None
        if self.task.done():
            answer = self.task.result()
            return Silence("the stream ended at once") if isinstance(answer, ToolResult) else answer
        return Silence(f"the subscription was not acknowledged within {ACK_S:g} s")

    def lasted_s(self) -> float:
        """For how long there was one."""
        return asyncio.get_running_loop().time() - self._since

    def close(self) -> None:
        """Nothing more is heard of it."""
        self.task.cancel()


def _without_its_id(params: Mapping[str, Any]) -> dict[str, Any]:
    # The id of our request means nothing to anybody else.
    meta = params.get("_meta")
    if not isinstance(meta, dict) or SUBSCRIPTION not in meta:
        return dict(params)
    kept = {key: value for key, value in meta.items() if key != SUBSCRIPTION}
    rest = {key: value for key, value in params.items() if key != "_meta"}
    return {**rest, "_meta": kept} if kept else rest
