"""Whatever one principal made is to every other one not there: the same answer as for what never was.

All that takes an id is found in the tables by which it is served, so that nothing new goes untried.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.routing import Route

from gateway.inbound.console import Access, console_app
from gateway.inbound.console.api import Changes, api_routes
from gateway.inbound.console.api.routes import TABLE
from gateway.inbound.console.credentials import mint as mint_credential
from gateway.inbound.console.pages import Live, pages
from gateway.inbound.console.paths import CONNECTIONS
from gateway.inbound.mcp import mint, relay_of
from gateway.inbound.mcp.doorkeeper import Doorkeeper
from gateway.inbound.mcp.own_tools import OWN_TOOLS
from gateway.inbound.mcp.relay import Relay
from gateway.model.answer import RECORD_KEY
from gateway.model.principal import Principal
from gateway.model.review import Reviewer
from gateway.model.switch import SwitchThrown
from gateway.model.tool import InputRequired, Silence
from gateway.outbound.ids import id_maker
from gateway.outbound.redaction import DetectingRedactor
from tests import world
from tests.agents.asking import Front, Told
from tests.console import reviewing
from tests.console.office import KEYS, POLICY, PRESSED, Office, Visitor, fill, office
from tests.console.test_operator import assistant
from tests.inbound.fake_gate import FakeOffers
from tests.inbound.served import ENVELOPE, KEY, MODERN
from tests.runtime.house import House, house

pytestmark = pytest.mark.anyio

ANN = Principal("ann", "acme")
OTHERS = (Principal("bob", "acme"), Principal("ann", "other"), Principal("anonymous"))
"""A colleague of the same tenant, somebody of the same name at another, and whoever is on the machine."""
ROUNDS: dict[str, Any] = {"elicitation": {"form": {}}}
TASKS = {"extensions": {"io.modelcontextprotocol/tasks": {}}, **ROUNDS}


# --- agents -----------------------------------------------------------------------------------------------------------


@dataclass
class Agents:
    """A gateway whose agents come over HTTP, and what stands behind it."""

    it: House
    relay: Relay
    front: Front

    def shows(self, who: Principal) -> dict[str, str]:
        """What that principal shows; whoever has no run token comes in as nobody in particular."""
        if who.id == "anonymous":
            return {}
        said = {"workflow": "test", "expires_at": self.it.clock.now() + 3600, "now": self.it.clock.now()}
        return {"counterfoil-run": mint(KEY, run=f"run_{who.tenant}_{who.id}", principal=who, **said)}  # type: ignore[arg-type]

    async def call(self, who: Principal, tool: str, arguments: Mapping[str, Any], can: Any = None, **more: Any) -> Any:
        """The result of a tool call."""
        answer = await self.ask(who, "tools/call", {"name": tool, "arguments": dict(arguments), **more}, can)
        return json.loads(answer.body)["result"]

    async def ask(self, who: Principal, method: str, params: Mapping[str, Any], can: Any = None) -> Told:
        """The answer to a request of the newer era."""
        envelope = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": can or {}}
        name = params.get("name") or params.get("taskId") or params.get("uri")
        headers = {"mcp-protocol-version": MODERN, "mcp-method": method, **({"mcp-name": name} if name else {})}
        meta = {**envelope, **params.get("_meta", {})}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        return await self.front.send({**headers, **self.shows(who)}, json.dumps(body).encode())


@asynccontextmanager
async def agents() -> AsyncIterator[Agents]:
    upstreams = world.ScriptedUpstreams()
    tools = ("read", "write", "edit", "ask")
    for name in tools:
        upstreams.offer(world.tool(name, read=name == "read"))
    policy = {**POLICY, "transitions": [*POLICY["transitions"], {"name": "ask", "tools": ["ask"]}]}
    policy["tools"] = {**POLICY["tools"], "ask": {"effect": "write"}}
    offers = FakeOffers({"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in tools]})
    offers.owners = dict.fromkeys(tools, "fake")
    async with house(upstreams=upstreams, **policy) as it:
        relay = relay_of(gate=it.engine, offers=offers, make_id=id_maker(it.clock.now), clock=it.clock, version="9")
        front = Front(Doorkeeper(run_key=KEY, now=it.clock.now), relay, it.engine.delivered)
        async with front.app.running():
            yield Agents(it, relay, front)
        relay.close()


@dataclass
class Made:
    """What Ann has made: the names by which she can ask for it again."""

    attempt: str
    approval: str
    task: str
    state: str
    cursor: str
    result: str
    """An attempt that was answered."""


async def made(at: Agents) -> Made:
    at.it.upstreams.will("write", Silence("no answer within 30 s"))
    unknown = (await at.call(ANN, "write", {"n": 1}))["structuredContent"]
    asked = (await at.call(ANN, "edit", {"path": "/a"}))["structuredContent"]
    task = await at.call(ANN, "edit", {"path": "/b"}, TASKS)
    asks = {"q": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}}
    at.it.upstreams.will(
        "ask", InputRequired({"resultType": "input_required", "inputRequests": asks, "requestState": "s"})
    )
    rounds = await at.call(ANN, "ask", {}, ROUNDS)
    status = (await at.call(ANN, "gateway__status", {}))["structuredContent"]
    read = (await at.call(ANN, "read", {"n": 1}))["_meta"][RECORD_KEY]
    return Made(
        unknown["attempt"],
        asked["approval"]["id"],
        task["taskId"],
        rounds["requestState"],
        str(status["cursor"]),
        read["attempt"],
    )


NOBODYS = Made(
    "run_000000000000000000000000000000.7",
    "ap_000000000000000000000000000000",
    "A" * 120,
    "A" * 120,
    "A" * 20,
    "run_000000000000000000000000000001.3",
)
"""Names that never were."""


def told(answer: Told, ids: Made) -> tuple[int, str]:
    """What was answered, without the names that were asked for."""
    text = answer.body.decode()
    for name in vars(ids).values():
        text = text.replace(name, "…")
    assert "acme_ann" not in text  # her run
    return answer.status, re.sub(r'"at": ?"[^"]*"|run_[0-9a-z_]+|[0-9a-f]{24,}', "…", text)


BY_METHOD: Mapping[str, Any] = {
    "resources/read": lambda one: [
        {"uri": f"gateway://artifact/{one.result}"},
        {"uri": f"gateway://artifact/{one.result}/content/0/text?line=1&lines=2"},
    ],
    "tasks/get": lambda one: [{"taskId": one.task}],
    "tasks/update": lambda one: [{"taskId": one.task, "inputResponses": {}}],
    "tasks/cancel": lambda one: [{"taskId": one.task}],
    "tools/call": lambda one: [
        {"name": "gateway__result", "arguments": {"attempt": one.attempt}},
        {"name": "gateway__approval", "arguments": {"approval": one.approval}},
        {"name": "gateway__approval", "arguments": {"approval": one.approval, "withdraw": True, "reason": "x"}},
        {"name": "ask", "arguments": {}, "requestState": one.state, "inputResponses": {"q": {"action": "accept"}}},
    ],
}
NO_IDS = frozenset(
    {
        "completion/complete",
        "initialize",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "subscriptions/listen",
        "tools/list",
    }
)
"""Methods that take no name of anything that a principal made: those of a server's things, and of what all may see."""
NO_IDS_OF_TOOLS = frozenset({"gateway__finish", "gateway__note", "gateway__plan", "gateway__status"})
"""Own tools that speak of the caller's own run; `since` of a status is tried apart."""


async def test_all_that_takes_an_id_is_tried() -> None:
    async with agents() as at:
        assert {*at.relay._modern, *at.relay._legacy} == {*BY_METHOD, *NO_IDS}
        tried = {one["name"] for one in BY_METHOD["tools/call"](NOBODYS)} - {"ask"}
        assert {*OWN_TOOLS} == tried | NO_IDS_OF_TOOLS


@pytest.mark.parametrize("who", OTHERS, ids=lambda who: f"{who.tenant}-{who.id}")
async def test_what_another_made_is_to_an_agent_not_there(who: Principal) -> None:
    async with agents() as at:
        hers = await made(at)
        before = len(at.it.upstreams.sent)
        for method, cases in BY_METHOD.items():
            for real, none in zip(cases(hers), cases(NOBODYS), strict=True):
                answer = await at.ask(who, method, real, TASKS)
                assert told(answer, hers) == told(await at.ask(who, method, none, TASKS), NOBODYS), real
                own = await at.ask(ANN, method, real, TASKS)
                assert own.body != answer.body, real  # to her it is there, so that the test shows something
        assert {sent.tool.name for sent in at.it.upstreams.sent[before:]} <= {"ask"}  # Ann's own round went on


async def test_another_runs_cursor_tells_nothing_of_it() -> None:
    async with agents() as at:
        hers = await made(at)
        for who in OTHERS:
            answer = await at.ask(who, "tools/call", {"name": "gateway__status", "arguments": {"since": hers.cursor}})
            assert hers.attempt not in answer.body.decode()
            assert "run_acme_ann" not in answer.body.decode().replace(hers.cursor, "")


async def test_the_same_key_of_another_is_another_key() -> None:
    async with agents() as at:
        call = {"name": "write", "arguments": {"n": 9}, "_meta": {"counterfoil/key": "k"}}
        answers = [json.loads((await at.ask(who, "tools/call", call)).body)["result"] for who in (ANN, ANN, *OTHERS)]
        assert all(not answer.get("isError") for answer in answers)
        assert len(at.it.upstreams.sent) == 1 + len(OTHERS)


async def test_an_effect_that_one_principal_holds_holds_up_no_other() -> None:
    async with agents() as at:
        await made(at)
        for who in OTHERS:
            answer = await at.call(who, "write", {"n": 1})
            assert not answer.get("isError"), answer


@pytest.mark.parametrize("who", OTHERS, ids=lambda who: f"{who.tenant}-{who.id}")
async def test_anothers_session_is_not_there(who: Principal) -> None:
    async with agents() as at:
        opens = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opens}
        opened = await at.front.send(at.shows(ANN), json.dumps(body).encode())
        hers, none = opened.headers["mcp-session-id"], "A" * 43
        ping = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "ping"}).encode()
        for verb, headers, sent in (
            ("POST", {}, ping),
            ("GET", {}, b""),
            ("GET", {"last-event-id": "1-1"}, b""),
            ("DELETE", {}, b""),
        ):
            real, made_up = [
                await at.front.send({**at.shows(who), "mcp-session-id": one, **headers}, sent, verb=verb)
                for one in (hers, none)
            ]
            assert (real.status, real.body) == (made_up.status, made_up.body)
            assert real.status == 404
        assert (await at.front.send({**at.shows(ANN), "mcp-session-id": hers}, ping)).status == 200


# --- reviewers --------------------------------------------------------------------------------------------------------

BOSS = Reviewer("local", "boss", frozenset({"dba"}), via="token")
OLGA = Reviewer("other", "olga", frozenset({"dba", "owner"}), via="token")
SHA = "sha256:" + "0" * 64

BODIES: Mapping[str, Any] = {
    "decide": lambda _: {"action": SHA, "decision": "approved"},
    "decideSeveral": lambda name: {"answers": [{"approval": name, "action": SHA, "decision": "approved"}]},
    "settleAttempt": lambda _: {"what": "happened", "reason": "seen"},
    "actOnRun": lambda _: {"what": "stop", "reason": "because"},
    "throwSwitch": lambda _: {"stops": {"tenant": "local"}, "reason": "because"},
    "liftSwitch": lambda _: {"what": "lift", "reason": "over"},
}
ABOUT = {"approvals": "approval", "decisions": "approval", "attempts": "attempt", "runs": "run", "switches": "number"}


async def ids_of(at: Office) -> dict[str, str]:
    unknown = [one.attempt for one in await at.it.ledger.tracked(states={"unknown"})]
    switch = await at.desk.throw(SwitchThrown(tenant="local", by=BOSS.who, via=BOSS.via, reason="x"), BOSS)
    return {"approval": at.asked["pay"], "run": "run_1", "attempt": unknown[0], "number": str(switch.number)}


NEVER = {"approval": "ap_0000", "run": "run_0000", "attempt": "run_0000.1", "number": "9"}


def api(at: Office, by: Reviewer) -> Visitor:
    """That reviewer's program."""
    import httpx2  # noqa: PLC0415

    it = at.it
    access = Access(keys=KEYS, now=it.clock.now, once=it.ledger.once, said=it.ledger.said, url=at.url)
    routes = api_routes(at.desk, it.book, Changes(at.desk, it.clock.monotonic), version="9")
    token, _ = mint_credential(KEYS.tokens, "reviewer", by, now=it.clock.now(), lives_s=3600)
    transport = httpx2.ASGITransport(console_app(at.desk, access, pages=(), api=routes))
    shows = {"authorization": f"Bearer {token}"}
    return Visitor(httpx2.AsyncClient(transport=transport, base_url=f"{at.url}/console/api/v1", headers=shows))


TRIED = [one for one in TABLE if one.name != "watch"]  # a stream that never says what changed


@pytest.mark.parametrize("operation", TRIED, ids=lambda one: one.name)
async def test_what_another_tenant_has_is_to_the_api_not_there(operation: Any) -> None:
    async with office() as at:
        await fill(at)
        real = await ids_of(at)
        about = ABOUT.get(operation.path.split("/")[1], "approval")
        answers = {}
        for by in (OLGA, BOSS):
            http = api(at, by).http
            for ids in (real, NEVER):
                body = BODIES[operation.name](ids[about]) if operation.method == "POST" else None
                found = await http.request(operation.method, operation.path.replace("{id}", ids[about]), json=body)
                answers[by.id, ids is real] = found.status_code, found.text.replace(ids[about], "…")
        if operation.name == "whoami":
            assert "olga" in answers["olga", True][1]
            return
        assert answers["olga", True] == answers["olga", False]
        for name in (real["approval"], "run_1"):
            assert name not in answers["olga", True][1]
        assert answers["boss", True] != answers["olga", True]


async def test_what_another_tenant_has_is_on_no_page() -> None:
    async with office() as at:
        await fill(at)
        run = await at.it.book.state_of("run_1")
        olga = await at.visitor(Reviewer("other", "olga", frozenset({"dba"}), via="link"))
        csrf = re.search(r'name="csrf" value="([^"]*)"', await olga.read("/"))
        assert csrf is not None
        real = {**await ids_of(at), "name": at.asked["pay"], "step": "1", "digest": str(run.policy)}
        never = {**NEVER, "name": "ap_0000", "step": "1", "digest": "sha256:" + "0" * 64}
        for route in pages(
            at.desk, at.it.book, at.it.upstreams, lambda: (True, {}), Live(at.desk), DetectingRedactor()
        ):
            assert isinstance(route, Route)
            if route.path in {"/events", "/static/{name}"} or route.path.startswith(CONNECTIONS):
                continue  # connections have no names: tests/console/test_connections_of_others.py
            told = []
            for ids in (real, never, {**real, "name": "run_1"}, {**never, "name": "run_0000"}):
                path = re.sub(r"\{(\w+)(?::int)?\}", lambda found, ids=ids: ids[found[1]], route.path)  # type: ignore[misc]
                if "GET" in (route.methods or ()):
                    found = await olga.get(path)
                else:
                    fields = {"csrf": csrf[1], "action": SHA, "served": "x", "reason": "r", "approval": ids["name"]}
                    found = await olga.http.post(f"/console{path}", data=fields, headers=PRESSED)
                told.append((found.status_code, _without(found.text, ids)))
            assert told[0] == told[1], route.path
            assert told[2] == told[3], route.path
            assert at.asked["pay"] not in told[0][1]
            assert route.path.count("{") == 0 or told[0][0] != 200, route.path


def _without(text: str, ids: Mapping[str, str]) -> str:
    for name in ids.values():
        if len(name) > 1:
            text = text.replace(name, "…").replace(name.replace(":", "%3A"), "…")
    return re.sub(r'value="[^"]*"|switch \d+', "", text)


async def test_what_another_tenant_has_is_to_an_assistant_not_there() -> None:
    async with reviewing.served() as at:
        asked = await at.ask(5)
        at.it.upstreams.will("write", Silence("no answer within 30 s"))
        await at.it.call("write", {"n": 1})
        [unknown] = [one.attempt for one in await at.it.ledger.tracked(states={"unknown"})]
        real = {"approval": asked, "attempt": unknown, "run": "run_1", "name": asked}
        never = {"approval": "ap_0000", "attempt": "run_0000.1", "run": "run_0000", "name": "ap_0000"}
        more = {"action": await at.action_of(asked), "reason": "r", "wanted": "w", "what": "happened"}
        other = reviewing.elsewhere(reviewing.ANN, tenant="other")
        before = len(await at.it.ledger.read("run_1"))
        async with assistant(at, MODERN, None, who=other, unattended=True) as (client, _):
            for tool in (await client.list_tools()).tools:
                takes = [*tool.input_schema.get("required", ())]
                answers = []
                for ids in (real, never):
                    arguments = {name: {**more, **ids}[name] for name in takes}
                    result = await client.call_tool(tool.name, arguments)
                    answers.append((result.is_error, json.dumps(result.structured_content)))
                assert answers[0] == answers[1], tool.name
                assert asked not in answers[0][1]
                assert bool(answers[0][0]) is bool(takes), tool.name
        assert len(await at.it.ledger.read("run_1")) == before
