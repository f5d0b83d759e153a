"""`counterfoil serve` as a process, before a server that keeps all that it is sent, with a certified provider.

No credential is found afterwards in anything that was written, said or passed on.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from pydantic import AnyUrl
from typer.testing import CliRunner

from gateway.cli.commands import app as command
from tests.agents.real_provider import GATEWAYS, RealProvider, provider, signed_in
from tests.agents.recorder import Recorder, recorder
from tests.cli.agents import Process, counterfoil
from tests.console.provider import query_of
from tests.inbound.served import ENVELOPE, MODERN

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BACK = "http://127.0.0.1:9/back"
POLICY: dict[str, Any] = {
    "workflow": "open",
    "tools": {"*": {"effect": "read"}},
    "transitions": [{"name": "any", "tools": ["*"]}],
}


@dataclass
class Gateway:
    """The process, and what must never be found where it could be read."""

    process: Process
    url: str
    folder: Path
    recorder: Recorder
    canaries: list[str] = field(default_factory=list)

    @property
    def config(self) -> Path:
        return self.folder / "gateway.yaml"

    async def call(self, headers: Mapping[str, str], tool: str = "up__say", path: str = "") -> httpx2.Response:
        """A tool call of the newer era."""
        params = {"name": tool, "arguments": {}, "_meta": ENVELOPE}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        named = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
        accept = {"accept": "application/json, text/event-stream"}
        async with httpx2.AsyncClient(trust_env=False) as http:
            answer = await http.post(path or self.url, json=body, headers={**named, **accept, **headers})
        for canary in self.canaries:
            assert canary not in answer.text + str(answer.headers)
        return answer

    async def bearer(self, token: str, tool: str = "up__say") -> httpx2.Response:
        self.canaries.append(token)
        return await self.call({"authorization": f"Bearer {token}"}, tool)

    def kept(self) -> bytes:
        """All that was written, said and passed on."""
        files = [file.read_bytes() for file in self.folder.rglob("*") if file.is_file() and "ledger" in file.name]
        assert files
        return b"\n".join([*files, "\n".join(self.process.said).encode(), bytes(self.recorder.heard)])


@asynccontextmanager
async def gateway(folder: Path, agents: Mapping[str, Any]) -> AsyncIterator[Gateway]:
    """The command, with that section, before a server that keeps all it is sent."""
    async with AsyncExitStack() as stack:
        upstream, heard = stack.enter_context(recorder())
        (folder / "policies").mkdir()
        (folder / "policies" / "open.yaml").write_text(json.dumps(POLICY))
        config = {
            "listen": {"port": 0},
            "ledger": "ledger.db",
            "policies": "policies",
            "run_tokens": {"key": "0123456789abcdef0123456789abcdef"},
            "upstreams": {"up": {"url": upstream}},
            "agents": agents,
        }
        (folder / "gateway.yaml").write_text(json.dumps(config))
        serve = counterfoil("serve", "--config", str(folder / "gateway.yaml"), GATEWAY_SECRET=GATEWAYS)
        process = await stack.enter_async_context(serve)
        url = await process.hear(r"listening at (http://\S+)")
        yield Gateway(process, url, folder, heard)


async def becomes(status: int, ask: Any) -> None:
    """The answer has that status, within some seconds."""
    with anyio.fail_after(15):
        while (await ask()).status_code != status:
            await asyncio.sleep(0.2)


def oauth(at: RealProvider, **more: Any) -> dict[str, Any]:
    asked = {"url": f"{at.issuer}/token/introspection", "client_id": "gateway", "client_secret": "${GATEWAY_SECRET}"}
    return {"oauth": {"issuer": at.issuer, "introspection": asked, "required_scopes": ["mcp"], **more}}


async def test_tokens_of_a_certified_provider_let_in_whom_they_are_for(tmp_path: Path) -> None:
    at = provider(tmp_path)
    async with gateway(tmp_path, oauth(at, claims={"principal": "client_id"})) as it:
        early = await it.bearer("eyJhbGciOiJSUzI1NiIsImtpZCI6Im9uZSJ9.eyJzdWIiOiJ4In0.c2ln")
        assert early.status_code == 503  # nobody can be asked: neither yes nor no
        async with at.running("first"):
            await asyncio.sleep(5.1)
            unknown = await it.call({})
            told = query_of_challenge(unknown.headers["www-authenticate"])
            assert (unknown.status_code, told["scope"]) == (401, "mcp")
            async with httpx2.AsyncClient(trust_env=False) as http:
                metadata = (await http.get(told["resource_metadata"])).json()
            assert (metadata["resource"], metadata["authorization_servers"]) == (it.url, [at.issuer])
            good = await at.token("robot", it.url)
            assert (await it.bearer(good)).json()["result"]["content"] == [{"type": "text", "text": "say said"}]
            opaque = await at.token("opaque", it.url)
            assert "." not in opaque
            assert (await it.bearer(opaque)).status_code == 200
            for token, status in (
                (await at.token("robot", "https://elsewhere.example/mcp"), 401),
                (await at.token("opaque", "https://elsewhere.example/mcp"), 401),
                (await at.token("robot", it.url, "time"), 403),
                (good[:-8] + "AAAAAAAA", 401),
                (opaque + "x", 401),
            ):
                assert (await it.bearer(token)).status_code == status
            await at.revoke("opaque", opaque)
            await becomes(401, lambda: it.bearer(opaque))
        assert (await it.bearer(good)).status_code == 200  # its key is known, while the provider is down
        async with at.running("second"):
            rotated = await at.token("robot", it.url)
            assert (await it.bearer(rotated)).status_code == 401  # asked for keys less than a minute ago
        kept = it.kept()
        assert b"robot" in kept  # so that what is looked through is what there is
        assert [one for one in (*it.canaries, GATEWAYS) if one.encode() in kept] == []


def query_of_challenge(header: str) -> dict[str, str]:
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    return {name: value.strip('"') for name, _, value in (part.partition("=") for part in rest.split(", "))}


class Storage:
    """What a client keeps between two starts; here, for one."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.all: list[str] = []

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.all.append(tokens.access_token)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize(("mode", "known"), [("auto", True), pytest.param("legacy", False, marks=pytest.mark.long)])
async def test_the_sdks_client_signs_in_and_steps_up_by_itself(tmp_path: Path, mode: Any, known: bool) -> None:  # noqa: FBT001
    at, storage = provider(tmp_path), Storage()
    gone: list[str] = []
    if known:  # one that registers itself is bound to the scopes that it registered with
        known_as = {
            "client_id": "agent",
            "redirect_uris": [BACK],
            "token_endpoint_auth_method": "none",
            "issuer": at.issuer,
        }
        storage.client = OAuthClientInformationFull.model_validate(known_as)

    async def go(address: str) -> None:
        gone.append(address)

    async def come_back() -> AuthorizationCodeResult:
        said = query_of(await signed_in(gone[-1], "anna", BACK))
        return AuthorizationCodeResult(code=said["code"], state=said["state"], iss=said.get("iss"))

    async with at.running("first"), gateway(tmp_path, oauth(at, step_up={"up__time": ["time"]})) as it:
        about = OAuthClientMetadata(redirect_uris=[AnyUrl(BACK)], client_name="agent")
        auth = OAuthClientProvider(it.url, about, storage, go, come_back)
        async with httpx2.AsyncClient(auth=auth, trust_env=False, timeout=20) as http:
            with anyio.fail_after(40):
                async with Client(streamable_http_client(it.url, http_client=http), mode=mode) as client:
                    said = await client.call_tool("up__say", {})
                    assert [one.text for one in said.content] == ["say said"]  # type: ignore[union-attr]
                    assert len(gone) == 1
                    if known:
                        timed = await client.call_tool("up__time", {})
                        assert [one.text for one in timed.content] == ["time said"]  # type: ignore[union-attr]
                        assert {"mcp", "time"} <= {*query_of(gone[1])["scope"].split()}
        assert query_of(gone[0])["resource"] == it.url
        kept = it.kept()
        assert b'"anna"' in kept
        assert [one for one in storage.all if one.encode() in kept] == []


def typed(*words: str) -> tuple[str, str]:
    """What a command prints, and what it says beside it."""
    done = CliRunner().invoke(command, words)
    assert done.exit_code == 0, done.stderr
    return done.stdout.strip(), done.stderr


def write(file: Path, lines: Sequence[str]) -> None:
    file.write_text("keys:\n" + "".join(f"{line}\n" for line in lines))


async def test_keys_are_rotated_and_run_tokens_revoked_while_the_gateway_runs(tmp_path: Path) -> None:
    file = tmp_path / "agent-keys.yaml"
    (old, first), (new, second) = (typed("keys", "new", "--principal", "ci", "--id", name) for name in ("one", "two"))
    write(file, [first.splitlines()[-1]])
    async with gateway(tmp_path, {"keys": "agent-keys.yaml"}) as it:
        assert "nobody comes in without a credential" in "\n".join(it.process.said)
        assert (await it.call({})).status_code == 401
        assert (await it.bearer(old)).status_code == 200
        assert (await it.bearer(new)).status_code == 401
        write(file, [one.splitlines()[-1] for one in (first, second)])
        await becomes(200, lambda: it.bearer(new))
        assert (await it.bearer(old)).status_code == 200
        write(file, [second.splitlines()[-1]])
        await becomes(401, lambda: it.bearer(old))
        assert (await it.bearer(new)).status_code == 200
        token, said = await asyncio.to_thread(
            typed, "run", "open", "--workflow", "open", "--config", str(it.config), "--principal", "ci"
        )
        run = said.split()[1]
        assert (await it.call({"counterfoil-run": token})).status_code == 200
        await asyncio.to_thread(typed, "run", "revoke", run, "--config", str(it.config))
        await becomes(403, lambda: it.call({"counterfoil-run": token}))
        assert (await it.call({}, path=f"{it.url}?access_token={new}")).status_code == 400
        kept = it.kept()
        assert [one for one in (old, new, token) if one.encode() in kept] == []
