"""Rows: what is said and asked while a request is under way."""

import asyncio
import base64
import itertools
from functools import partial

import anyio

from tests.matrix.agent import BOUND_S, PREFIX, ROOTS, SAMPLE, TASKS, Flight, Json
from tests.matrix.cells import LEGACY, Cell, opened
from tests.servers.matrix.tools import QUESTIONS

_numbers = itertools.count(1)
FORM = {"result": {"action": "accept", "content": {"name": "Ada"}, "x-odd": None}}
VISITED = {"result": {"action": "accept"}}


def marker() -> str:
    return f"marker-{next(_numbers)}"


async def progress(cell: Cell) -> None:
    """With the client's own token, in order, each number of its kind; without a token nothing."""
    for token in ("t-1", 7):
        before = len(cell.agent.heard)
        facts = (await cell.agent.call("steps", meta={"progressToken": token}))["structuredContent"]
        assert facts["token"] in {"int", "str"}
        told = [one["params"] for one in cell.agent.heard[before:] if one["method"] == "notifications/progress"]
        wanted = [
            {"progressToken": token, "progress": done, "total": 3.0, "message": f"at {done}", "x-odd": None}
            for done in (1, 2.5, 3.0)
        ]
        assert repr([sorted(one.items(), key=lambda item: item[0]) for one in told]) == repr(
            [sorted(one.items(), key=lambda item: item[0]) for one in wanted]
        )
    before = len(cell.agent.said("notifications/progress"))
    await cell.agent.call("steps")
    assert len(cell.agent.said("notifications/progress")) == before


async def cancelled_by_the_client(cell: Cell) -> None:
    """The upstream hears of it, and nobody else is harmed."""
    named = marker()
    flight = cell.agent.begin("tools/call", {"name": "up__slow", "arguments": {"marker": named}})
    beside = cell.agent.begin("tools/call", {"name": "up__slow", "arguments": {"marker": marker()}})
    await cell.agent.until_seen("tools/call", named)
    await flight.cancel()
    await cell.agent.until_seen("cancelled", named)
    if not cell.modern and flight.answered.done():  # over HTTP each request must have some response in the end
        assert cell.place.front == "http"
        assert flight.answered.result()["error"]["code"] == -32800
    assert not beside.answered.done()
    await beside.cancel()


async def cancelled_by_the_upstream(cell: Cell) -> None:
    """A question that is taken back: in the newer era it had not left the upstream, or is not missed."""
    if cell.upstream_modern or "elicitation" not in cell.agent.can:
        assert await cell.agent.facts("withdraw") == {}
        return
    before = len(cell.agent.asked)
    if cell.modern:
        cell.agent.think_s = 0.1
        assert await cell.agent.facts("withdraw") == {}
        assert len(cell.agent.asked) == before + 1
        return
    cell.agent.mute = True
    assert await cell.agent.facts("withdraw") == {}
    (question,) = cell.agent.asked[before:]
    assert cell.agent.said("notifications/cancelled")[-1]["requestId"] == question["id"]


async def logging(cell: Cell) -> None:
    """By `logging/setLevel` or by each request's own level, and by nobody but whom it concerns."""
    assert "logging" in cell.agent.opened["result"]["capabilities"]
    if cell.modern:
        assert await _levels(cell) == []
        for level, told in (("warning", ["warning", "error"]), ("debug", ["debug", "info", "warning", "error"])):
            assert await _levels(cell, {f"{PREFIX}logLevel": level}) == told
        assert await _levels(cell) == []
        return
    # Nobody has said anything yet: it hears what the upstream sends on its own, and one of the newer era all.
    unsaid = ["debug", "info"] if cell.upstream_modern else []
    assert await _levels(cell) == [*unsaid, "warning", "error"]
    for level, told in (("error", ["error"]), ("debug", ["debug", "info", "warning", "error"])):
        assert (await cell.agent.request("logging/setLevel", {"level": level}))["result"] == {}
        assert await _levels(cell) == told
    assert (await cell.agent.error("logging/setLevel", {"level": "loud"}))["code"] == -32602


async def _levels(cell: Cell, meta: Json | None = None) -> list[str]:
    before = len(cell.agent.heard)
    await cell.agent.call("say", {"marker": marker()}, meta)
    told = [one["params"] for one in cell.agent.heard[before:] if one["method"] == "notifications/message"]
    assert all(one["logger"] == "matrix" and repr(one["data"]) == repr({"at": 1.0, "odd": None}) for one in told)
    return [one["level"] for one in told]


# --- what the upstream asks -------------------------------------------------------------------------------------------


async def elicitation_by_form(cell: Cell) -> None:
    """To whom it is known; to others it is one typed error."""
    await _asked(cell, "form", FORM, knows="elicitation" in cell.agent.can)


async def elicitation_by_url(cell: Cell) -> None:
    """With an id for a client of 2025-11-25, without for one of 2026-07-28."""
    await _asked(cell, "url", VISITED, knows="url" in cell.agent.can.get("elicitation", {}))


async def sampling(cell: Cell) -> None:
    """As it was asked, as it was answered."""
    await _asked(cell, "sampling", {"result": SAMPLE}, knows=True)


async def roots(cell: Cell) -> None:
    """As they are; and when they change, a server of the older era is told what a client of it says."""
    await _asked(cell, "roots", {"result": ROOTS}, knows=True)
    if not cell.modern and not cell.upstream_modern:
        named = marker()
        await cell.agent.notify("notifications/roots/list_changed", {"_meta": {"marker": named}})
        await cell.agent.until_seen("notifications/roots/list_changed", named)


async def _asked(cell: Cell, kind: str, told: Json, *, knows: bool) -> None:
    agent, (method, params) = cell.agent, QUESTIONS[kind]
    before = len(agent.asked)
    answer = await agent.request("tools/call", {"name": "up__ask", "arguments": {"kind": kind}})
    asked_now = agent.asked[before:]
    if not knows:
        _refused(cell, answer)
        return
    (question,) = asked_now
    assert question["method"] == method
    asked = dict(question.get("params") or {})
    if kind == "url":
        assert ("elicitationId" in asked) is not cell.modern
        if not cell.upstream_modern and not cell.modern:
            assert agent.said("notifications/elicitation/complete") == [{"elicitationId": "e-1"}]
        if cell.modern:
            assert agent.said("notifications/elicitation/complete") == []
        asked.pop("elicitationId", None)
    assert asked == (named(params) if method == "elicitation/create" else params)
    assert answer["result"]["structuredContent"] == {"answer": told}, answer


def named(params: Json) -> Json:
    """A question to the user, as it is passed on: it says which server asks."""
    return {**params, "message": f"[up] {params['message']}"}


def _refused(cell: Cell, answer: Json) -> None:
    """A server of the older era hears the client's refusal; to one of the newer none can be told: the call ends."""
    if cell.upstream_modern:
        assert answer["error"]["code"] == -32601
        assert "the client did not answer" in answer["error"]["message"]
    else:
        error = answer["result"]["structuredContent"]["answer"]["error"]
        assert error["code"] == -32601


async def what_was_not_declared(cell: Cell) -> None:
    """A client that can be asked nothing: one typed error, to the upstream where it can be told, else to the client."""
    if cell.place.version not in {LEGACY, "2026-07-28"}:
        return  # as 2025-11-25; and another process costs more than it tells
    async with opened(cell.place, cell.base, can={}) as other:
        for kind in QUESTIONS:
            request = {"name": "up__ask", "arguments": {"kind": kind}}
            answer = await other.agent.once("tools/call", request)
            if other.modern and other.upstream_modern:
                # Between two of the newer era nothing is added: the client refuses the round, as in direct use.
                assert answer["result"]["resultType"] == "input_required"
            else:
                _refused(other, answer)


async def addresses_to_visit(cell: Cell) -> None:
    """-32042 of 2025-11-25 is passed on to its era, and is a round in the newer."""
    params = {"name": "up__visit", "arguments": {"marker": marker()}}
    knows = "url" in cell.agent.can.get("elicitation", {})
    if not cell.modern and not cell.upstream_modern:
        error = await cell.agent.error("tools/call", params)
        assert error["code"] == -32042
        assert error["data"]["elicitations"] == [{**named(QUESTIONS["url"][1]), "elicitationId": "e-2"}]
    if cell.modern or not cell.upstream_modern or knows:
        result = (await cell.agent.request("tools/call", params))["result"]
        assert result["structuredContent"] == {"answer": VISITED}
    if cell.modern:
        (question,) = cell.agent.asked[-1:]
        assert question == {"method": "elicitation/create", "params": named(QUESTIONS["url"][1])}


# --- rounds -----------------------------------------------------------------------------------------------------------


async def rounds(cell: Cell) -> None:
    """However many, and also those that ask nothing; of calls, prompts and resources."""
    if "elicitation" not in cell.agent.can:
        return  # as `elicitation_by_form` shows
    assert await cell.agent.facts("twice") == {"first": FORM, "second": {"result": ROOTS}}
    assert await cell.agent.facts("later") == ({"rounds": 1} if cell.upstream_modern else {})
    got = await cell.agent.request("prompts/get", {"name": "up__asking"})
    assert got["result"]["messages"][0]["content"]["text"] == "hello Ada"
    read = await cell.agent.request("resources/read", {"uri": "item://asking"})
    assert read["result"]["contents"][0]["text"] == "Ada"


async def sealed_state(cell: Cell) -> None:
    """What a client of the newer era carries tells it nothing, and serves for that request alone."""
    if not cell.modern:
        return  # it carries none
    for method, params in (
        ("tools/call", {"name": "up__twice", "arguments": {"n": 1}}),
        ("prompts/get", {"name": "up__asking", "arguments": {"n": "1"}}),
        ("resources/read", {"uri": "item://asking"}),
    ):
        first = (await cell.agent.once(method, params))["result"]
        state: str = first["requestState"]
        sealed = base64.urlsafe_b64decode(state + "=" * (-len(state) % 4))
        assert b"first" not in sealed
        more = await cell.agent.brought(first)
        other = {**params, **({"uri": "item://other"} if "uri" in params else {"arguments": {"n": "2"}})}
        assert (await cell.agent.error(method, {**other, **more}))["code"] == -32602
        changed = state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")
        assert (await cell.agent.error(method, {**params, **more, "requestState": changed}))["code"] == -32602
        assert (await cell.agent.error(method, {**params, **more, "requestState": 7}))["code"] == -32602
        # And after all that it still serves.
        last = await cell.agent.once(method, {**params, **more})
        if method == "tools/call":
            assert last["result"]["resultType"] == "input_required"
            assert last["result"]["requestState"] != state
            last = await cell.agent.once(method, {**params, **await cell.agent.brought(last["result"])})
        assert last["result"]["resultType"] == "complete", last


# --- tasks ------------------------------------------------------------------------------------------------------------


async def tasks(cell: Cell) -> None:
    """Under ids of ours, between a client and an upstream of the newer era; with all others the call is answered."""
    call: Json = {"name": "up__task", "arguments": {"wants": True, "marker": marker()}}
    if not (cell.modern and cell.upstream_modern):
        answer = await cell.agent.request("tools/call", call)
        assert answer["result"]["structuredContent"] == {"at": "once"}
        if cell.upstream_modern:  # which makes one all the same
            forced = {"name": "up__task", "arguments": {"force": True}}
            assert (await cell.agent.error("tools/call", forced))["code"] == -32602
        return
    made = (await cell.agent.request("tools/call", call))["result"]
    named = made["taskId"]
    assert (made["resultType"], made["status"], made["pollIntervalMs"]) == ("task", "working", 10)
    assert "inner" not in named
    assert len(named) > 64
    about = {"taskId": named}
    wants = (await cell.agent.request("tasks/get", about))["result"]
    assert (wants["taskId"], wants["status"]) == (named, "input_required")
    assert wants["inputRequests"]["name"]["method"] == "elicitation/create"
    brought: Json = {"name": FORM["result"]}
    assert "result" in await cell.agent.request("tasks/update", {**about, "inputResponses": brought})
    ended = (await cell.agent.request("tasks/get", about))["result"]
    assert (ended["taskId"], ended["status"]) == (named, "completed")
    assert ended["result"]["structuredContent"] == {"brought": brought}
    await _cancelled_and_forged(cell)


async def _cancelled_and_forged(cell: Cell) -> None:
    made = (await cell.agent.request("tools/call", {"name": "up__task", "arguments": {"marker": marker()}}))["result"]
    about = {"taskId": made["taskId"]}
    assert "result" in await cell.agent.request("tasks/cancel", about)
    assert (await cell.agent.request("tasks/get", about))["result"]["status"] == "cancelled"
    assert (await cell.agent.error("tasks/get", {"taskId": "inner-1"}))["code"] == -32602
    own = cell.agent.can
    cell.agent.can = {key: value for key, value in own.items() if key != "extensions"}
    try:
        missing = await cell.agent.error("tasks/get", about)
        assert missing["code"] == -32021
        assert missing["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        at_once = await cell.agent.request("tools/call", {"name": "up__task", "arguments": {"marker": marker()}})
        assert at_once["result"]["structuredContent"] == {"at": "once"}
    finally:
        cell.agent.can = own


async def long_calls(cell: Cell) -> None:
    """At our own patience: a task of ours for whom it is known, else a handle for `gateway__result`."""
    if cell.place.version not in {LEGACY, "2026-07-28"}:
        return  # as 2025-11-25; and another process costs more than it tells
    async with opened(cell.place, cell.base, patience_s=0.05) as other:
        call: Json = {"name": "up__nap", "arguments": {"seconds": 0.3}}
        first = (await other.agent.request("tools/call", call))["result"]
        if other.modern:
            assert (first["resultType"], first["status"]) == ("task", "working")
            method, params = "tasks/get", {"taskId": first["taskId"]}
        else:
            told = first["structuredContent"]
            assert (told["outcome"], told["executed"], first["isError"]) == ("in_flight", "unknown", True)
            method, params = "tools/call", {"name": "gateway__result", "arguments": {"attempt": told["attempt"]}}
        with anyio.fail_after(BOUND_S):
            while (result := (await other.agent.request(method, params))["result"]).get("status") == "working" or (
                result.get("structuredContent", {}).get("outcome") == "in_flight"
            ):
                await asyncio.sleep(0.02)
        ended = result["result"] if other.modern else result
        assert ended["structuredContent"] == {"slept": 0.3}


# --- what changes -----------------------------------------------------------------------------------------------------


async def changed_lists(cell: Cell) -> None:
    """Word of it comes when the lists are new already: to a client of the older era unasked, to one of the newer
    where it listens.
    """
    agent, added = cell.agent, f"made_{next(_numbers)}_{cell.place.front}_{cell.place.version}".replace("-", "_")
    stream = await _listening(cell, ALL, ALL) if cell.modern else None
    await agent.facts("change", add=added)
    for kind in ("tools", "prompts", "resources"):
        word = f"notifications/{kind}/list_changed"
        await agent.until(partial(agent.said, word))
        if stream is not None:
            assert agent.said(word)[-1] == {"_meta": {SUBSCRIPTION: stream.number}}
        names = [one.get("uri", one["name"]) for one in (await agent.request(f"{kind}/list"))["result"][kind]]
        assert (f"mem://{added}" if kind == "resources" else f"up__{added}") in names
    if stream is not None:
        await stream.cancel()


async def _listening(cell: Cell, wanted: Json, agreed: Json) -> Flight:
    """A stream that was acknowledged, with what of the filter can be honoured."""
    stream = cell.agent.begin("subscriptions/listen", {"notifications": wanted})
    said = {"notifications": agreed, "_meta": {SUBSCRIPTION: stream.number}}
    await cell.agent.until(lambda: [one for one in cell.agent.said(ACKNOWLEDGED) if one["_meta"] == said["_meta"]])
    assert cell.agent.said(ACKNOWLEDGED)[-1] == said
    return stream


ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
SUBSCRIPTION = f"{PREFIX}subscriptionId"
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


async def watched_resources(cell: Cell) -> None:
    """Heard by whoever subscribed, for as long as he does; what cannot be watched is refused."""
    agent, uri = cell.agent, "mem://one"
    if cell.modern:
        wanted = {"resourceSubscriptions": [uri, "mem://deaf"]}
        stream = await _listening(cell, wanted, {"resourceSubscriptions": [uri]})
    else:
        stream = None
        assert (await agent.request("resources/subscribe", {"uri": uri}))["result"] == {}
        assert (await agent.error("resources/subscribe", {"uri": "mem://deaf"}))["code"] == -32602
    await agent.facts("touch", uri=uri)
    await agent.facts("touch", uri="mem://r1")
    await agent.until(lambda: agent.said(UPDATED))
    mark = {"_meta": {SUBSCRIPTION: stream.number}} if stream is not None else {}
    assert agent.said(UPDATED) == [{"uri": uri, **mark}]
    if stream is not None:
        await stream.cancel()
    else:
        assert (await agent.request("resources/unsubscribe", {"uri": uri}))["result"] == {}
    await agent.facts("touch", uri=uri)
    await agent.facts("echo")
    await asyncio.sleep(0.02)
    assert len(agent.said(UPDATED)) == 1
