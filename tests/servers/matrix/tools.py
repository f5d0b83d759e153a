"""The tools, each for one feature; what came of it stands in `structuredContent`."""

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.servers.matrix.talk import PREFIX, TASKS, Json, Refusal, Request, Wanted

LEVELS = ("debug", "info", "warning", "error")
SLOW_S = 20.0
"""How long a call takes that nobody cancels."""
SCHEMA: Json = {"type": "object", "properties": {"name": {"type": "string"}}}
QUESTIONS: Mapping[str, tuple[str, Json]] = {
    "form": ("elicitation/create", {"mode": "form", "message": "your name?", "requestedSchema": SCHEMA}),
    "url": ("elicitation/create", {"mode": "url", "message": "sign in", "url": "https://a.example/in"}),
    "sampling": ("sampling/createMessage", {"messages": [], "maxTokens": 7, "x-odd": {"deep": [None]}}),
    "roots": ("roots/list", {}),
}
_numbers = itertools.count(1)


def said(**facts: Any) -> Json:
    return {"content": [{"type": "text", "text": "ok"}], "structuredContent": facts}


async def echo(request: Request) -> Json:
    """What arrives, as it arrives."""
    client = request.meta.get(f"{PREFIX}clientInfo") if request.modern else request.peer.introduced.get("clientInfo")
    facts = {"arguments": request.args, "meta": request.meta, "can": request.capabilities, "client": client}
    told = said(**facts, params=sorted(request.params), level=request.level)
    return {**told, "x-odd": {"null": None, "float": 1.0, "big": 2**70}, "_meta": {"com.example/odd": [None, 2**65]}}


async def fail(_: Request) -> Json:
    raise Refusal(-32050, "it cannot be done", why={"because": [1.0, None]})


async def flaw(_: Request) -> Json:
    return {"content": [{"type": "text", "text": "no"}, {"type": "x-odd", "n": 1.0}], "isError": True}


async def array(_: Request) -> Json:
    return {"content": [], "structuredContent": [1, 2.0, None]}


async def steps(request: Request) -> Json:
    """Three words of progress, if they were asked for."""
    token = request.meta.get("progressToken")
    for done in (1, 2.5, 3.0) if token is not None else ():
        told = {"progressToken": token, "progress": done, "total": 3.0, "message": f"at {done}", "x-odd": None}
        request.tell("notifications/progress", told)
    return said(token=type(token).__name__)


async def say(request: Request) -> Json:
    """A log line of each level that is wanted."""
    least = request.level
    wanted = LEVELS if least is None else () if least == "none" else LEVELS[LEVELS.index(least) :]
    for level in wanted:
        request.tell("notifications/message", {"level": level, "logger": "matrix", "data": {"at": 1.0, "odd": None}})
    return said(level=least)


async def ask(request: Request) -> Json:
    """One question."""
    method, params = QUESTIONS[request.args["kind"]]
    more = {"elicitationId": "e-1"} if request.args["kind"] == "url" and not request.modern else {}
    answer = await request.want("it", method, {**params, **more})
    if more:
        request.tell("notifications/elicitation/complete", {"elicitationId": "e-1"})
    return said(answer=answer)


async def twice(request: Request) -> Json:
    """Two questions, one after the other."""
    first = await request.want("first", *QUESTIONS["form"])
    second = await request.want("second", *QUESTIONS["roots"])
    return said(first=first, second=second)


async def later(request: Request) -> Json:
    """In the newer era a round that asks nothing: the state alone comes back."""
    known = json.loads(request.params.get("requestState") or "{}")
    if request.modern and "rounds" not in known:
        raise Wanted({}, {"rounds": 1})
    return said(**known)


async def withdraw(request: Request) -> Json:
    """In the older era a question that is taken back."""
    if not request.modern:
        await request.peer.ask(request.say, *QUESTIONS["form"], give_up=True)
    return said()


async def pinged(request: Request) -> Json:
    """In the older era, whether the other end is there."""
    return said(answer=None if request.modern else await request.peer.ask(request.say, "ping", {}))


async def visit(request: Request) -> Json:
    """An address must be visited before."""
    if request.modern:
        return said(answer=await request.want("it", *QUESTIONS["url"]))
    if request.args["marker"] not in request.world.visited:
        request.world.visited.add(request.args["marker"])
        one = {**QUESTIONS["url"][1], "elicitationId": "e-2"}
        raise Refusal(-32042, "an address must be visited", elicitations=[one])
    return said(answer={"result": {"action": "accept"}})


async def slow(request: Request) -> Json:
    """Takes its time, and notes if it is cancelled."""
    try:
        await asyncio.sleep(SLOW_S)
    except asyncio.CancelledError:
        request.world.saw("cancelled", request.args)
        raise
    return said()


async def nap(request: Request) -> Json:
    """As long as it was told."""
    await asyncio.sleep(request.args["seconds"])
    return said(slept=request.args["seconds"])


async def seen(request: Request) -> Json:
    """What this process was sent of that method."""
    return said(seen=[one for one in request.world.seen if one["method"] == request.args["of"]])


async def change(request: Request) -> Json:
    """Another tool, prompt and resource, and word of it."""
    request.world.extra.append(request.args["add"])
    for kind in ("tools", "prompts", "resources"):
        _broadcast(request, f"notifications/{kind}/list_changed", f"{kind}ListChanged", {})
    return said()


async def touch(request: Request) -> Json:
    """The resource is another one."""
    _broadcast(request, "notifications/resources/updated", "resourceSubscriptions", {"uri": request.args["uri"]})
    return said()


def _broadcast(request: Request, method: str, word: str, params: Json) -> None:
    if not request.modern:
        if params.get("uri") is None or params["uri"] in request.peer.watched:
            request.peer.general({"jsonrpc": "2.0", "method": method, "params": params})
        return
    for listen in request.world.listens:
        wanted = listen.params["notifications"].get(word)
        if wanted is True or (wanted and params.get("uri") in wanted):
            listen.tell(method, {**params, "_meta": {f"{PREFIX}subscriptionId": listen.id}})


async def task(request: Request) -> Json:
    """In the newer era a task, where the client takes one or `force` is said."""
    able = TASKS in (request.capabilities.get("extensions") or {})
    if not request.modern or not (able or request.args.get("force")):
        return said(at="once")
    name, now = f"inner-{next(_numbers)}", "2026-11-29T00:00:00Z"
    told = {"taskId": name, "status": "working", "createdAt": now, "lastUpdatedAt": now, "ttlMs": 60_000}
    made = {**told, "pollIntervalMs": 10}
    request.world.tasks[name] = {**made, "wants": request.args.get("wants"), "structured": {"n": 2**66}}
    return {"resultType": "task", **made}


ACTS: Mapping[str, Callable[[Request], Awaitable[Json]]] = {
    act.__name__: act
    for act in (
        *(echo, fail, flaw, array, steps, say, ask, twice, later, withdraw, pinged, visit, slow, nap),
        *(seen, change, touch, task),
    )
}
_MORE: Mapping[str, Json] = {
    "echo": {"_meta": {"ui": {"resourceUri": "ui://panel/main.html"}}, "x-odd": {"null": None, "float": 1.0}},
    "array": {"outputSchema": {"type": "array"}},
}
TOOLS: Mapping[str, Json] = {
    name: {
        "name": name,
        "description": act.__doc__,
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
        **_MORE.get(name, {}),
    }
    for name, act in ACTS.items()
}
