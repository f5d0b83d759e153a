"""What we asked a legacy client, and who waits for its answers."""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from gateway.model.canonical import JsonObject
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult

Told = Callable[[str, Mapping[str, Any]], None]

MAX_ASKS = 256
"""Of one client at one time; an upstream that asks more is told that nobody answers."""


class _Line(Protocol):
    def send(self, message: JsonObject) -> None: ...


class Asks:
    """The questions that are open on one conversation, by ids of our own."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._open: dict[str, tuple[asyncio.Future[Answer], Told | None]] = {}
        self._closed = False

    async def ask(self, line: _Line, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:
        """The client's answer. `Silence` if the conversation ends first. Cancelled, the question is withdrawn."""
        if self._closed or len(self._open) >= MAX_ASKS:
            return Silence("the client takes no questions now")
        ask_id = f"cf-{next(self._ids)}"
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[ask_id] = (answered, told)
        asked, token = _with_token(params, ask_id)
        line.send({"jsonrpc": "2.0", "id": ask_id, "method": method, "params": asked})
        if told is not None and token is not None:
            self._open[ask_id] = (answered, lambda m, p: told(m, {**p, "progressToken": token}))
        try:
            return await answered
        except asyncio.CancelledError:
            line.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": ask_id}})
            raise
        finally:
            self._open.pop(ask_id, None)

    def answer(self, message: JsonObject) -> None:
        """The client's response; one that answers nothing is dropped."""
        found = self._open.get(str(message.get("id")))
        if found is None or found[0].done():
            return
        found[0].set_result(ToolResult(message["result"]) if "result" in message else ProtocolError(message["error"]))

    def progress(self, params: Mapping[str, Any]) -> bool:
        """Whether it was the client's progress with something that we asked."""
        found = self._open.get(str(params.get("progressToken")))
        if found is None:
            return False
        if found[1] is not None:
            found[1]("notifications/progress", params)
        return True

    def close(self) -> None:
        """No answer comes any more."""
        self._closed = True
        for answered, _ in self._open.values():
            if not answered.done():
                answered.set_result(Silence("the client is gone"))


def _with_token(params: Mapping[str, Any], token: str) -> tuple[Mapping[str, Any], Any]:
    """The params with a progress token that is ours, and the one that was there; None if it asked for no progress."""
    meta = params.get("_meta")
    if not isinstance(meta, Mapping) or meta.get("progressToken") is None:
        return params, None
    return {**params, "_meta": {**meta, "progressToken": token}}, meta["progressToken"]
