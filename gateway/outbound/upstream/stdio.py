"""A connection over stdio: a child of ours, started anew whenever it is asked to connect again."""

import asyncio
from collections.abc import Mapping
from typing import Any

from gateway.model.tool import Answer, NotSent
from gateway.outbound.upstream.call import Call, carry
from gateway.outbound.upstream.calls import Calls
from gateway.outbound.upstream.child import Child
from gateway.outbound.upstream.duplex import Duplex
from gateway.outbound.upstream.negotiate import Agreement, Client, Introduce, Unreachable, negotiate
from gateway.outbound.upstream.spec import Patience, StdioSpec
from gateway.outbound.upstream.wire import Ask


class StdioConnection:
    """The way to one stdio server, over all the processes that serve it one after the other."""

    def __init__(
        self, spec: StdioSpec, client: Client, patience: Patience, calls: Calls, introduce: Introduce | None = None
    ) -> None:
        """Nothing is started yet. `introduce` as in `negotiate`."""
        self._spec = spec
        self._client = client
        self._patience = patience
        self._calls = calls
        self._introduce = introduce
        self._child: Child | None = None
        self._duplex: Duplex | None = None
        self._watch: asyncio.Task[str] | None = None
        self._probe = True

    def expect_legacy(self) -> None:
        """Another connection found the older era there: it is not probed again."""
        self._probe = False

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
        child = self._child = Child(self._spec, self._take, self._patience.answer_bytes)
        self._duplex = Duplex(
            self._calls, write=lambda line, _: child.write(line), has_room=lambda: child.has_room, room=child.room
        )
        try:
            await child.start()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise Unreachable(
                f"`{self._spec.shown or self._spec.command}` cannot be started: {reason.lower()}"
            ) from None
        self._watch = asyncio.get_running_loop().create_task(_watch(child, self._duplex))
        probe_s = self._patience.probe_s if probe else None
        return await negotiate(
            self, self._client, probe_s=probe_s, timeout_s=self._patience.start_s, introduce=self._introduce
        )

    def _take(self, line: bytes | None) -> None:
        if self._duplex is not None:
            self._duplex.take(line)

    async def lost(self) -> str:
        """The process has ended; how, as the rest of a sentence."""
        if self._watch is None:
            return "was never started"
        return await asyncio.shield(self._watch)

    async def ask(self, ask: Ask) -> Answer:
        """As `Channel.ask`."""
        return await self._calls.carried(self._calls.open(ask), self.carry)

    async def carry(self, call: Call) -> Answer:
        """What came of the call."""
        if self._duplex is None:
            return NotSent("the upstream is not running")
        return await carry(call, self._duplex)

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:  # noqa: ARG002 - HTTP says it
        """As `Channel.notify`."""
        if self._duplex is not None:
            self._duplex.notify(method, params)

    def unfit(self, definition: Mapping[str, Any]) -> str | None:  # noqa: ARG002 - stdio says nothing in headers
        """Why a tool cannot be called over this connection; None if it can."""
        return None

    async def drop(self) -> None:
        """The process and its group are gone; whoever still waited for an answer is told so."""
        child, duplex, watch = self._child, self._duplex, self._watch
        if child is None or duplex is None:
            return
        await child.stop()
        duplex.end("was stopped")
        if watch is not None:
            watch.cancel()
            await asyncio.wait({watch})
        self._child = self._duplex = self._watch = None

    async def close(self) -> None:
        """As `drop`, for good."""
        await self.drop()


async def _watch(child: Child, duplex: Duplex) -> str:
    """The child has ended, and every open call is told so; how it ended."""
    reason = await child.ended()
    duplex.end(reason)
    return reason
