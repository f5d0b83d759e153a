import anyio
import pytest
from mcp import Client

from tests.inbound.served import BOUND_S, door

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
async def test_the_sdk_client_lists_and_calls(mode: str, version: str) -> None:
    with anyio.fail_after(BOUND_S):
        async with door() as served, Client(served.url, mode=mode) as client:
            assert client.protocol_version == version
            listed = await client.list_tools()
            result = await client.call_tool("echo", {"n": 2**70})
    assert [tool.name for tool in listed.tools] == ["echo", "numbers", "add"]
    assert result.structured_content == {"n": 2**70}
    assert len(served.gate.deliveries) == 1
