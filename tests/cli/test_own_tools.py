"""The gateway's own tools through a real front, before a real server, in both eras."""

import json
from pathlib import Path

import pytest

from tests.cli.agents import counterfoil, ledger_of, run

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("modern", [True, pytest.param(False, marks=[pytest.mark.slow, pytest.mark.long])])
async def test_an_agent_plans_is_contradicted_notes_why_and_sees_where_it_stands(
    filesystem_server: list[str], tmp_path: Path, *, modern: bool
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.txt").write_text("beta")
    read = {"path": str(files / "a.txt")}
    async with counterfoil("wrap", *ledger_of(tmp_path), "--", *filesystem_server, str(files)) as window:
        if not modern:
            window.modern = False
            hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            await window.request("initialize", hello)
        first = (await window.call("gateway__status", {}))["structuredContent"]
        assert (first["state"], first["phase"]["name"], "run" in first) == ("unopened", "open", False)
        assert "read_text_file" in [name for one in first["eligible"] for name in one["tools"]]
        assert json.loads((await run("runs", "--json", *ledger_of(tmp_path)))[0]) == []
        assumed = {"says": "it says alpha", "tool": "read_text_file", "field": "structuredContent.content"}
        plan = await window.call("gateway__plan", {"objective": "read", "assumptions": [assumed | {"equals": "alpha"}]})
        assert (plan["structuredContent"]["revision"], plan.get("isError")) == (1, None)
        wrong = (await window.call("read_text_file", read))["_meta"]["counterfoil/record"]["plan_invalidated"]
        seen = (await window.call("gateway__status", {"since": plan["structuredContent"]["event"]}))[
            "structuredContent"
        ]
        assert [one["event"] for one in seen["since"]["events"]] == [wrong[0]["event"]]
        assert seen["plan"]["invalidated"][0]["assumed"] == "it says alpha"
        note = {"says": "somebody changed it", "sources": [wrong[0]["event"]], "confidence": 0.5}
        await window.call("gateway__note", note)
        last = (await window.call("gateway__status", {}))["structuredContent"]
        assert [one["says"] for one in last["hypotheses"]] == ["somebody changed it"]
        refused = (await window.call("gateway__note", note | {"sources": ["run_0#1"]}))["structuredContent"]
        assert refused["outcome"] == "invalid_arguments"
    told = json.loads((await run("packet", last["run"], "--json", *ledger_of(tmp_path)))[0])
    assert [one["says"] for one in told["hypotheses"]] == ["somebody changed it"]
    shown, _ = await run("show", "last", *ledger_of(tmp_path), COLUMNS="160")
    assert all(word in shown for word in ("plan", "contradicted", "a hypothesis (0.5) until"))
