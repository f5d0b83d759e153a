"""One upstream, kept: connected again whenever it is lost, its tools known, its health told."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from gateway.model.canonical import dump
from gateway.model.tool import Answer, NotSent
from gateway.outbound.upstream.listing import Listing, list_tools
from gateway.outbound.upstream.negotiate import Agreement, Channel, Client, Unreachable
from gateway.outbound.upstream.spec import Patience, Spec, StdioSpec
from gateway.outbound.upstream.stdio import StdioConnection
from gateway.outbound.upstream.wire import Ask, Hear
from gateway.ports import Dispatch

_LOG = logging.getLogger("counterfoil.upstream")

_LASTED_S = 5.0
"""A connection that held this long was a good one: the next attempt is made at once."""


class Connection(Channel, Protocol):
    """The way to one upstream, over all the connections that there are one after the other."""

    async def connect(self) -> Agreement:
        """There is a new connection, and an agreement.

        Raises: Unreachable.
        """
        ...

    async def lost(self) -> str:
        """The connection is lost; how, as the rest of a sentence about the upstream."""
        ...

    def unfit(self, definition: Mapping[str, Any]) -> str | None:
        """Why a tool cannot be called over this connection; None if it can."""
        ...

    async def drop(self) -> None:
        """What was left of a lost connection is gone."""
        ...

    async def close(self) -> None:
        """Nothing is held open, and nobody waits."""
        ...


@dataclass(frozen=True, slots=True)
class Health:
    """How an upstream is."""

    state: Literal["starting", "healthy", "unhealthy"] = "starting"
    reason: str | None = "it has not answered yet"
    """Why it is not healthy."""
    agreement: Agreement | None = None
    """The last one; it holds only while the state is healthy."""


def connection_to(spec: Spec, client: Client, patience: Patience, counts: Counter[str], hear: Hear) -> Connection:
    """The way to that upstream; nothing is started yet."""
    if isinstance(spec, StdioSpec):
        return StdioConnection(spec, client, patience, counts, hear)
    # aiohttp and the SDK's header rules cost a second to import; most upstreams are stdio.
    from gateway.outbound.upstream.http import HttpConnection  # noqa: PLC0415

    return HttpConnection(spec, client, patience, counts, hear)


class Upstream:
    """One upstream, from the first attempt to reach it until `close`."""

    def __init__(
        self,
        spec: Spec,
        client: Client,
        patience: Patience,
        *,
        on_change: Callable[[], None],
        on_notification: Hear | None,
    ) -> None:
        """`on_change` is called when its tools are others than before."""
        self.name = spec.name
        self.counts: Counter[str] = Counter()
        self.health = Health()
        self.listing: Listing | None = None
        """The last list that it gave; None if it never gave one."""
        self._spec = spec
        self._patience = patience
        self._on_change = on_change
        self._on_notification = on_notification
        self._connection = connection_to(spec, client, patience, self.counts, self._hear)
        self._settled = asyncio.Event()
        self._stale_at = 0.0
        self._refreshing: asyncio.Task[None] | None = None
        self._again = False
        self._keeper = self._spawn(self._keep())

    async def settled(self) -> None:
        """The first attempt to reach it has come to an end, good or bad."""
        await self._settled.wait()

    async def call(self, dispatch: Dispatch) -> Answer:
        """As `Upstreams.call`."""
        agreement = self.health.agreement
        if self.health.state != "healthy" or agreement is None:
            return NotSent(f"the upstream `{self.name}` is not there: {self.health.reason}")
        tool = dispatch.tool
        self.counts["calls"] += 1
        return await self._connection.ask(
            Ask(
                method="tools/call",
                params=agreement.params({"name": tool.own_name, "arguments": dispatch.arguments}, dispatch.meta),
                timeout_s=dispatch.timeout_s,
                version=agreement.version,
                name=tool.own_name,
                headers=dispatch.headers,
                schema=tool.definition.get("inputSchema"),
                late=dispatch.late,
            )
        )

    async def close(self) -> None:
        """Nothing of it runs on. Takes less than 3 s."""
        self.health = Health("unhealthy", "the gateway is shutting down", self.health.agreement)
        for task in (self._keeper, self._refreshing):
            if task is not None:
                task.cancel()
                await asyncio.wait({task})
        await self._connection.close()

    # --- keeping it -------------------------------------------------------------------------------------------------

    async def _keep(self) -> None:
        pause_s = first_s = self._patience.first_pause_s
        loop = asyncio.get_running_loop()
        while True:
            try:
                async with asyncio.timeout(self._patience.start_s):
                    await self._connect()
                since = loop.time()
                self._down(f"it {await self._connection.lost()}")
                pause_s = 0.0 if loop.time() - since > _LASTED_S else pause_s
            except TimeoutError:
                self._down(f"it did not come up within {self._patience.start_s:g} s")
            except Unreachable as error:
                self._down(str(error))
            await self._connection.drop()
            await asyncio.sleep(pause_s)
            pause_s = min(max(pause_s * 2, first_s), self._patience.last_pause_s)
            self.counts["restarts"] += 1

    async def _connect(self) -> None:
        agreement = await self._connection.connect()
        changed = self._take(await self._list(agreement))
        self.health = Health("healthy", None, agreement)
        self._settled.set()
        if changed:
            self._on_change()
        _LOG.info("%s: up, protocol %s", self.name, agreement.version)

    def _down(self, reason: str) -> None:
        self.health = Health("unhealthy", reason, self.health.agreement)
        self._settled.set()
        _LOG.warning("%s: %s", self.name, reason)

    # --- its tools --------------------------------------------------------------------------------------------------

    async def _list(self, agreement: Agreement) -> Listing:
        if "tools" not in agreement.capabilities:
            return Listing(())

        async def ask(params: Mapping[str, Any]) -> Answer:
            asked = agreement.params(params, {})
            return await self._connection.ask(Ask("tools/list", asked, self._patience.start_s, agreement.version))

        return await list_tools(ask)

    def _take(self, listing: Listing) -> bool:
        """Whether the tools are others than before. A definition that is as it was stays the same object."""
        self._stale_at = asyncio.get_running_loop().time() + self._ttl_s(listing)
        fit = []
        troubles = list(listing.troubles)
        # Compared as text, for to Python 1, 1.0 and True are equal.
        known = {dump(tool): tool for tool in (self.listing.tools if self.listing is not None else ())}
        for tool in listing.tools:
            if (why := self._connection.unfit(tool)) is not None:
                troubles.append(f"`{tool['name'][:80]}` cannot be called: {why}")
            else:
                fit.append(known.get(dump(tool), tool))
        before = self.listing
        self.listing = replace(listing, tools=tuple(fit), troubles=tuple(troubles))
        return before is None or [*map(id, before.tools)] != [*map(id, fit)]

    def _ttl_s(self, listing: Listing) -> float:
        if listing.ttl_s is not None:
            return max(listing.ttl_s, self._patience.least_ttl_s)
        return self._patience.ttl_s

    def look(self) -> None:
        """Somebody reads its tools: if they are stale they are read again, behind his back."""
        stale = asyncio.get_running_loop().time() >= self._stale_at
        if stale and self.health.state == "healthy":
            self._refresh(0.0)

    def _hear(self, method: str, params: Mapping[str, Any]) -> None:
        if method == "notifications/tools/list_changed":
            self._refresh(self._patience.debounce_s)
        if self._on_notification is not None:
            self._on_notification(method, params)

    def _refresh(self, pause_s: float) -> None:
        self._again = True
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._spawn(self._keep_fresh(pause_s))

    async def _keep_fresh(self, pause_s: float) -> None:
        while self._again:
            await asyncio.sleep(pause_s)
            self._again = False
            agreement = self.health.agreement
            if self.health.state != "healthy" or agreement is None:
                return  # the list is read anyway when it comes up
            self._stale_at = asyncio.get_running_loop().time() + self._patience.least_ttl_s
            try:
                changed = self._take(await self._list(agreement))
            except Unreachable as error:
                _LOG.warning("%s: its tools are those of before: %s", self.name, error)
                return
            if changed:
                self._on_change()

    # --- small things -----------------------------------------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("%s: a task of its supervisor failed", self.name, exc_info=error)
            self._down("its supervisor failed")
