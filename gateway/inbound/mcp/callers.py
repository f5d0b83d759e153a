"""The client's side of one request, for the upstream that works on it: what it is told, and what it is asked."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.inbound.mcp.asking import Asking
from gateway.inbound.mcp.exchange import Exchange
from gateway.inbound.mcp.faults import METHOD_NOT_FOUND
from gateway.model.party import Party
from gateway.model.tool import Answer, ProtocolError, Silence, ToolResult
from gateway.ports import Withdrawal

Told = Callable[[str, Mapping[str, Any]], None]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of logs, least severe first [RFC 5424]."""


def as_severe(level: Any, least: str) -> bool:
    """Whether a log line of that level is to be told; what has no level that we know is."""
    return level not in LEVELS or least not in LEVELS or LEVELS.index(level) >= LEVELS.index(least)


class LegacyCaller:
    """A client that is asked on its own connection, in the middle of its request."""

    modern = False

    def __init__(self, asking: Asking) -> None:
        self.party: Party = asking.party
        self.log_level = asking.log_level
        self._asking = asking
        self._exchange = asking.exchange
        self._token = asking.meta.get("progressToken")
        self._open = 0
        self._since = asyncio.get_running_loop().time()

    @property
    def withdrawal(self) -> Withdrawal:
        """Of its request."""
        return self._exchange.withdrawal

    def since(self) -> float | None:
        """Since when it waits for us alone."""
        return None if self._open else self._since

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """The notification, with the client's own progress token."""
        said = _said(self, method, params, self._token)
        if said is not None and not self.withdrawal.gone:
            self._exchange.line.send({"jsonrpc": "2.0", "method": method, "params": said})

    async def ask(self, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:
        """Its answer, over its own connection. What it did not say it can, it refuses itself."""
        session = self._exchange.session
        if session is None:
            return _cannot(method)
        self._open += 1
        try:
            return await session.asks.ask(self._exchange.line, method, _older(method, params), told)
        finally:
            self._open -= 1
            self._since = asyncio.get_running_loop().time()

    def pause(self, retry_ms: int | None) -> None:
        """Its stream may end, to be taken up again."""
        self._exchange.line.pause(retry_ms)


@dataclass(slots=True, eq=False)
class Question:
    """What an upstream wants to know from a modern client, to be brought with the next round."""

    method: str
    params: Mapping[str, Any]
    answered: "asyncio.Future[Answer]"


class ModernCaller:
    """A client that cannot be asked: it is told what is wanted, and brings it when it asks again.

    One for a call, over all its rounds.
    """

    modern = True

    def __init__(self, asking: Asking) -> None:
        self.party: Party = asking.party
        self.log_level = asking.log_level
        self.withdrawal = Withdrawal()
        self.questions: dict[str, Question] = {}
        self._asking = asking
        self._ids = itertools.count(1)
        self._rung: asyncio.Future[None] | None = None
        self._exchange: Exchange | None = None
        self._since: float | None = None
        self._token: Any = None
        self.attach(asking)

    def attach(self, asking: Asking) -> None:
        """A round begins: the client waits for us with this request."""
        self._exchange = asking.exchange
        self._token = asking.meta.get("progressToken")
        self._since = asyncio.get_running_loop().time()
        own, round_ = self.withdrawal, asking.exchange.withdrawal
        if round_.gone:
            own.say(cancelled=round_.said)
        round_.then = lambda: own.say(cancelled=round_.said)

    def detach(self) -> None:
        """The round has its answer: the client is gone for now, and that means nothing."""
        if self._exchange is not None:
            self._exchange.withdrawal.then = None
        self._exchange, self._since = None, None

    def since(self) -> float | None:
        """Since when it waits for us alone."""
        return None if self.questions else self._since

    def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """The notification, if a round is under way, with the client's own progress token.

        Not that an address was visited: in this era there is no such word, nor an id that it could be about.
        """
        if method == "notifications/elicitation/complete":
            return
        said = _said(self, method, params, self._token)
        if said is not None and self._exchange is not None and not self.withdrawal.gone:
            self._exchange.line.send({"jsonrpc": "2.0", "method": method, "params": said})

    async def ask(self, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:  # noqa: ARG002
        """What the client brings with a later round; it can tell no progress meanwhile."""
        if method not in _INPUTS or not self._asking.can(method) or self.withdrawal.gone:
            return _cannot(method)
        key = f"q{next(self._ids)}"
        question = Question(method, _newer(params), asyncio.get_running_loop().create_future())
        self.questions[key] = question
        self.ring()
        try:
            return await question.answered
        finally:
            self.questions.pop(key, None)

    def ring(self) -> None:
        """Whoever waits at `rung` goes on."""
        if self._rung is not None and not self._rung.done():
            self._rung.set_result(None)

    def rung(self) -> "asyncio.Future[None]":
        """Done once there is a question that no round has told yet."""
        if self._rung is None or self._rung.done():
            self._rung = asyncio.get_running_loop().create_future()
        return self._rung

    def bring(self, responses: Mapping[str, Any]) -> None:
        """The client's answers, by the names of the questions."""
        for key, question in list(self.questions.items()):
            response = responses.get(key)
            if isinstance(response, Mapping) and not question.answered.done():
                question.answered.set_result(ToolResult(response))

    def give_up(self) -> None:
        """No answer comes any more."""
        for question in list(self.questions.values()):
            if not question.answered.done():
                question.answered.set_result(Silence("the client did not bring what it was asked for"))
        self.withdrawal.say(cancelled=False)

    def pause(self, retry_ms: int | None) -> None:
        """There is nothing to come back to in this era."""


class UnaskedCaller(ModernCaller):
    """A modern client whose request has no rounds, so that no answer could be brought."""

    async def ask(self, method: str, params: Mapping[str, Any], told: Told | None = None) -> Answer:  # noqa: ARG002
        """Whoever asks hears so at once: a question that nobody is told would keep the request waiting."""
        return _cannot(method)


_INPUTS = frozenset({"elicitation/create", "sampling/createMessage", "roots/list"})
"""What a client can be asked between rounds [MCP 2026-07-28, InputRequests]."""


def _said(
    caller: LegacyCaller | ModernCaller, method: str, params: Mapping[str, Any], token: Any
) -> Mapping[str, Any] | None:
    """The params as this client may have them; None if it asked for no such thing."""
    if method == "notifications/progress":
        return {**params, "progressToken": token} if token is not None else None
    if method == "notifications/message":
        least = caller.log_level
        return params if least is not None and as_severe(params.get("level"), least) else None
    return params


def _cannot(method: str) -> Answer:
    return ProtocolError({"code": METHOD_NOT_FOUND, "message": f"the client cannot be asked for `{method[:64]}`"})


def _older(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """An address to visit has an id in 2025-11-25, and none after."""
    if method == "elicitation/create" and params.get("mode") == "url" and "elicitationId" not in params:
        return {**params, "elicitationId": uuid.uuid4().hex}
    return params


def _newer(params: Mapping[str, Any]) -> Mapping[str, Any]:
    # `elicitationId` and a task or progress of the question itself have no place between rounds.
    return {key: value for key, value in params.items() if key not in {"elicitationId", "task"}}
