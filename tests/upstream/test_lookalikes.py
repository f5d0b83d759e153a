"""Tools that look like one another, from a real server on stdio in either era."""

import json
import sys
from pathlib import Path

import anyio
import pytest

from gateway.model.party import Party
from gateway.model.tool import NotSent, ToolResult
from gateway.outbound.upstream.spec import StdioSpec
from gateway.ports import Dispatch
from tests.upstream.faults import Faults, call, opened, until

SERVER = Path(__file__).parent.parent / "servers" / "raw_server.py"
PARTY = Party("test")
LISTED = (
    "first",
    "delete_file",
    "delete_fil\u0435",
    "\uff44elete_file",
    "delete_file\u200b",
    "Iist",
    "list",
    "\u00e9t\u00e9",
)
ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


def listing(*names: str) -> str:
    tools = [{"name": name, "inputSchema": {"type": "object"}, "x": 1.0} for name in names]
    return json.dumps({"resultType": "complete", "ttlMs": 0, "cacheScope": "public", "tools": tools})


def server(folder: Path, era: str, *names: str) -> StdioSpec:
    folder.mkdir(exist_ok=True)
    (folder / "tools_list").write_text(listing(*names))
    (folder / "script").write_text('say {"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"complete","content":[]}}\n')
    return StdioSpec(folder.name, sys.executable, (str(SERVER), str(folder), f"--{era}"))


@ERAS
async def test_what_looks_alike_is_neither_listed_nor_called_and_all_else_is_unchanged(
    era: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = server(tmp_path / "u", era, *LISTED)
    async with opened(spec) as catalogue:
        shown = await catalogue.listed("tools", PARTY)
        assert json.dumps(shown.items) == json.dumps(
            [{"name": name, "inputSchema": {"type": "object"}, "x": 1.0} for name in ("first", "\u00e9t\u00e9")]
        )
        assert isinstance(await call(catalogue, "first"), ToolResult)
        for name in LISTED[1:-1]:
            tool = await catalogue.tool(name, PARTY)
            assert tool is not None
            assert (tool.name, tool.withheld, tool.healthy) == (name, True, False)
            assert await call(catalogue, name) == NotSent(f"`{name}` is withheld: {tool.trouble}")
        assert await catalogue.tool("Delete_file", PARTY) is None
        tools, _ = await catalogue.offered(PARTY)
        assert sorted((one.name, one.withheld) for one in tools) == sorted(
            (name, name in LISTED[1:-1]) for name in LISTED
        )
        troubles = catalogue.health()["u"]["troubles"]
    assert b"delete" not in (tmp_path / "u" / "received").read_bytes()
    of_three = {
        "delete_file": r"its name looks like `delete_fil\u0435` of `u` and `\uff44elete_file` of `u`",
        r"delete_fil\u0435": r"its name looks like `delete_file` of `u` and `\uff44elete_file` of `u`",
        r"\uff44elete_file": r"its name looks like `delete_file` of `u` and `delete_fil\u0435` of `u`",
        "Iist": "its name looks like `list` of `u`",
        "list": "its name looks like `Iist` of `u`",
        r"delete_file\u200b": "its name has characters that cannot be seen",
    }
    said = {f"`{name}` is not offered: {why}" for name, why in of_three.items()}
    assert set(troubles) == said
    assert sorted(caplog.messages) == sorted(f"u: {one}" for one in said)


@ERAS
async def test_what_is_vouched_for_can_be_called_and_its_twin_cannot(era: str, tmp_path: Path) -> None:
    spec = server(tmp_path / "u", era, *LISTED)
    async with opened(spec, vouched=frozenset({"delete_file"})) as catalogue:
        assert [tool["name"] for tool in catalogue.tools()] == ["first", "delete_file", "\u00e9t\u00e9"]
        assert isinstance(await call(catalogue, "delete_file"), ToolResult)
        twin = await catalogue.tool("delete_fil\u0435")
        assert twin is not None
        assert twin.withheld


@ERAS
async def test_a_twin_that_comes_later_takes_the_tool_away_and_is_told_once(
    era: str, faults: Faults, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(faults.stdio(era=era)) as catalogue:
        echo = await catalogue.tool("echo")
        assert echo is not None
        assert not echo.withheld
        for _ in range(3):
            await call(catalogue, "change", {"add": "Echo"})
            while not (await until(catalogue, "echo", healthy=False)).withheld:
                await anyio.sleep(0.005)
            await catalogue.listed("tools", PARTY)
        assert isinstance(await catalogue.call(Dispatch(echo, {}, 5.0)), ToolResult)  # it was judged before
    assert caplog.messages.count("f: `echo` is not offered: its name looks like `Echo` of `f`") == 1


async def test_servers_that_look_alike_have_no_tools_of_one_name(tmp_path: Path) -> None:
    specs = [server(tmp_path / name, "modern", "get", *more) for name, more in (("db1", ["x"]), ("dbl", ["y"]))]
    async with opened(*specs, prefix=True) as catalogue:
        assert [tool["name"] for tool in catalogue.tools()] == ["db1__x", "dbl__y"]
        tool = await catalogue.tool("db1__get")
        assert tool is not None
        assert tool.trouble == "its name looks like `get` of `dbl`"
