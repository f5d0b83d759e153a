"""Rows: what is offered and fetched. Each is one function of a cell, which says what holds in which era."""

from typing import Any

from gateway.inbound.mcp.own_tools import OWN_TOOLS
from tests.matrix.agent import INFO, MODERN, PREFIX, TASKS, Json
from tests.matrix.cells import Cell
from tests.servers.matrix.features import APP, EXTENSIONS
from tests.servers.matrix.tools import TOOLS

RECORD = "counterfoil/record"
OF_OLD = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")
OF_NEW = ("server/discover", "subscriptions/listen", "tasks/get", "tasks/update", "tasks/cancel")
BIG: Json = {"null": None, "one": 1, "float": 1.0, "huge": 2**70, "text": "\U0001f600 e\u0301", "deep": [{"a": []}]}


async def introduction(cell: Cell) -> None:
    """`initialize` or `server/discover`, in our name, with all that the upstream can."""
    result = cell.agent.opened["result"]
    can = result["capabilities"]
    assert can["tools"] == {"listChanged": True}
    assert can["prompts"]["listChanged"] is can["resources"]["listChanged"] is can["resources"]["subscribe"] is True
    assert {"completions", "logging"} <= can.keys()
    assert "tasks" not in can
    assert can["experimental"] == {"com.example/odd": {"on": True}}
    assert "ask me anything" in result["instructions"]
    if cell.modern:
        assert result["supportedVersions"] == [MODERN]
        assert can["extensions"] == {**EXTENSIONS, TASKS: {}}
        assert result["_meta"][f"{PREFIX}serverInfo"]["name"] == "counterfoil"
        assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (10_000, "private", "complete")
    else:
        assert result["protocolVersion"] == cell.place.version
        assert can["extensions"] == EXTENSIONS
        assert result["serverInfo"]["name"] == "counterfoil"
        assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & result.keys()


async def methods_of_the_other_era(cell: Cell) -> None:
    """Each is one typed error; but `ping` is answered to whoever may send it."""
    for method in OF_OLD if cell.modern else OF_NEW:
        assert (await cell.agent.error(method, {"uri": "mem://one", "taskId": "t"}))["code"] == -32601, method
    if not cell.modern:
        assert await cell.agent.request("ping") == {"jsonrpc": "2.0", "id": cell.agent.last, "result": {}}
    assert (await cell.agent.facts("pinged"))["answer"] == (None if cell.upstream_modern else PONG)


async def batches(cell: Cell) -> None:
    """Of 2025-03-26, and of no later version: refused whole, for they would be judged by none."""
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "up__echo", "arguments": {}}}
    await cell.agent.wire.post([call, {**call, "id": 2}])
    await cell.agent.until(lambda: cell.agent.strays)
    error = {"code": -32600, "message": "batches are not accepted"}
    assert cell.agent.strays == [{"jsonrpc": "2.0", "id": None, "error": error}]


PONG = {"jsonrpc": "2.0", "id": "s1", "result": {}}


async def tools(cell: Cell) -> None:
    """Definitions and results are the upstream's, but for our name prefix and our one key in `_meta`."""
    listed = (await cell.agent.request("tools/list"))["result"]["tools"]
    by_name = {tool["name"]: tool for tool in listed}
    assert [tool["name"] for tool in listed[: len(TOOLS)]] == [f"up__{name}" for name in TOOLS]
    assert [tool["name"] for tool in listed[-len(OWN_TOOLS) :]] == [*OWN_TOOLS]
    assert by_name["up__echo"] == {**TOOLS["echo"], "name": "up__echo"}
    assert ("outputSchema" in by_name["up__array"]) is cell.modern

    result = await cell.agent.call("echo", BIG, {"com.example/odd": [None, 1.0], "traceparent": TRACE})
    assert await _params(cell, {"task": {"ttl": 1}, "x-odd": True}) == ["_meta", "arguments", "name"]
    facts = result["structuredContent"]
    assert repr(facts["arguments"]) == repr(BIG)
    assert facts["meta"]["traceparent"] == TRACE
    assert facts["meta"]["com.example/odd"] == [None, 1.0]
    assert not [key for key in facts["meta"] if key.startswith("counterfoil")]
    assert repr(result["x-odd"]) == repr({"null": None, "float": 1.0, "big": 2**70})
    assert result["_meta"].pop("com.example/odd") == [None, 2**65]
    assert result["_meta"].pop(RECORD)["attempt"]
    assert (result.get("resultType"), list(result["_meta"])) == (
        ("complete", [f"{PREFIX}serverInfo"]) if cell.modern else (None, [])
    )


async def _params(cell: Cell, more: Json) -> Any:
    """Which params arrive of a call with more than are judged."""
    call = {"name": "up__echo", "arguments": {}, **more}
    answer = await cell.agent.request("tools/call", call, {"progressToken": "t"})
    return answer["result"]["structuredContent"]["params"]


TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def what_goes_wrong(cell: Cell) -> None:
    """Errors of the upstream's and failures of its tools arrive as they are."""
    error = await cell.agent.error("tools/call", {"name": "up__fail", "arguments": {}})
    assert error == {"code": -32050, "message": "it cannot be done", "data": {"why": {"because": [1.0, None]}}}
    failed = await cell.agent.call("flaw")
    assert failed["isError"] is True
    assert failed["content"] == [{"type": "text", "text": "no"}, {"type": "x-odd", "n": 1.0}]
    unknown = await cell.agent.request("tools/call", {"name": "up__nobody", "arguments": {}})
    assert unknown["result"]["structuredContent"]["outcome"] == "denied", unknown
    array = await cell.agent.call("array")
    if cell.modern:
        assert (array["structuredContent"], array["content"]) == ([1, 2.0, None], [])
    else:
        assert "structuredContent" not in array
        assert array["content"] == [{"type": "text", "text": "[1,2.0,null]"}]


async def who_asks(cell: Cell) -> None:
    """The upstream sees the client's own name and what it can; of the tasks, only where both are of the newer era."""
    facts = await cell.agent.facts("echo")
    assert facts["client"] == INFO
    wanted = {key: value for key, value in cell.agent.can.items() if key != "tasks"}  # those of 2025-11-25
    if cell.modern and not cell.upstream_modern:
        wanted["extensions"] = {key: value for key, value in wanted["extensions"].items() if key != TASKS}
    assert facts["can"] == wanted


async def pagination(cell: Cell) -> None:
    """The upstream gives four on a page; we give one page."""
    for method, kind, least in LISTS:
        result = (await cell.agent.request(method))["result"]
        assert len(result[kind]) >= least, method
        assert "nextCursor" not in result
        assert (await cell.agent.error(method, {"cursor": "4"}))["code"] == -32602


LISTS = (
    ("tools/list", "tools", len(TOOLS) + 1),
    ("prompts/list", "prompts", 7),
    ("resources/list", "resources", 8),
    ("resources/templates/list", "resourceTemplates", 6),
)


async def resources(cell: Cell) -> None:
    """Listed, of a template, and unlisted; what nobody has is an error in the words of the era."""
    listed = (await cell.agent.request("resources/list"))["result"]["resources"]
    assert {"uri": "mem://one", "name": "mem://one", "x-odd": None} in listed
    templates = (await cell.agent.request("resources/templates/list"))["result"]["resourceTemplates"]
    assert {"uriTemplate": "item://{name}", "name": "item"} in templates
    for uri in ("mem://one", "item://any", "mem://unlisted"):
        result = await read(cell, uri)
        assert result["contents"] == [{"uri": uri, "text": f"text of {uri}", "x-odd": 1.0}]
    error = await cell.agent.error("resources/read", {"uri": "none://such"})
    assert error["data"] == {"uri": "none://such"}
    if cell.modern:
        assert error["code"] == -32602
    else:  # as the upstream says it
        assert error["code"] == (-32602 if cell.upstream_modern else -32002)


async def read(cell: Cell, uri: str) -> Json:
    result: Json = (await cell.agent.request("resources/read", {"uri": uri}))["result"]
    return result


async def prompts(cell: Cell) -> None:
    """Listed under our names, got under the upstream's."""
    listed = (await cell.agent.request("prompts/list"))["result"]["prompts"]
    assert {"name": "up__greet", "arguments": [{"name": "who"}]} in listed
    got = (await cell.agent.request("prompts/get", {"name": "up__greet", "arguments": {"who": "Ada"}}))["result"]
    assert got["messages"] == [{"role": "user", "content": {"type": "text", "text": "hello Ada"}}]
    assert got["x-odd"] == [None]
    assert (await cell.agent.error("prompts/get", {"name": "up__nobody"}))["code"] == -32602


async def completion(cell: Cell) -> None:
    """About a prompt and about a template."""
    for about, named in (
        ({"type": "ref/prompt", "name": "up__greet"}, "greet"),
        ({"type": "ref/resource", "uri": "item://{name}"}, "item://{name}"),
    ):
        params: Json = {"ref": about, "argument": {"name": "who", "value": "A"}, "context": {"arguments": {}}}
        result = (await cell.agent.request("completion/complete", params))["result"]
        assert result["completion"] == {"values": [f"{named}:A"], "total": 1, "hasMore": False}
        assert result["x-odd"] == {}


async def apps(cell: Cell) -> None:
    """A tool's `ui://` page is named in its definition as it was, and can be read."""
    listed = (await cell.agent.request("tools/list"))["result"]["tools"]
    (tool,) = (tool for tool in listed if tool["name"] == "up__echo")
    assert tool["_meta"] == {"ui": {"resourceUri": APP}}
    (page,) = (await read(cell, APP))["contents"]
    assert (page["text"], page["mimeType"]) == ("<p>hello</p>", "text/html;profile=mcp-app")
    assert page["_meta"] == {"ui": {"csp": {"connectDomains": ["https://a.example"]}}}
    assert f"{PREFIX}ui" in cell.agent.opened["result"]["capabilities"]["extensions"]


async def caching(cell: Cell) -> None:
    """For a client of the newer era each list has the least time of its pages; for one of the older none has hints."""
    hints = ("ttlMs", "cacheScope")
    for method, *_ in LISTS:
        result = (await cell.agent.request(method))["result"]
        told = tuple(result.get(key) for key in hints)
        assert told == (
            (None, None) if not cell.modern else (7000, "public") if cell.upstream_modern else (10_000, "private")
        )
    of_read = await read(cell, "item://hints"), await read(cell, "item://any")
    if cell.modern:
        first = (1234, "public") if cell.upstream_modern else (0, "private")
        assert [tuple(one[key] for key in hints) for one in of_read] == [first, (0, "private")]
    elif not cell.upstream_modern:
        assert not any(key in one for key in hints for one in of_read)


async def extension_methods(cell: Cell) -> None:
    """A method that we do not know is its one upstream's."""
    params: dict[str, Any] = {"where": "here", "odd": [None, 1.0]}
    result = (await cell.agent.request("com.example/weather", params))["result"]
    assert result["asked"] == params
    assert repr((result["degrees"], result["steps"])) == repr((21.0, 2**70))
    assert (await cell.agent.error("com.example/nothing"))["code"] == -32601
