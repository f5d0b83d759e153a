"""A running gateway, asked over HTTP: whether it is ready, whom it lets in, and whether its own canary is denied."""

import http.client
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from gateway.cli.doctor.canary import DOCTOR, TOOL
from gateway.cli.doctor.findings import Finding, ok, warning, wrong
from gateway.inbound.console import Keys, credentials
from gateway.inbound.mcp.tokens import mint
from gateway.model.review import Reviewer
from gateway.outbound.clock import SystemClock
from gateway.outbound.ids import id_maker

WAIT_S = 10.0
MODERN = "2026-07-28"
LIVES_S = 60.0
"""The doctor's own tokens."""
REFUSED = range(400, 500)


@dataclass(frozen=True, slots=True)
class Said:
    """What it answered."""

    status: int
    body: Any
    """As JSON; None where it is none."""
    headers: Mapping[str, str] = field(default_factory=dict)


class Remote:
    """The gateway at an address. `key` signs its run tokens, where that is known here."""

    def __init__(self, url: str, key: bytes | None, workflow: str | None) -> None:
        self._parts = urlsplit(url)
        self._key = key
        self._workflow = workflow
        self.run = id_maker(SystemClock().now)("run")
        """Of the canary."""
        self.denied = False
        """Whether it was, as the gateway says."""

    def looked(self) -> Iterator[Finding]:
        """All that can be seen from outside."""
        try:
            said = self._ask("GET", "/readyz")
        except OSError as error:
            yield wrong("gateway", f"nobody answers at `{self._parts.netloc}`: {error}", "is it running, and there?")
            return
        if said.status == http.HTTPStatus.OK:
            yield ok("gateway", f"`{self._parts.netloc}` is ready")
        else:
            yield wrong("gateway", f"`/readyz` says {said.status}: {json.dumps(said.body)[:500]}", "see its log")
        try:
            yield from self._door()
            yield from self._console()
            yield self._canary()
        except OSError as error:
            yield wrong("gateway", f"it stopped answering: {error}", "see its log")

    def _door(self) -> Iterator[Finding]:
        for about, headers in (
            ("another Host", {"Host": "attacker.example"}),
            ("another Origin", {"Origin": "https://attacker.example"}),
        ):
            yield self._must_refuse(about, "/mcp", headers)
        said = self._call("tools/list", {}, {})
        if said.status == http.HTTPStatus.OK and isinstance(said.body, dict) and "result" in said.body:
            says = "whoever reaches the port may use it without a credential"
            yield warning("anonymous", says, "let nobody reach it that you do not trust; give runs a token")
        else:
            yield ok("anonymous", f"without a credential nobody comes in ({said.status})")

    def _console(self) -> Iterator[Finding]:
        if self._ask("GET", "/console/").status == http.HTTPStatus.NOT_FOUND:
            yield ok("console", "there is none")
            return
        for about, headers in (
            ("the console, another Host", {"Host": "attacker.example"}),
            ("the console without a credential", {}),
        ):
            yield self._must_refuse(about, "/console/api/v1/whoami", headers, verb="GET")
        if self._key is None:
            return
        bearer = {"Authorization": f"Bearer {self._token()}"}
        yield self._must_refuse("an agent's token at the console", "/console/api/v1/whoami", bearer, verb="GET")
        person, now = Reviewer(DOCTOR.tenant, DOCTOR.id), time.time()
        theirs = credentials.mint(Keys.of(self._key).tokens, "reviewer", person, now=now, lives_s=LIVES_S)[0]
        yield self._must_refuse("a reviewer's token at the agents' door", "/mcp", {"Authorization": f"Bearer {theirs}"})

    def _must_refuse(self, about: str, path: str, headers: Mapping[str, str], verb: str = "POST") -> Finding:
        said = self._call("tools/list", {}, headers) if verb == "POST" else self._ask(verb, path, headers)
        if said.status in REFUSED:
            return ok(about, f"refused ({said.status})")
        return wrong(
            about, f"LET THROUGH ({said.status})", "do not let this gateway be reached; report it (SECURITY.md)"
        )

    def _canary(self) -> Finding:
        headers = {} if self._key is None else {"Counterfoil-Run": self._token()}
        said = self._call("tools/call", {"name": TOOL, "arguments": {"canary": self.run}}, headers)
        result = said.body.get("result") if isinstance(said.body, dict) else None
        told = result.get("structuredContent") if isinstance(result, dict) else None
        if not isinstance(told, dict) or "outcome" not in told:
            return wrong("canary over HTTP", f"no verdict came ({said.status}): {json.dumps(said.body)[:300]}")
        self.run = str(told.get("run", self.run))
        if told["outcome"] != "denied" or told.get("executed") is not False:
            return wrong("canary over HTTP", f"a call that must be denied was `{told['outcome']}`", "stop this gateway")
        self.denied = True
        return ok("canary over HTTP", f"denied, in run {self.run}")

    def _token(self) -> str:
        now = time.time()
        return mint(
            self._key or b"",
            run=self.run,
            principal=DOCTOR,
            workflow=self._workflow or "",
            expires_at=now + LIVES_S,
            now=now,
        )

    def _call(self, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> Said:
        name = {"Mcp-Name": params["name"]} if "name" in params else {}
        about = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **name}
        sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **about, **headers}
        envelope = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "counterfoil-doctor", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": envelope, **params}}
        return self._ask("POST", "/mcp", sent, json.dumps(body).encode())

    def _ask(self, verb: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None) -> Said:
        """Raises: OSError."""
        made = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        connection = made(self._parts.hostname or "", self._parts.port, timeout=WAIT_S)
        try:
            connection.request(verb, path, body, dict(headers or {}))
            answer = connection.getresponse()
            return Said(answer.status, _json(answer.read()), dict(answer.getheaders()))
        except http.client.HTTPException as error:
            raise OSError(f"it speaks no HTTP that is understood: {error!r}") from None
        finally:
            connection.close()


def _json(body: bytes) -> Any:
    text = body.decode(errors="replace")
    if "data:" in text.partition("{")[0]:  # an event stream of one answer
        text = text.partition("data:")[2].partition("\n")[0]
    try:
        return json.loads(text)
    except ValueError:
        return None
