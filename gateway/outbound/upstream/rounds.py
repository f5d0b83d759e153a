"""The rounds of one call to a server of the newer era, driven for a client of the older one, which knows none.

What the server wants to know is asked of the client on its own connection; the answers go with the same call, sent as
a new request [MCP 2026-07-28, multi round-trip requests].
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.call import CANCELLED, MAX_HELD_S
from gateway.outbound.upstream.wire import Ask
from gateway.ports import Caller

METHODS = {"tools/call", "prompts/get", "resources/read"}
"""The only ones that may be answered so."""

MAX_ROUNDS = 10
"""As in every SDK."""

_MAX_QUESTIONS = 64
_FIRST_PAUSE_S = 0.05
_LAST_PAUSE_S = 1.0

_INVALID = Silence("the upstream wants input in a way that is not valid")

Send: TypeAlias = Callable[[Ask], Awaitable[Answer]]


async def drive(ask: Ask, caller: Caller, send: Send) -> Answer:
    """What came of the call in the end. `send` carries one round; the time limit is that of all rounds together."""
    loop = asyncio.get_running_loop()
    left_s, pause_s = ask.timeout_s, _FIRST_PAUSE_S
    this = ask
    for _ in range(1 + MAX_ROUNDS):
        begun = loop.time()
        answer = await send(replace(this, timeout_s=left_s))
        if isinstance(answer, NotSent) and this is not ask:
            return Silence(f"its earlier rounds were sent, and the next one was not: {answer.reason}")
        if not isinstance(answer, InputRequired):
            return answer
        requests = answer.result.get("inputRequests")
        more: dict[str, Any] = {}
        if requests:
            left_s -= loop.time() - begun
            responses = await _ask_all(requests, caller)
            if not isinstance(responses, dict):
                return responses
            more["inputResponses"] = responses
            pause_s = _FIRST_PAUSE_S
        else:
            await asyncio.sleep(pause_s)
            left_s -= loop.time() - begun
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)
        if left_s <= 0:
            return Silence(f"no complete answer within {ask.timeout_s:g} s")
        if "requestState" in answer.result:
            more["requestState"] = answer.result["requestState"]
        this = replace(ask, params={**ask.params, **more}, left_s=None)
    return Silence(f"the upstream wanted input more than {MAX_ROUNDS} times")


async def _ask_all(requests: Any, caller: Caller) -> dict[str, Any] | Answer:
    """The client's answers, under the keys of the questions; or why there are none, for which one is enough."""
    if not isinstance(requests, dict) or len(requests) > _MAX_QUESTIONS or not all(map(_is_request, requests.values())):
        return _INVALID
    loop = asyncio.get_running_loop()
    withdrawn: asyncio.Future[None] = loop.create_future()

    def then() -> None:
        if not withdrawn.done():
            withdrawn.set_result(None)

    if caller.withdrawal.said:
        return CANCELLED
    caller.withdrawal.then = then
    asked = {key: loop.create_task(_ask(caller, request)) for key, request in requests.items()}
    try:
        return await _answers(asked, withdrawn, requests, caller)
    finally:
        if caller.withdrawal.then is then:
            caller.withdrawal.then = None
        for task in asked.values():
            task.cancel()


async def _answers(
    asked: Mapping[str, "asyncio.Task[Answer]"],
    withdrawn: "asyncio.Future[None]",
    requests: Mapping[str, Any],
    caller: Caller,
) -> dict[str, Any] | Answer:
    until = asyncio.get_running_loop().time() + MAX_HELD_S
    open_ = dict(asked)
    results: dict[str, Any] = {}
    while open_:
        left_s = until - asyncio.get_running_loop().time()
        waits: set[asyncio.Future[Any]] = {*open_.values()}
        if not withdrawn.done():
            waits.add(withdrawn)
        done, _ = await asyncio.wait(waits, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return Silence(f"the client gave no answer within {MAX_HELD_S:g} s")
        if caller.withdrawal.said:
            return CANCELLED
        for key in [key for key, task in open_.items() if task.done()]:
            answer = open_.pop(key).result()
            if not isinstance(answer, ToolResult):
                return _refusal(requests[key]["method"], answer)
            results[key] = answer.result
    return {key: results[key] for key in asked}


async def _ask(caller: Caller, request: Mapping[str, Any]) -> Answer:
    return await caller.ask(request["method"], request.get("params", {}))


def _is_request(request: Any) -> bool:
    if not isinstance(request, dict) or not isinstance(request.get("method"), str):
        return False
    return isinstance(request.get("params", {}), dict)


def _refusal(method: str, answer: Answer) -> Answer:
    # The newer era has no way to hand the server an error for an answer: the call ends here.
    match answer:
        case ProtocolError(error):
            words = f"the client did not answer `{method[:64]}`: {error['message']}"
            return ProtocolError({**error, "message": words})
        case Silence(reason):
            return Silence(f"the client did not answer `{method[:64]}`: {reason}")
        case _:
            return Silence(f"the client did not answer `{method[:64]}`")
