"""Resources that no list names: each upstream that may have them is asked in turn."""

import sys
from pathlib import Path

import anyio
import pytest

from gateway.model.offer import Route
from gateway.model.tool import Answer, NotSent, ToolResult
from gateway.outbound.upstream.spec import Patience, StdioSpec
from tests.upstream.callers import FakeCaller
from tests.upstream.faults import opened

SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    uri = asked.get("params", {}).get("uri")
    if uri == f"{sys.argv[1]}:exit":
        break
    answer = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "resources": [], "resourceTemplates": []}
    if asked["method"] == "server/discover":
        answer |= {"supportedVersions": ["2026-07-28"], "capabilities": {"resources": {}}}
    said = {"result": answer | {"contents": []}}
    if uri is not None and not uri.startswith(sys.argv[1]):
        said = {"error": {"code": -32602, "message": "Resource not found"}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
PATIENT = Patience(first_pause_s=60, last_pause_s=60)


@pytest.fixture
def specs(tmp_path: Path) -> list[StdioSpec]:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    return [StdioSpec(name, sys.executable, (str(script), name)) for name in ("one", "two")]


async def test_one_that_is_down_does_not_hide_what_another_has(specs: list[StdioSpec]) -> None:
    async with opened(*specs, prefix=True, patience=PATIENT) as catalogue:
        caller = FakeCaller(modern=True)

        async def read(uri: str) -> tuple[str, Answer]:
            params = {"uri": uri}
            route = catalogue.route("resources/read", params, caller.party)
            assert route == Route(("one", "two"), params, uri)
            return await catalogue.request(route, "resources/read", {}, caller)

        name, answer = await read("two:x")
        assert (name, type(answer)) == ("two", ToolResult)
        assert (await read("nobody:x"))[0] == "two"
        await read("one:exit")
        while catalogue.health()["one"]["state"] == "healthy":
            await anyio.sleep(0.01)
        name, answer = await read("two:x")
        assert (name, type(answer)) == ("two", ToolResult)
        name, answer = await read("one:x")
        assert (name, type(answer)) == ("one", NotSent)  # it may have it; `two` has not
