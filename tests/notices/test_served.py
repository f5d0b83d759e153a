"""A served gateway: the link in a message lets its reader in, and `/readyz` says how the channels are."""

import json
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from tests.cli.agents import LIMIT_S, counterfoil, post
from tests.notices.receiver import OK, SECRET, receiving, says
from tests.notices.test_killed_gateways import POLICY, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long]


async def undelivered(session: aiohttp.ClientSession, url: str, count: int) -> dict[str, Any]:
    """What `/readyz` says of notices once so many are not delivered."""
    with anyio.fail_after(LIMIT_S):
        while True:
            async with session.get(f"{url}/readyz") as ready:
                told: dict[str, Any] = (await ready.json())["notices"]
            if told["undelivered"] == count:
                return told
            await anyio.sleep(0.05)


async def test_a_reader_is_let_in_by_the_link_that_they_were_sent(effects_server: list[str], tmp_path: Path) -> None:
    async with receiving(OK) as hook, receiving(says("500 Broken")) as broken:
        ann = {"id": "ann", "tenant": "local", "roles": ["finance"]}
        channels = [
            {"name": "ann", "webhook": hook.url, "secret": SECRET, "reviewer": ann},
            {"name": "broken", "webhook": broken.url, "secret": SECRET},
        ]
        config = {
            "listen": {"port": 0},
            "ledger": "ledger.db",
            "policies": "bank.yaml",
            "run_tokens": {"key": "of this test alone, of 40 characters at least"},
            "notify": channels,
            "mcpServers": {
                "bank": {"command": effects_server[0], "args": [*effects_server[1:], str(tmp_path / "log")]}
            },
        }
        (tmp_path / "bank.yaml").write_text(json.dumps(POLICY))
        (tmp_path / "gateway.yaml").write_text(json.dumps(config))
        async with counterfoil("serve", "--config", str(tmp_path / "gateway.yaml")) as gateway:
            url = await gateway.hear(r"listening at (http://\S+)/mcp")
            await gateway.hear(r"upstream (bank): \d+ tools")
            params = {"name": "bank__transfer", "arguments": {"amount": 1, "to": "bob"}}
            _, answer = await post(f"{url}/mcp", "tools/call", params)
            approval = answer["result"]["structuredContent"]["approval"]["id"]
            await until(lambda: bool(hook.got and broken.got))
            link = hook.got[0].data["link"]
            assert link.startswith(f"{url}/console/enter?ticket=")
            assert broken.got[0].data["link"] == f"{url}/console/approvals/{approval}"
            async with aiohttp.ClientSession() as session:
                async with session.get(link) as page:
                    assert page.status == 200
                    assert "ann" in await page.text()
                told = await undelivered(session, url, 1)
        assert told["channels"]["ann"] == {"trouble": None, "failures": 0, "given_up": 0}
        assert told["channels"]["broken"]["trouble"] == "it answered 500, which is no 2xx"
