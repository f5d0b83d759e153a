"""A connection over stdio: a child of ours, started anew whenever it is asked to connect again."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

from gateway.model.tool import Answer, NotSent
from gateway.outbound.upstream.negotiate import Agreement, Client, Unreachable, negotiate
from gateway.outbound.upstream.pipe import Pipe
from gateway.outbound.upstream.spec import Patience, StdioSpec
from gateway.outbound.upstream.wire import Ask, Hear


class StdioConnection:
    """The way to one stdio server, over all the processes that serve it one after the other."""

    def __init__(self, spec: StdioSpec, client: Client, patience: Patience, counts: Counter[str], hear: Hear) -> None:
        self._spec = spec
        self._client = client
        self._patience = patience
        self._counts = counts
        self._hear = hear
        self._pipe: Pipe | None = None
        self._watch: asyncio.Task[str] | None = None
        self._probe = True

    async def connect(self) -> Agreement:
        """A new process, and an agreement with it. Some servers exit when they are probed: those are asked the old way.

        Raises: Unreachable.
        """
        first = self._probe
        self._probe = not first  # if this attempt hangs and is given up, the next begins the other way
        try:
            agreement = await self._start(probe=first)
        except Unreachable:
            await self.drop()
            agreement = await self._start(probe=not first)
        self._probe = agreement.modern
        return agreement

    async def _start(self, *, probe: bool) -> Agreement:
        pipe = self._pipe = Pipe(self._spec, self._counts, self._hear)
        try:
            await pipe.child.start()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Unreachable(
                f"`{self._spec.shown or self._spec.command}` cannot be started: {reason.lower()}"
            ) from None
        self._watch = asyncio.get_running_loop().create_task(pipe.watch())
        probe_s = self._patience.probe_s if probe else None
        return await negotiate(self, self._client, probe_s=probe_s, timeout_s=self._patience.start_s)

    async def lost(self) -> str:
        """The process has ended; how, as the rest of a sentence."""
        if self._watch is None:
            return "was never started"
        return await asyncio.shield(self._watch)

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`."""
        if self._pipe is None:
            return NotSent("the upstream is not running")
        return await self._pipe.ask(ask)

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:  # noqa: ARG002 - HTTP says it
        """As `Channel.notify`."""
        if self._pipe is not None:
            self._pipe.notify(method, params)

    def unfit(self, definition: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - stdio says nothing in headers
        """Why a tool cannot be called over this connection; None if it can."""
        return None

    async def drop(self) -> None:
        """The process and its group are gone; whoever still waited for an answer is told so."""
        pipe, watch = self._pipe, self._watch
        if pipe is None:
            return
        await pipe.child.stop()
        pipe.end("was stopped")
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})
        self._pipe = self._watch = None

    async def close(self) -> None:
        """As `drop`, for good."""
        await self.drop()
