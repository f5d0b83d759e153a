"""`counterfoil serve` as a process, between a certified provider, servers that want tokens, and one that it starts.

No token and no secret is found afterwards in anything that was written, said, shown, told or passed on.
"""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from tests.agents.real_provider import GATEWAYS, RealProvider, provider
from tests.agents.recorder import recorder
from tests.agents.test_for_real import POLICY, oauth
from tests.cli.agents import Process, counterfoil
from tests.cli.test_reviewers import pressed
from tests.credentials.authority import CLIENT, SECRET, both, response
from tests.inbound.served import ENVELOPE, MODERN
from tests.otlp import receiver
from tests.servers import counting_server
from tests.upstream import http1_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ACCEPT = {"accept": "application/json, text/event-stream"}


def config(folder: Path, at: RealProvider, tokens: str, crm: str, own: str) -> Path:
    environment = folder / "environment"
    server = shlex.join([sys.executable, str(counting_server.__file__), str(folder / "counts")])
    starts = f"env > {shlex.quote(str(environment))}; exec {server}"
    exchanged = {"token_url": tokens, "client_id": CLIENT, "client_secret": "${CRM_SECRET}"}
    ourselves = {"token_url": f"{at.issuer}/token", "client_id": "robot", "client_secret": "${file:robot-secret}"}
    text = {
        "listen": {"port": 0},
        "ledger": "ledger.db",
        "policies": "policies",
        "run_tokens": {"key": "0123456789abcdef0123456789abcdef"},
        "agents": oauth(at, claims={"principal": "client_id"}),
        "upstreams": {
            "crm": {"url": crm, "auth": {"type": "token_exchange", "audience": "crm", **exchanged}},
            "own": {"url": own, "auth": {"type": "client_credentials", "resource": own, "scope": "mcp", **ourselves}},
            "child": {"command": "sh", "args": ["-c", starts]},
        },
    }
    (folder / "policies").mkdir()
    (folder / "policies" / "open.yaml").write_text(json.dumps(POLICY))
    (folder / "robot-secret").write_text("robot-secret\n")
    (folder / "gateway.yaml").write_text(json.dumps(text))
    return folder / "gateway.yaml"


async def ask(url: str, body: Mapping[str, Any], token: str, **headers: str) -> httpx2.Response:
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
        shown = {**ACCEPT, "authorization": f"Bearer {token}", **headers}
        return await http.post(url, json={"jsonrpc": "2.0", **body}, headers=shown)


async def call(url: str, token: str, tool: str) -> Any:
    """The result of a call of the newer era."""
    params = {"name": tool, "arguments": {}, "_meta": ENVELOPE}
    named = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
    answer = await ask(url, {"id": 1, "method": "tools/call", "params": params}, token, **named)
    return answer.json()["result"]


async def call_as_of_old(url: str, token: str, tool: str) -> str:
    """The same in a session."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "old", "version": "1"}}
    opened = await ask(url, {"id": 1, "method": "initialize", "params": params}, token)
    assert "cannot be used" not in opened.text
    session = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
    await ask(url, {"method": "notifications/initialized"}, token, **session)
    answer = await ask(
        url, {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": {}}}, token, **session
    )
    return answer.text


async def shown(gateway: Process, url: str) -> str:
    """All that reviewers and probes are shown."""
    pages = []
    async with httpx2.AsyncClient(trust_env=False, timeout=30) as browser:
        assert await pressed(browser, await gateway.hear(r"reviewers: (\S+), once, for 15 minutes")) == 303
        for path in ("/readyz", "/console", "/console/runs", "/console/registry", "/console/health"):
            page = await browser.get(url.removesuffix("/mcp") + path)
            assert page.status_code == 200, path
            pages.append(page.text)
        runs = {part.partition('"')[0] for part in pages[2].split('href="/console/runs/')[1:]}
        looked_at = [await browser.get(f"{url.removesuffix('/mcp')}/console/runs/{run}") for run in runs]
        pages += [page.text for page in looked_at]
    assert len(pages) > 6, pages[2]
    return "\n".join(pages)


async def test_tokens_and_secrets_go_to_whom_they_are_for_and_to_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http1_server, "TIME_LIMIT_S", 120.0)
    at = provider(tmp_path)
    with recorder() as (own, heard):
        async with at.running("first"), receiver() as telemetry, both() as (authority, crm):
            file = config(tmp_path, at, authority.url, crm.served.url, own)
            told = {"CRM_SECRET": SECRET, "GATEWAY_SECRET": GATEWAYS, **telemetry.env}
            async with counterfoil("serve", "--config", str(file), **told) as gateway:
                url = await gateway.hear(r"listening at (http://\S+)")
                robot, opaque = [await at.token(client, url) for client in ("robot", "opaque")]
                authority.subjects = {robot: "robot", opaque: "opaque"}
                answers = [await call(url, token, "crm__say") for token in (robot, opaque, robot)]
                assert [one["content"][0]["text"] for one in answers] == ["for robot", "for opaque", "for robot"]
                assert "for opaque" in await call_as_of_old(url, opaque, "crm__say")
                for token in (robot, opaque):
                    assert (await call(url, token, "own__say"))["content"][0]["text"] == "say said"
                issued = [*authority.good]
                authority.good.clear()
                authority.answer = response(400, {"error": "invalid_target", "error_description": robot})
                late = await call(url, robot, "crm__say")
                assert late["structuredContent"]["outcome"] == "upstream_unavailable"
                assert late["structuredContent"]["executed"] is False
                pages = await shown(gateway, url)
            kept = [one.read_text("latin-1") for one in tmp_path.iterdir() if one.is_file() and "ledger" in one.name]
            spoken = "\n".join([*kept, *gateway.said, pages, str([*answers, late])])
            spoken += "".join(map(repr, (*telemetry.spans, *telemetry.logs, *telemetry.metrics)))
    ours = heard.heard.decode("latin-1").partition("authorization: Bearer ")[2].partition("\n")[0]
    claims = jwt.decode(ours, options={"verify_signature": False})
    assert (claims["client_id"], claims["aud"]) == ("robot", own)
    environment = (tmp_path / "environment").read_text()
    assert ("PATH=" in environment, "SECRET" in environment) == (True, False)
    assert len(telemetry.spans) > 5
    assert "crm__say" in spoken
    inbound, upstream, secrets = [robot, opaque], [*issued, ours], [SECRET, GATEWAYS, "robot-secret"]
    assert [one for one in (*inbound, *upstream, *secrets) if one in spoken + environment] == []
    for_crm, for_own = crm.heard.decode("latin-1"), heard.heard.decode("latin-1")
    assert [one for one in (*inbound, ours, *secrets) if one in for_crm] == []
    assert [one for one in (*inbound, *issued, *secrets) if one in for_own] == []
