"""What one link offers, of all four kinds: read when it comes up, and again when it is old or said to be another."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from gateway.model.canonical import dump
from gateway.model.offer import Kind
from gateway.outbound.upstream.listing import METHODS, AskPage, Listing, list_all
from gateway.outbound.upstream.negotiate import Unreachable
from gateway.outbound.upstream.spec import Patience

_LOG = logging.getLogger("counterfoil.upstream")

_T = TypeVar("_T")

_CAPABILITY: Mapping[Kind, str] = {
    "tools": "tools",
    "prompts": "prompts",
    "resources": "resources",
    "resourceTemplates": "resources",
}

OTHERS_S = 5.0
"""For the lists beside the tools, when it comes up: one that takes longer is waited for behind everybody's back."""


@dataclass(slots=True)
class _State:
    listing: Listing = field(default_factory=Listing)
    known: bool = False
    stale_at: float = 0.0
    task: "asyncio.Task[None] | None" = None
    again: bool = False
    said: bool = False
    """The upstream itself says that it is another one."""


class Lists:
    """The lists of one link, the last that it gave."""

    def __init__(
        self,
        name: str,
        patience: Patience,
        ask: AskPage,
        *,
        unfit: Callable[[Mapping[str, Any]], str | None],
        on_change: Callable[[Kind], None],
        is_up: Callable[[], bool],
    ) -> None:
        """`unfit` says why a tool cannot be called; `on_change` hears when a list is another one, and fresh."""
        self._name = name
        self._patience = patience
        self._ask = ask
        self._unfit = unfit
        self._on_change = on_change
        self._is_up = is_up
        self._kinds: dict[Kind, _State] = {kind: _State() for kind in METHODS}
        self._capabilities: Mapping[str, Any] = {}
        self._tasks: set[asyncio.Task[Any]] = set()

    def listing(self, kind: Kind) -> Listing:
        """The last list of that kind; empty if there never was one."""
        return self._kinds[kind].listing

    def close(self) -> None:
        """Nothing is read any more."""
        for task in list(self._tasks):
            task.cancel()

    async def load(self, capabilities: Mapping[str, Any]) -> list[Kind]:
        """All that the upstream says it has is read, side by side; which lists are others than before.

        Raises: Unreachable, if the tools cannot be read. Of the other kinds that is a trouble, and no more.
        """
        self._capabilities = capabilities
        begun = asyncio.get_running_loop().time()
        reads = {kind: self._spawn(self._read(kind)) for kind in METHODS}
        others = {task for kind, task in reads.items() if kind != "tools"}
        try:
            await reads["tools"]
            left_s = OTHERS_S - (asyncio.get_running_loop().time() - begun)
            _, slow = await asyncio.wait(others, timeout=max(0.0, left_s))
        except BaseException:
            for task in reads.values():
                task.cancel()
            raise
        for kind, task in reads.items():
            if task in slow:
                task.add_done_callback(partial(self._came_late, kind))
        return [kind for kind, task in reads.items() if task not in slow and task.result()]

    def _came_late(self, kind: Kind, task: "asyncio.Task[bool]") -> None:
        if not task.cancelled() and task.exception() is None and task.result():
            self._on_change(kind)

    async def _read(self, kind: Kind) -> bool:
        """Whether the list is another one than before."""
        if _CAPABILITY[kind] not in self._capabilities:
            return self._take(kind, Listing())
        try:
            return self._take(kind, await list_all(kind, self._ask, self._patience.listed))
        except Unreachable as error:
            if kind == "tools":
                raise
            state = self._kinds[kind]
            state.stale_at = asyncio.get_running_loop().time() + self._patience.least_ttl_s
            state.listing = replace(state.listing, troubles=(str(error),))
            _LOG.warning("%s: %s", self._name, error)
            return False

    def _take(self, kind: Kind, listing: Listing) -> bool:
        """Whether it is another one than before. An entry that is as it was stays the same object."""
        state = self._kinds[kind]
        state.stale_at = asyncio.get_running_loop().time() + self._ttl_s(listing)
        fit = []
        troubles = list(listing.troubles)
        # Compared as text, for to Python 1, 1.0 and True are equal.
        known = {dump(item): item for item in state.listing.items}
        for item in listing.items:
            if kind == "tools" and (why := self._unfit(item)) is not None:
                troubles.append(f"`{item['name'][:80]}` cannot be called: {why}")
            else:
                fit.append(known.get(dump(item), item) if known else item)
        before, was_known = state.listing.items, state.known
        state.known = True
        state.listing = replace(listing, items=tuple(fit), troubles=tuple(troubles))
        return (not was_known and kind == "tools") or [*map(id, before)] != [*map(id, fit)]

    def _ttl_s(self, listing: Listing) -> float:
        if listing.ttl_s is not None:
            return max(listing.ttl_s, self._patience.least_ttl_s)
        return self._patience.ttl_s

    # --- again --------------------------------------------------------------------------------------------------------

    def look(self, kind: Kind) -> None:
        """Somebody reads it: if it is stale it is read again, behind his back."""
        state = self._kinds[kind]
        if asyncio.get_running_loop().time() >= state.stale_at and self._is_up():
            self._refresh(kind, 0.0)

    def changed(self, kind: Kind) -> None:
        """The upstream says that it is another one now. A burst of that is one refresh."""
        self._kinds[kind].said = True
        self._refresh(kind, self._patience.debounce_s)

    def _refresh(self, kind: Kind, pause_s: float) -> None:
        state = self._kinds[kind]
        state.again = True
        if state.task is None or state.task.done():
            state.task = self._spawn(self._keep_fresh(kind, pause_s))

    async def _keep_fresh(self, kind: Kind, pause_s: float) -> None:
        state = self._kinds[kind]
        while state.again:
            await asyncio.sleep(pause_s)
            said, state.again, state.said = state.said, False, False
            if not self._is_up():
                return  # the list is read anyway when it comes up
            state.stale_at = asyncio.get_running_loop().time() + self._patience.least_ttl_s
            try:
                changed = await self._read(kind)
            except Unreachable as error:
                _LOG.warning("%s: its %s are those of before: %s", self._name, kind, error)
                return
            # Of resources one word stands for the list and for the templates: it is passed on once.
            if changed or (said and kind != "resourceTemplates"):
                self._on_change(kind)

    def _spawn(self, work: Coroutine[Any, Any, _T]) -> "asyncio.Task[_T]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
