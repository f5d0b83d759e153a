import logging
from typing import Any

import anyio
import pytest

from gateway.model.tool import ToolResult
from gateway.outbound.upstream.link import Hooks
from gateway.outbound.upstream.negotiate import Client
from gateway.outbound.upstream.spec import Patience, StdioSpec
from gateway.outbound.upstream.stdio import StdioConnection
from gateway.outbound.upstream.supervisor import Upstream
from tests.upstream.faults import QUICK, Faults, call, opened, until


async def test_a_burst_of_changes_is_one_refresh_and_one_word_to_us(faults: Faults) -> None:
    changes: list[int] = []
    async with opened(
        faults.stdio(),
        on_tools_changed=lambda: changes.append(len(changes)),
    ) as catalogue:
        known = (await until(catalogue, "echo", healthy=True)).definition
        await call(catalogue, "change", {"add": "more", "times": 1000})
        while await catalogue.tool("more") is None:
            await anyio.sleep(0.005)
        assert catalogue.tools()[-1]["name"] == "more"
        assert (await until(catalogue, "echo", healthy=True)).definition is known
    assert changes == [0]
    pages = len(catalogue.tools()) // 10 + 1
    assert faults.entries("asked").count("tools/list") == 2 * pages


async def test_a_change_that_the_upstream_says_is_passed_on_though_nothing_that_we_take_is_another(
    faults: Faults,
) -> None:
    changes: list[int] = []
    async with opened(faults.stdio(), on_tools_changed=lambda: changes.append(1)) as catalogue:
        before = faults.entries("asked").count("tools/list")
        await call(catalogue, "change", {"add": ""})  # without a name it is not taken
        while faults.entries("asked").count("tools/list") < 2 * before:
            await anyio.sleep(0.005)
        await call(catalogue, "echo")
        while not catalogue.health()["f"]["troubles"]:
            await anyio.sleep(0.005)
        assert catalogue.health()["f"]["troubles"] == ["1 entries of its list have no name"]
        while not changes:
            await anyio.sleep(0.005)
        await anyio.sleep(0.1)
    assert changes == [1]


async def test_one_that_is_not_one_point_zero_is_another_definition(faults: Faults) -> None:
    changes: list[int] = []
    async with opened(faults.stdio(), on_tools_changed=lambda: changes.append(1)) as catalogue:
        await call(catalogue, "change", {"add": "", "x": 1})
        while not changes:
            await anyio.sleep(0.005)
        tool = await until(catalogue, "echo", healthy=True)
        assert repr(tool.definition["x"]) == "1"


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_list_of_which_nothing_is_promised_is_read_again_when_it_is_old(faults: Faults, era: str) -> None:
    patience = Patience(least_ttl_s=0.1, ttl_s=0.1)
    async with opened(faults.stdio(era=era), patience=patience) as catalogue:
        await call(catalogue, "change", {"add": "more", "times": 0})
        while await catalogue.tool("more") is None:
            await anyio.sleep(0.01)


async def test_when_the_list_cannot_be_read_again_the_old_one_stands(
    faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(faults.stdio()) as catalogue:
        before = catalogue.tools()
        await call(catalogue, "change", {"add": "more", "broken": True})
        while not caplog.messages:
            await anyio.sleep(0.005)
        assert catalogue.tools() == before
        assert isinstance(await call(catalogue, "echo"), ToolResult)
    assert caplog.messages[0] == "f: its tools are those of before: tools/list failed: -32603 fetch failed"


async def test_pauses_grow_until_a_connection_lasts(faults: Faults) -> None:
    patience = Patience(first_pause_s=0.05, last_pause_s=0.4)
    begun = anyio.current_time()
    async with opened(
        StdioSpec("x", "/nowhere/to/be/found"), faults.stdio(), prefix=True, patience=patience
    ) as catalogue:
        while catalogue.health()["x"]["counts"].get("restarts", 0) < 5:
            await anyio.sleep(0.01)
        assert anyio.current_time() - begun > 0.05 + 0.1 + 0.2 + 0.4 + 0.4


async def test_an_upstream_without_tools_is_asked_for_none(faults: Faults) -> None:
    async with opened(faults.stdio(start="toolless")) as catalogue:
        assert catalogue.tools() == []
        assert await catalogue.tool("echo") is None
        assert catalogue.health()["f"]["state"] == "healthy"
    assert "tools/list" not in faults.entries("asked")


async def test_an_upstream_whose_list_fails_is_not_up(faults: Faults) -> None:
    async with opened(faults.stdio(start="listless")) as catalogue:
        assert catalogue.health()["f"]["reason"] == "tools/list failed: -32603 fetch failed"


async def test_a_failure_of_the_supervisor_itself_is_said_and_ends_in_unhealth(
    faults: Faults, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_: StdioConnection) -> Any:
        raise KeyError("a bug")

    monkeypatch.setattr(StdioConnection, "connect", broken)
    with anyio.fail_after(10):
        client = Client("c", "1")
        upstream = Upstream(faults.stdio(), client, QUICK, Hooks(lambda *_: None, lambda *_: None))
        await upstream.settled()
        assert (upstream.health.state, upstream.health.reason) == ("unhealthy", "its supervisor failed")
        await upstream.close()
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
