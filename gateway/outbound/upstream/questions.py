"""What upstreams of the older era ask of the client: each question goes to whom it concerns, its answer back."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from gateway.model.canonical import JsonObject
from gateway.model.tool import Answer, NotSent, Silence, ToolResult
from gateway.outbound.upstream.call import Call
from gateway.outbound.upstream.wire import Asked, notification, response, unknown, worth_saying

_LOG = logging.getLogger("counterfoil.upstream")

MAX_OPEN = 64
"""Questions of one upstream that wait for an answer. More than anybody can read, few enough to hold."""

Tell: TypeAlias = Callable[[str, Mapping[str, Any]], None]
AskClient: TypeAlias = Callable[[str, Mapping[str, Any], Tell], Awaitable[Answer]]
"""As `Caller.ask`."""

PROGRESS = "notifications/progress"
TOKEN = "progressToken"  # noqa: S105 - a name of the protocol


class Questions:
    """The open questions of one link."""

    def __init__(
        self,
        name: str,
        counts: Counter[str],
        say: Callable[[JsonObject], None],
        reply: Callable[[JsonObject], Awaitable[None]],
    ) -> None:
        """`say` never waits and may drop; `reply` waits, for a bounded time, until the upstream takes it."""
        self._name = name
        self._counts = counts
        self.say = say
        self.reply = reply
        self._open: dict[int | str, asyncio.Task[None]] = {}

    def put(self, asked: Asked, client: AskClient | None, call: Call | None) -> None:
        """It is answered some time: by us, by the client, or because nobody can. `call` is whom it holds up."""
        if asked.method == "ping":
            self.say(response(asked.id, ToolResult({})))
        elif client is None:
            self.say(response(asked.id, unknown(asked.method)))
        elif asked.id in self._open or len(self._open) >= MAX_OPEN:
            self.refuse(asked, NotSent("too many questions are open"))
        else:
            task = asyncio.get_running_loop().create_task(self._carry(asked, client, call))
            self._open[asked.id] = task
            task.add_done_callback(lambda _: self._open.pop(asked.id, None))

    def refuse(self, asked: Asked, answer: Answer) -> None:
        """It is answered by us, in these words; counted and said."""
        self._counts["refused_questions"] += 1
        if worth_saying(self._counts["refused_questions"]):
            _LOG.warning("%s: a question is refused: %s", self._name, asked.method[:64])
        self.say(response(asked.id, answer))

    def withdraw(self, asked: object) -> None:
        """The upstream wants no answer to that any more [MCP, cancellation]."""
        task = self._open.get(asked) if isinstance(asked, int | str) else None
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Nothing is asked any more: nobody could be told the answers."""
        for task in list(self._open.values()):
            task.cancel()

    async def _carry(self, asked: Asked, client: AskClient, call: Call | None) -> None:
        self._counts["questions"] += 1
        if call is not None:
            call.hold()
        try:
            answer = await client(asked.method, asked.params, self._telling(asked.params))
        except Exception:  # noqa: BLE001 - logged whole
            # The border to whoever speaks with the client: the upstream must hear of it, whatever it was.
            _LOG.exception("%s: asking the client failed", self._name)
            answer = Silence("the client could not be asked")
        finally:
            if call is not None:
                call.release()
        await self.reply(response(asked.id, answer))

    def _telling(self, params: Mapping[str, Any]) -> Tell:
        meta = params.get("_meta")
        token = meta.get(TOKEN) if isinstance(meta, dict) else None

        def tell(method: str, told: Mapping[str, Any]) -> None:
            if method != PROGRESS:
                self.say(notification(method, told))
            elif token is not None:
                self.say(notification(method, {**told, TOKEN: token}))

        return tell
