"""Two `counterfoil serve` over one ledger, a certified provider where somebody agrees, a server that wants its tokens.

The provider takes each refresh token once, and ends all that somebody agreed to when one is shown to it twice.
"""

import json
import re
import shlex
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import jwt
import pytest
from jwt.algorithms import RSAAlgorithm

from gateway.inbound.mcp import mint
from gateway.model.consent import Holder
from gateway.model.principal import Principal
from gateway.outbound.credentials.sealed_grants import opened
from gateway.outbound.ledger import open_sqlite
from gateway.outbound.payload_keys import Keyring
from tests.agents.real_provider import RealProvider, provider, signed_in
from tests.agents.recorder import Recorder, recorder
from tests.agents.test_for_real import POLICY
from tests.cli.agents import Process, counterfoil, run
from tests.cli.test_reviewers import pressed
from tests.console.office import OPENED, PRESSED
from tests.console.test_connections import CAME_BACK
from tests.credentials.test_for_real import ACCEPT
from tests.inbound.served import ENVELOPE, MODERN
from tests.otlp import receiver
from tests.servers import counting_server

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

RUN_KEY, DATA_KEY = "0123456789abcdef0123456789abcdef", b"\x07" * 32
SECRET = "counterfoil-secret"  # noqa: S105 - of the provider's own test client
LIVES_S = 6
"""Of an access token: it is renewed when some 1.5 s of it are left."""
SOON_S = 3.0
"""After which the other gateway has heard: it looks every 2 s."""
ANN, BOB = Principal("ann", "acme"), Principal("bob", "acme")


@dataclass
class Ground:
    """All of it."""

    folder: Path
    at: RealProvider
    own: str
    server: Recorder
    url: str
    """Of the gateway that has the console."""
    port: int
    subjects: set[str] = field(default_factory=set)
    """Whose accounts the server was shown tokens of."""
    secrets: set[str] = field(default_factory=set)
    """Tokens and codes, which must be found nowhere."""
    said: list[str] = field(default_factory=list)

    def admits(self, shown: str) -> bool:
        """Whether the provider signed it, for this server, and it has not ended."""
        token = shown.removeprefix("Bearer ")
        key = RSAAlgorithm.from_jwk(json.loads(self.at.keys.read_text())["keys"][0]).public_key()  # type: ignore[union-attr]
        try:
            claims = jwt.decode(token, key, algorithms=["RS256"], audience=self.own)
        except jwt.PyJWTError:
            return False
        self.secrets.add(token)
        self.subjects.add(claims["sub"])
        return True

    def config(self, port: int) -> Path:
        environment = self.folder / f"environment-{port}"
        child = shlex.join([sys.executable, str(counting_server.__file__), str(self.folder / "counts")])
        auth = {
            "type": "authorization_code",
            "authorization_url": f"{self.at.issuer}/auth",
            "token_url": f"{self.at.issuer}/token",
            "revocation_url": f"{self.at.issuer}/token/revocation",
            "issuer": self.at.issuer,
            "client_id": "counterfoil",
            "client_secret": "${CRM_SECRET}",
            "scope": "mcp",
            "resource": self.own,
        }
        text = {
            "listen": {"port": port},
            "ledger": "ledger.db",
            "policies": "policies",
            "run_tokens": {"key": RUN_KEY},
            "console": {"url": self.url},
            "data": {"encryption": {"key": "${DATA_KEY}"}},
            "upstreams": {
                "crm": {"url": self.own, "auth": auth},
                "child": {"command": "sh", "args": ["-c", f"env > {shlex.quote(str(environment))}; exec {child}"]},
            },
        }
        (self.folder / "policies").mkdir(exist_ok=True)
        (self.folder / "policies" / "open.yaml").write_text(json.dumps(POLICY))
        file = self.folder / f"gateway-{port}.yaml"
        file.write_text(json.dumps(text))
        return file

    @asynccontextmanager
    async def gateways(self, *ports: int, **env: str) -> AsyncIterator[list[Process]]:
        """Those at these ports, the first with the console."""
        told = {"CRM_SECRET": SECRET, "DATA_KEY": DATA_KEY.hex(), **env}
        first, second = ports
        async with (
            counterfoil("serve", "--config", str(self.config(first)), **told) as one,
            counterfoil("serve", "--config", str(self.config(second)), **told) as other,
        ):
            for gateway in (one, other):
                await gateway.hear(r"listening at (http://\S+)")
            yield [one, other]
        self.said += [*one.said, *other.said]

    async def call(self, port: int, who: Principal | None, tool: str = "crm__say") -> Any:
        """The result of a call for that principal, or for nobody in particular, at the gateway there."""
        now = time.time()
        shown = {"run": f"run_{who and who.id}_{port}", "principal": who, "workflow": "open"}
        token = mint(RUN_KEY.encode(), **shown, expires_at=now + 600, now=now) if who else ""  # type: ignore[arg-type]
        params = {"name": tool, "arguments": {}, "_meta": ENVELOPE}
        named = {"mcp-protocol-version": MODERN, "mcp-method": "tools/call", "mcp-name": tool}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        async with httpx2.AsyncClient(trust_env=False, timeout=30) as http:
            shows = {**ACCEPT, **named, **({"counterfoil-run": token} if who else {})}
            answer = await http.post(f"http://127.0.0.1:{port}/mcp", json=body, headers=shows)
        self.said.append(answer.text)
        return answer.json()["result"]

    async def kept(self) -> Any:
        """What is kept of Ann, opened; its tokens are noted."""
        ledger = await open_sqlite(self.folder / "ledger.db")
        holder = Holder("acme", "ann", "crm")
        found = await ledger.consents.read(holder)
        await ledger.close()
        if found is not None:
            grant = opened(Keyring([DATA_KEY]), holder, found.sealed)
            self.secrets |= {one.get_secret_value() for one in (grant.access, grant.refresh) if one is not None}
        return found


@asynccontextmanager
async def person(it: Ground, who: Principal, *, only: bool = False) -> AsyncIterator[httpx2.AsyncClient]:
    """Their browser, in which they came in by a link; with `only`, by one for their own connections alone."""
    whose = ("--reviewer", who.id, "--tenant", who.tenant)
    told = ("console", "--config", str(it.config(it.port)), *whose, *(("--connections",) if only else ()))
    link, _ = await run(*told, DATA_KEY=DATA_KEY.hex(), CRM_SECRET=SECRET)
    link = link.strip()
    async with httpx2.AsyncClient(trust_env=False, timeout=30, base_url=it.url) as browser:
        assert await pressed(browser, link) == 303
        yield browser


async def press(it: Ground, browser: httpx2.AsyncClient, what: str) -> httpx2.Response:
    """A button of the page of connections."""
    page = (await browser.get("/console/connections", headers=OPENED)).text
    csrf = re.search(r'name="csrf" value="([^"]*)"', page)
    assert csrf is not None
    answer = await browser.post(f"/console/connections/crm/{what}", data={"csrf": csrf[1]}, headers=PRESSED)
    it.said += [page, answer.text]
    return answer


async def connected(it: Ground, browser: httpx2.AsyncClient, account: str) -> None:
    """They go to the provider, agree with that account, and come back."""
    leaving = await press(it, browser, "connect")
    there = re.search(r'content="0; url=([^"]*)"', leaving.text)
    assert there is not None, leaving.text
    back = await signed_in(unescape(there[1]), account, f"{it.url}/console/connections/crm/callback")
    it.secrets.add(parse_qs(urlsplit(back).query)["code"][0])
    answer = await browser.get(back, headers=CAME_BACK)
    assert answer.headers.get("location") == "/console/connections?about=crm&told=connected", answer.text
    page = await browser.get(answer.headers["location"], headers=OPENED)
    assert "Your account is connected" in page.text
    it.said.append(page.text)


def unavailable(result: Any, why: str, outcome: str = "needs_account") -> None:
    told = result["structuredContent"]
    assert (told["outcome"], told["executed"]) == (outcome, False)
    assert why in told["reason"], told


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


async def agreed_and_renewed(it: Ground, first: int, second: int) -> None:
    """Somebody agrees, and two gateways serve them while what they agreed to is renewed twice."""
    connect = f"`ann` has not connected an account there: connect it at {it.url}/console/connections"
    unavailable(await it.call(second, ANN), connect)
    async with person(it, ANN, only=True) as browser:
        await connected(it, browser, "anns-account")
        assert (await browser.get("/console/runs", headers=OPENED)).status_code == 404
        assert not (await it.call(first, ANN)).get("isError")  # at once where they came back
    await it.kept()
    await anyio.sleep(SOON_S)
    until, served = time.monotonic() + 2.2 * LIVES_S, 0
    while time.monotonic() < until:
        for port in (first, second):
            result = await it.call(port, ANN)
            assert not result.get("isError"), result
            served += 1
        await it.kept()
        await anyio.sleep(0.3)
    unavailable(await it.call(first, BOB), "`bob` has not connected an account there")
    assert it.subjects == {"anns-account"}
    assert served > 20
    assert len({one for one in it.secrets if one.count(".") == 2}) >= 3  # access tokens, which are JWTs here


async def served_after_a_restart_until_taken_back(it: Ground, first: int, second: int) -> None:
    """Nobody is asked anew; what is taken back at one gateway is gone at the other soon; and another account serves."""
    for port in (first, second):
        assert not (await it.call(port, ANN)).get("isError")
    await it.kept()
    assert not (await it.call(first, ANN, "child__look")).get("isError")
    async with httpx2.AsyncClient(trust_env=False) as http:
        it.said.append((await http.get(f"{it.url}/readyz")).text)
    async with person(it, ANN) as browser:
        for path in ("/", "/runs", "/registry", "/search", f"/runs/run_ann_{first}"):
            page = await browser.get(f"/console{path}", headers=OPENED)
            assert page.status_code == 200, path
            it.said.append(page.text)
        assert (await press(it, browser, "disconnect")).headers["location"].endswith("told=revoked")
        unavailable(await it.call(first, ANN), "has not connected an account there")
        await anyio.sleep(SOON_S)
        unavailable(await it.call(second, ANN), "has not connected an account there")
        await connected(it, browser, "anns-other-account")
        await anyio.sleep(SOON_S)
        assert not (await it.call(second, ANN)).get("isError")
    assert it.subjects == {"anns-account", "anns-other-account"}
    await it.kept()


async def served_over_stdio(it: Ground, gateway: Process) -> None:
    """Whoever's account a gateway runs under is served over stdio; who is nobody in particular is not, though here."""
    async with httpx2.AsyncClient(trust_env=False, timeout=30, base_url=it.url) as browser:
        assert await pressed(browser, await gateway.hear(r"reviewers: (\S+), once, for 15 minutes")) == 303
        await connected(it, browser, "own-account")
    told = {"CRM_SECRET": SECRET, "DATA_KEY": DATA_KEY.hex()}
    async with counterfoil("serve", "--stdio", "--config", str(it.config(it.port)), **told) as window:
        result = await window.call("crm__say", {})
        assert not result.get("isError"), result
    it.said += [json.dumps(result), *window.said]
    assert "own-account" in it.subjects
    nobody = "on behalf of each principal who has connected an account there"
    unavailable(await it.call(it.port, None), nobody, "upstream_unavailable")


async def purged(it: Ground, config: Path) -> None:
    """Whoever is forgotten has no account connected any more, and the ledger is as it should be."""
    ledger = f"sqlite:///{it.folder / 'ledger.db'}"
    told, _ = await run("purge", "--principal", "acme/ann", "--yes", "--ledger", ledger)
    assert "1 account at other providers disconnected" in told
    assert await it.kept() is None
    report, _ = await run("verify", "--config", str(config), "--json", DATA_KEY=DATA_KEY.hex(), CRM_SECRET=SECRET)
    assert json.loads(report)["broken"] == 0
    it.said += [told, report]


async def test_somebody_lets_gateways_in_at_another_provider_and_takes_it_back(tmp_path: Path) -> None:
    first, second = free_ports(2)
    url = f"http://127.0.0.1:{first}"
    at = provider(tmp_path)
    at.agreeing = {"redirects": [f"{url}/console/connections/crm/callback"], "lives_s": LIVES_S}
    with recorder() as (own, server):
        it = Ground(tmp_path, at, own, server, url, first)
        server.admits = it.admits
        async with at.running("first"), receiver() as telemetry:
            async with it.gateways(first, second, **telemetry.env):
                await agreed_and_renewed(it, first, second)
            async with it.gateways(first, second, **telemetry.env) as (one, _):
                await served_after_a_restart_until_taken_back(it, first, second)
                await served_over_stdio(it, one)
            await purged(it, it.config(first))
    kept = b"".join(one.read_bytes() for one in tmp_path.iterdir() if "ledger" in one.name)
    environments = b"".join(one.read_bytes() for one in tmp_path.glob("environment-*"))
    spoken = "\n".join(it.said) + "".join(map(repr, (*telemetry.spans, *telemetry.logs, *telemetry.metrics)))
    everything = spoken.encode() + kept + environments
    for seen in (b"crm__say", b"PATH=", b"`ann` of `acme` has connected an account"):
        assert seen in everything, seen
    assert len(telemetry.spans) > 20
    assert len(it.secrets) >= 8
    secrets = [*it.secrets, SECRET, DATA_KEY.hex()]
    assert [one for one in secrets if one.encode() in everything] == []
