"""A run that is opened from another one: it may do no more, over the wire as in the engine."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cli.agents import counterfoil, post, run

pytestmark = pytest.mark.anyio

POLICY = """
workflow: w
grants: [{ authority: [now, convert] }]
tools: { "*": { effect: read } }
transitions:
  - { name: now, tools: [time__get_current_time], authority: [now] }
  - { name: convert, tools: [time__convert_time], authority: [convert] }
"""


@pytest.mark.slow
@pytest.mark.long
async def test_a_child_run_may_do_what_its_parent_passes_on(time_server: list[str], tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    config = tmp_path / "gateway.yaml"
    told = {
        "listen": {"port": 0},
        "ledger": f"sqlite:///{tmp_path / 'ledger.db'}",
        "policies": "policy.yaml",
        "run_tokens": {"key": "k" * 40},
        "mcpServers": {"time": {"command": time_server[0], "args": time_server[1:]}},
    }
    with config.open("w") as file:
        YAML(typ="safe").dump(told, file)
    opening = ("run", "open", "--config", str(config), "--workflow", "w")
    _, said = await run(*opening, "--parent", "run_none", expect=1)
    assert "there is no ledger at" in said
    async with counterfoil("serve", "--config", str(config)) as gateway:
        url = await gateway.hear(r"listening at (http://\S+)/mcp")
        await gateway.hear(r"upstream (time): 2 tools")

        async def outcome(token: str, tool: str, **arguments: Any) -> str:
            body = {"name": tool, "arguments": arguments}
            _, answer = await post(f"{url}/runs/{token.strip()}/mcp", "tools/call", body)
            told = answer["result"].get("structuredContent", {})
            return f"{told['outcome']}: {told['reason']}" if "outcome" in told else "passed"

        converted = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}
        parent, said = await run(*opening)
        name = said.split()[1]
        assert await outcome(parent, "time__convert_time", **converted) == "passed"
        child, _ = await run(*opening, "--parent", name, "--authority", "now", "--authority", "more")
        assert await outcome(child, "time__get_current_time", timezone="UTC") == "passed"
        refused = await outcome(child, "time__convert_time", **converted)
        assert refused.startswith("denied: `local:")
        assert refused.endswith(f"lacks the authority `convert` in a run that `{name}` opened")
        _, said = await run(*opening, "--parent", "run_none", expect=2)
        assert "no run `run_none` is in the ledger; a run is there from its first call on" in said
        _, said = await run(*opening, "--authority", "now", expect=2)
        assert "name the run with `--parent`" in said
        shown, _ = await run("explain", "--run", name, "--ledger", str(told["ledger"]))
        assert "✓ authority" in shown
