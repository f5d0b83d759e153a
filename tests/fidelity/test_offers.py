"""What servers list, and all other methods, in every cell: resources, prompts, completion, a vendor's own."""

from typing import Any

import pytest

from gateway.inbound.mcp.own_tools import OWN_TOOLS
from tests.fidelity.cells import LISTS, Cell
from tests.fidelity.clients import read
from tests.fidelity.corpus import ALL
from tests.fidelity.written import HINTS, SERVER_INFO, exact, same_params, same_result
from tests.logs import whole_lines

KEYS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def listed(method: str, client: str) -> list[Any]:
    """As the server lists them, under our names; to a legacy client results that are no objects are not announced."""
    key = KEYS[method]
    items = read((LISTS / method.replace("/", "_")).read_bytes())[key]
    for item in items:
        if key in {"tools", "prompts"}:
            item["name"] = f"raw__{item['name']}"
        if client == "legacy" and item.get("outputSchema", {}).get("type") == "array":
            del item["outputSchema"]
    return list(items)


@pytest.mark.parametrize("method", KEYS)
async def test_what_is_listed_arrives_as_it_was_sent(it: Cell, method: str) -> None:
    result = (await it.client.request(method)).result
    items = result[KEYS[method]]
    if method == "tools/list":
        own = [items.pop()["name"] for _ in OWN_TOOLS]
        assert own[::-1] == [*OWN_TOOLS]
    assert exact(items) == exact(listed(method, it.kind.client))
    more = {"resultType", "_meta", *HINTS} if it.kind.client == "modern" else set[str]()
    assert result.keys() - {KEYS[method]} == more  # what a server says of a page is not said of all its pages


READS = {
    "text": b'{"contents":[{"uri":"mem://one","text":"\\u0000 \\ud83d\\ude00","mimeType":null,"vendor":1.0}]}',
    "blob": b'{"contents":[{"blob":"AAECAw==","uri":"mem://other","_meta":{"z":1e22,"a":null}},{"vendor":[]}],"x":null}',
    "empty": b'{"contents":[]}',
    "nothing": b"{}",
    "meta is null": b'{"contents":[],"_meta":null}',
    "hints": b'{"contents":[],"ttlMs":18446744073709551617,"cacheScope":"vendor"}',
    "odd hints": b'{"contents":[],"ttlMs":1.0,"cacheScope":null,"resultType":"complete"}',
}
PROMPTS = {
    "messages": b'{"description":null,"messages":[{"role":"","content":{"type":"text","text":"\\u0085"},"v":-0.0}]}',
    "blob": b'{"messages":[{"role":1,"content":{"type":"resource","resource":{"uri":"a","blob":"AA","size":1.0}}}]}',
    "empty": b'{"messages":[],"_meta":{}}',
}
COMPLETIONS = {
    "values": b'{"completion":{"values":["","\\u0000","\\u00e9"],"total":18446744073709551617,"hasMore":null,"v":1.0}}',
    "empty": b'{"completion":{"values":[]},"vendor":{"a":1e22},"_meta":{"z":0.0,"a":-0.0}}',
}
FETCHES: list[tuple[str, dict[str, bytes]]] = [
    ("resources/read", READS),
    ("prompts/get", PROMPTS),
    ("completion/complete", COMPLETIONS),
    ("vendor/any.method", {**READS, **PROMPTS, **COMPLETIONS}),
]
PARAMS = {
    "resources/read": '"x":{"a":1.0},"uri":"mem://one","y":null',
    "prompts/get": '"z":null,"name":"raw__greet","arguments":{"who":"😀","":null,"n":1.0,"b":18446744073709551617}',
    "completion/complete": '"ref":{"v":1.0,"type":"ref/prompt","name":"raw__greet","title":null},"argument":{'
    '"name":"who","value":"\\u0000"},"context":{"arguments":{"b":1.0,"a":null}},"vendor":[]',
    "vendor/any.method": '"z":[1.0,null],"name":"raw__echo","":{"b":-0.0,"a":18446744073709551617}',
}


@pytest.mark.parametrize(("method", "results"), FETCHES, ids=[method for method, _ in FETCHES])
async def test_all_other_methods_pass_both_ways(it: Cell, method: str, results: dict[str, bytes]) -> None:
    for sent in results.values():
        for plain in (False, True):
            it.answers(sent, plain=plain)
            reply = await it.client.request(method, PARAMS[method], '"vendor/z":1.0,"vendor/a":null')
            same_result(reply.result, read(sent), it.kind, method)
            [heard] = it.heard()
            assert heard["method"] == method
            same_params(heard["params"], _under_its_own_name(method))


def _under_its_own_name(method: str) -> Any:
    text = PARAMS[method] if method.startswith("vendor/") else PARAMS[method].replace("raw__", "")
    return read(f'{{{text},"_meta":{{"vendor/z":1.0,"vendor/a":null}}}}'.encode())


@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "completion/complete", "vendor/any.method"])
async def test_each_value_passes_both_ways(it: Cell, method: str) -> None:
    result = b'{"messages":%b,"_meta":{"v/m":%b}}' % (ALL, ALL)
    it.answers(result)
    members = f'{PARAMS[method]},"all":{ALL.decode()}'
    same_result((await it.client.request(method, members)).result, read(result), it.kind, method)
    sent = members if method.startswith("vendor/") else members.replace("raw__", "")
    same_params(it.heard()[-1]["params"], read(f"{{{sent}}}".encode()))


async def test_who_the_client_is_and_what_it_can_reaches_the_server(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    await it.call()
    told = _introduction(it)
    # Extensions and tasks apart, which not both eras have: everything as it was said.
    assert exact(told["capabilities"]) == exact(
        {
            "elicitation": {"form": {}, "url": {}},
            "sampling": {},
            "roots": {"listChanged": True},
            "vendor": {"x": 1.0},
        }
    )
    assert exact(told["clientInfo"]) == exact({"name": "exact", "version": "1", "vendor": None})


def _introduction(it: Cell) -> Any:
    if it.kind.server == "modern":
        meta = it.heard()[-1]["params"]["_meta"]
        names = {"capabilities": "clientCapabilities", "clientInfo": "clientInfo"}
        return {name: meta[f"io.modelcontextprotocol/{word}"] for name, word in names.items()}
    log = [read(line) for line in whole_lines(it.folder / "received")]
    met = [message["params"] for message in log if message.get("method") == "initialize"]
    return next(params for params in met if params["clientInfo"]["name"] == "exact")


async def test_an_unchanged_server_info_is_the_servers_own(it: Cell) -> None:
    sent = b'{"contents":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","version":1.0}}}'
    it.answers(sent)
    meta = (await it.client.request("resources/read", '"uri":"mem://one"')).result.get("_meta", {})
    shown = {SERVER_INFO: {"name": "raw", "version": 1.0}} if it.kind.client == "modern" else {}
    assert exact(meta) == exact(shown)
