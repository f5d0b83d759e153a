"""The gateway's own tools as a client sees them: what is listed is what is checked."""

import asyncio
from typing import Any

import jsonschema_rs
import pytest

from gateway.inbound.mcp.exchange import Session
from gateway.inbound.mcp.identity import IDLE_S
from gateway.inbound.mcp.own_tools import OWN_DEFINITIONS, OWN_TOOLS, BadArguments
from gateway.inbound.mcp.tokens import RunToken
from gateway.model.events import Outcome
from gateway.model.plan import Note, Plan
from gateway.ports import LedgerUnavailable, NoSuchRun
from tests.inbound.asked import INFO, ME, Asked, Conversation, ToldLine, until
from tests.inbound.fake_gate import REFUSAL, T0, answering

SCHEMAS = [
    pytest.param(definition[part], id=f"{definition['name']} {part}")
    for definition in OWN_DEFINITIONS
    for part in ("inputSchema", "outputSchema")
    if part in definition
]


def parts(schema: Any) -> list[Any]:
    """All of the schema, in depth."""
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return [schema, *(part for one in inner for part in parts(one))]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_schemas_are_plain_objects_that_strict_clients_take(schema: dict[str, Any]) -> None:
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    assert schema["type"] == "object"
    assert [part for part in parts(schema) if isinstance(part, dict) and ("$ref" in part or "$defs" in part)] == []


@pytest.mark.parametrize("name", OWN_TOOLS)
def test_no_tool_takes_what_it_does_not_list(name: str) -> None:
    tool = OWN_TOOLS[name]
    assert tool.definition["inputSchema"]["additionalProperties"] is False
    with pytest.raises(BadArguments) as bad:
        tool.read({"nobody/knows~this": 1})
    assert {"path": "/nobody~1knows~0this", "expected": "extra inputs are not permitted"} in bad.value.violations


# --- who answers ------------------------------------------------------------------------------------------------------


def bound(run: str = "run_t") -> RunToken:
    """The authorization for one run alone."""
    return RunToken(run=run, principal=ME, workflow="w", expires_at=T0 + 60)


AMISS = "/assumptions/0"


async def own(it: Asked, name: str, arguments: Any = None) -> Any:
    return (await it.modern("tools/call", {"name": name, "arguments": arguments}))["result"]


async def test_status_opens_no_run_and_says_which_tools_are_seen() -> None:
    it = Asked()
    found = (await own(it, "gateway__status"))["structuredContent"]
    assert (found["run"], found["offered"], found["since"]) == (None, ["echo", "numbers", "add"], None)
    assert it.gate.opened == []
    await own(it, "echo", {})
    run = it.gate.opened[0]["run"]
    found = (await own(it, "gateway__status", {"since": f"{run}#1"}))["structuredContent"]
    assert (found["run"], found["since"]) == (run, f"{run}#1")
    it.clock.tell(IDLE_S)
    assert (await own(it, "gateway__status"))["structuredContent"]["run"] is None
    assert len(it.gate.opened) == 1


async def test_status_is_about_the_run_that_the_authorization_names() -> None:
    it = Asked()
    exchange = it.modern_exchange("tools/call", {"name": "gateway__status"})
    exchange.token = bound()
    answer: Any = await it.relay.request(exchange)
    found = answer["result"]["structuredContent"]
    assert (found["run"], found["workflow"], it.gate.opened) == ("run_t", "w", [])


async def test_a_plan_and_a_note_are_of_the_run_which_they_open() -> None:
    it = Asked()
    note = {"says": "why", "sources": ["r#1"], "confidence": 1, "until": {"evidence": "t"}}
    told = [await own(it, "gateway__plan", {"objective": "green"}), await own(it, "gateway__note", note)]
    run = it.gate.opened[0]["run"]
    assert [one["structuredContent"] for one in told] == [{"run": run}] * 2
    assert it.gate.claims.said == [(run, Plan(objective="green")), (run, Note.model_validate(note))]
    assert (it.gate.proposals, len(it.gate.opened)) == ([], 1)


@pytest.mark.parametrize(
    ("name", "arguments", "path"),
    [
        ("gateway__plan", {}, "/objective"),
        ("gateway__plan", {"objective": "x", "steps": "one"}, "/steps"),
        ("gateway__plan", {"objective": "x", "assumptions": [{"says": "x", "field": "f", "equals": 1}]}, AMISS),
        ("gateway__note", {"says": "x", "sources": ["r#1"], "confidence": 1.5}, "/confidence"),
        ("gateway__note", {"says": "x", "sources": ["r#1"], "confidence": "1"}, "/confidence"),
        ("gateway__note", {"says": "x", "sources": [], "confidence": 1}, "/sources"),
        ("gateway__note", {"says": "x", "sources": ["r#1"], "confidence": 1, "expires_s": 1e9}, "/expires_s"),
        ("gateway__status", {"since": 3}, "/since"),
        ("gateway__status", [], "(root)"),
    ],
)  # fmt: skip
async def test_wrong_arguments_are_told_with_their_place_and_open_no_run(name: str, arguments: Any, path: str) -> None:
    it = Asked()
    told = await own(it, name, arguments)
    assert (told["isError"], told["structuredContent"]["outcome"]) == (True, "invalid_arguments")
    assert [one["path"] for one in told["structuredContent"]["violations"]] == [path]
    assert (it.gate.opened, it.gate.claims.said) == ([], [])


async def test_a_ledger_that_cannot_be_read_or_a_run_of_others_is_a_typed_refusal() -> None:
    for error, outcome in ((LedgerUnavailable("gone"), "ledger_unavailable"), (NoSuchRun("not yours"), "denied")):
        it = Asked()
        it.gate.open_error = error
        told = await own(it, "gateway__plan", {"objective": "x"})
        assert (told["isError"], told["structuredContent"]["outcome"]) == (True, outcome)


# --- the list of a run that is over -----------------------------------------------------------------------------------


async def tools(it: Asked, token: RunToken | None) -> list[str]:
    exchange = it.modern_exchange("tools/list")
    exchange.token = token
    answer: Any = await it.relay.request(exchange)
    return [tool["name"] for tool in answer["result"]["tools"]]


async def test_the_list_of_a_bound_client_shrinks_once_its_run_is_over_and_nobody_elses_does() -> None:
    it = Asked()
    whole = ["echo", "numbers", "add", *OWN_TOOLS]
    assert await tools(it, bound()) == whole
    it.gate.claims.ended.add("run_t")
    assert await tools(it, bound()) == [*OWN_TOOLS]
    assert [await tools(it, one) for one in (None, bound("run_u"))] == [whole, whole]


@pytest.mark.parametrize("said", [{"record": {"stopped": {}}}, {"refusal": True}])
async def test_whoever_listens_for_that_run_is_told_once_that_its_list_changed(said: dict[str, Any]) -> None:
    it = Asked()
    over = REFUSAL.model_copy(update={"outcome": Outcome.INFEASIBLE, "terminal": True})
    it.gate.answers["last"] = answering(**({"refusal": over} if "refusal" in said else {"result": {}, **said}))
    streams = []
    for token in (bound(), bound("run_u"), None):
        exchange = it.modern_exchange("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        exchange.token = token
        streams.append((exchange, asyncio.ensure_future(it.relay.request(exchange))))
    session = await it.session()
    lines = [exchange.line.sent for exchange, _ in streams]  # type: ignore[attr-defined]
    await until(lambda: all(lines))
    for name in ("echo", "last", "last"):
        exchange = it.modern_exchange("tools/call", {"name": name})
        exchange.token = bound()
        await it.relay.request(exchange)
    assert [[one["method"] for one in line[1:]] for line in lines] == [
        ["notifications/tools/list_changed"],
        [],
        [],
    ]
    assert session.session.line.sent == []  # type: ignore[attr-defined]
    it.relay.close()
    for _, work in streams:
        await work


async def test_a_legacy_client_with_such_an_authorization_hears_it_too() -> None:
    it = Asked()
    it.gate.answers["last"] = answering(result={}, record={"stopped": {}})
    session = Session("s1", ME, ToldLine())
    conversation = Conversation(it, session)
    for method, params in (
        ("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}),
        ("tools/call", {"name": "last"}),
    ):
        exchange = conversation.exchange({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        exchange.token = bound()
        await it.relay.request(exchange)
    assert session.line.sent == [{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]  # type: ignore[attr-defined]
