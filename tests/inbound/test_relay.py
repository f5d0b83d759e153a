"""Who answers what, in both eras; the transports have tests of their own."""

import json
import logging
from typing import Any

import pytest

from gateway.inbound.mcp.own_tools import OWN_DEFINITIONS
from gateway.inbound.mcp.relay import INSTRUCTIONS, THEIRS
from gateway.model.answer import RECORD_KEY
from gateway.model.canonical import digest
from gateway.model.tool import NotSent, ProtocolError, Silence, ToolResult
from gateway.ports import LedgerUnavailable, NoSuchRun
from tests.inbound.asked import Asked
from tests.inbound.fake_gate import RECORD, REFUSAL, TOOLS, answering

SERVER_INFO = {"name": "counterfoil", "title": "Counterfoil", "version": "9.9"}
STAMP = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def ask(it: Asked, era: str, method: str, params: dict[str, Any] | None = None) -> Any:
    if era == "modern":
        return await it.modern(method, params)
    return await (await it.session()).ask(method, params)


@ERAS
async def test_the_gate_sees_exactly_the_arguments_that_were_sent(era: str) -> None:
    it = Asked()
    arguments = {"big": 2**90, "float": 1.0, "int": 1, "null": None, "": {"__proto__": [None]}, "astral": "\U0001f600"}
    await ask(it, era, "tools/call", {"name": "echo", "arguments": arguments})
    [proposal] = it.gate.proposals
    assert repr(proposal.arguments) == repr(arguments)
    assert proposal.arguments_digest == digest(arguments, it.gate.salt)


@ERAS
@pytest.mark.parametrize("more", [{}, {"arguments": None}, {"arguments": {}}])
async def test_no_arguments_are_an_empty_object(era: str, more: dict[str, Any]) -> None:
    it = Asked()
    await ask(it, era, "tools/call", {"name": "echo", **more})
    assert it.gate.proposals[0].arguments == {}


@ERAS
@pytest.mark.parametrize("params", [{"name": "", "arguments": {}}, {"name": "echo", "arguments": []}, {}])
async def test_a_call_that_names_no_tool_or_no_arguments_opens_no_run(era: str, params: dict[str, Any]) -> None:
    it = Asked()
    answer = await ask(it, era, "tools/call", params)
    assert answer["error"]["code"] == -32602
    assert (it.gate.proposals, it.gate.opened) == ([], [])


RESULT: dict[str, Any] = {
    "content": [
        {"type": "text", "text": "\u2028\U0001f600", "x-vendor": None, "annotations": {"priority": 1.0}},
        {"type": "hologram", "cells": [[None]]},
    ],
    "structuredContent": {"n": 2**70, "f": 1.0, "gone": None},
    "isError": False,
    "vendor": {"kept": None},
    "nothing": None,
    "_meta": {"upstream/key": None},
}


@ERAS
async def test_a_result_is_relayed_as_it_is(era: str) -> None:
    it = Asked()
    it.gate.answers["t"] = answering(result=RESULT, record=RECORD)
    result = (await ask(it, era, "tools/call", {"name": "t"}))["result"]
    expected = {**RESULT, "_meta": {**(STAMP if era == "modern" else {}), "upstream/key": None, RECORD_KEY: RECORD}}
    if era == "modern":
        expected = {"resultType": "complete", **expected}
    assert repr(result) == repr(expected)


@ERAS
@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": {"tray": None, "n": 2**70}, "vendor": [1.0]}])
async def test_an_error_of_the_upstream_is_relayed_as_it_is(era: str, data: dict[str, Any]) -> None:
    it = Asked()
    error = {"code": -31001, "message": "out of paper", **data}
    it.gate.answers["t"] = answering(error=error)
    assert (await ask(it, era, "tools/call", {"name": "t"}))["error"] == error


@ERAS
async def test_a_refusal_is_told_twice_in_one_result(era: str) -> None:
    it = Asked()
    it.gate.answers["pay"] = answering(refusal=REFUSAL)
    result = (await ask(it, era, "tools/call", {"name": "pay"}))["result"]
    told = REFUSAL.model_dump(mode="json", exclude_none=True)
    assert (result["isError"], result["structuredContent"], len(result["content"])) == (True, told, 1)
    assert json.loads(result["content"][0]["text"]) == told


@ERAS
async def test_a_ledger_that_cannot_open_the_run_is_a_typed_refusal(era: str) -> None:
    it = Asked()
    it.gate.open_error = LedgerUnavailable("disk full")
    refused = (await ask(it, era, "tools/call", {"name": "t"}))["result"]["structuredContent"]
    assert (refused["outcome"], refused["executed"], refused["tool"]) == ("ledger_unavailable", False, "t")
    assert it.gate.proposals == []


@ERAS
async def test_a_run_that_belongs_to_somebody_else_is_a_typed_refusal(era: str) -> None:
    it = Asked()
    it.gate.open_error = NoSuchRun("run `run_1` belongs to another principal")
    refused = (await ask(it, era, "tools/call", {"name": "t"}))["result"]["structuredContent"]
    assert (refused["outcome"], refused["reason"]) == ("denied", "run `run_1` belongs to another principal")


@ERAS
async def test_an_attempt_that_nobody_knows_says_nothing_against_the_run(era: str) -> None:
    asked = {"name": "gateway__result", "arguments": {"attempt": "run_x.3"}}
    refused = (await ask(Asked(), era, "tools/call", asked))["result"]["structuredContent"]
    assert (refused["outcome"], refused["reason"]) == ("denied", "no attempt `run_x.3` is known")
    assert (
        refused["next"] == "Nothing was executed. Call again with the `attempt` of the `in_flight` answer, unchanged."
    )


@ERAS
async def test_what_fails_inside_says_nothing_of_what_it_was(era: str, caplog: pytest.LogCaptureFixture) -> None:
    it = Asked()
    it.offers.owners["prompts/get"] = "up"

    async def broken(_: Any) -> Any:
        raise RuntimeError("the password is 1234")

    it.offers.answers["prompts/get"] = broken
    with caplog.at_level(logging.CRITICAL):
        answer = await ask(it, era, "prompts/get", {"name": "p"})
    assert answer["error"] == {"code": -32603, "message": "internal error"}


# --- lists ------------------------------------------------------------------------------------------------------------


async def test_definitions_are_listed_unchanged_for_a_modern_client() -> None:
    listed = (await Asked().modern("tools/list"))["result"]
    assert listed == {
        "_meta": STAMP,
        "resultType": "complete",
        "tools": [*TOOLS, *OWN_DEFINITIONS],
        "ttlMs": 10_000,
        "cacheScope": "private",
    }


async def test_for_a_legacy_client_only_output_schemas_that_are_no_object_are_left_out() -> None:
    listed = (await (await Asked().session()).ask("tools/list"))["result"]
    numbers = {key: value for key, value in TOOLS[1].items() if key != "outputSchema"}
    assert listed == {"tools": [TOOLS[0], numbers, TOOLS[2], *OWN_DEFINITIONS]}


@ERAS
@pytest.mark.parametrize(
    ("method", "kind", "capability"),
    [
        ("prompts/list", "prompts", "prompts"),
        ("resources/list", "resources", "resources"),
        ("resources/templates/list", "resourceTemplates", "resources"),
    ],
)
async def test_what_no_upstream_has_is_no_method_and_what_one_has_is_listed(
    era: str, method: str, kind: Any, capability: str
) -> None:
    it = Asked()
    assert (await ask(it, era, method))["error"]["code"] == -32601
    it.offers.said[capability] = {}
    assert (await ask(it, era, method))["result"][kind] == []
    it.offers.items[kind] = [{"name": "one", "x": None}]
    assert (await ask(it, era, method))["result"][kind] == [{"name": "one", "x": None}]


@ERAS
async def test_a_cursor_that_was_never_given_out_is_refused(era: str) -> None:
    assert (await ask(Asked(), era, "tools/list", {"cursor": "page2"}))["error"]["code"] == -32602


# --- introductions ----------------------------------------------------------------------------------------------------


async def test_a_modern_client_is_introduced_to_what_upstreams_have() -> None:
    it = Asked()
    it.offers.said = {"prompts": {"listChanged": True}, "extensions": {"io.modelcontextprotocol/ui": {}}}
    result = (await it.modern("server/discover"))["result"]
    assert result.pop("instructions") == f"{INSTRUCTIONS}\n\n{THEIRS}\n\nThe upstream says hello."
    assert result == {
        "_meta": STAMP,
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {
            "prompts": {"listChanged": True},
            "tools": {"listChanged": True},
            "extensions": {"io.modelcontextprotocol/ui": {}, "io.modelcontextprotocol/tasks": {}},
        },
        "ttlMs": 10_000,
        "cacheScope": "private",
    }


@pytest.mark.parametrize(
    ("asked", "given"),
    [
        *((one, one) for one in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")),
        *((one, "2025-11-25") for one in ("2026-07-28", "1999-01-01")),
    ],
)
async def test_a_legacy_client_is_introduced_in_its_own_version(asked: str, given: str) -> None:
    it = Asked()
    it.offers.said = {"logging": {}, "resources": {"subscribe": True}}
    conversation = await it.session(version=asked)
    result = conversation.opened["result"]
    assert result.pop("instructions") == f"{INSTRUCTIONS}\n\n{THEIRS}\n\nThe upstream says hello."
    assert result == {
        "protocolVersion": given,
        "capabilities": {"logging": {}, "resources": {"subscribe": True}, "tools": {"listChanged": True}},
        "serverInfo": SERVER_INFO,
    }
    assert conversation.session.version == given


async def test_initialize_comes_first_and_once() -> None:
    it = Asked()
    conversation = await it.session()
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}
    assert (await conversation.ask("initialize", params))["error"]["code"] == -32600
    conversation.session.version = None
    assert (await conversation.ask("tools/list"))["error"] == {"code": -32600, "message": "`initialize` comes first"}
    assert (await conversation.ask("ping"))["result"] == {}


@pytest.mark.parametrize("params", [{}, {"protocolVersion": 1}, {"protocolVersion": "2025-11-25", "capabilities": []}])
async def test_what_does_not_fit_initialize_is_the_clients_fault(params: dict[str, Any]) -> None:
    conversation = await Asked().session()
    conversation.session.version = None
    assert (await conversation.ask("initialize", params))["error"]["code"] == -32602
    assert conversation.session.version is None


@pytest.mark.parametrize(
    ("era", "method"),
    [
        *(("modern", name) for name in ("initialize", "ping", "logging/setLevel", "resources/subscribe")),
        *(("legacy", name) for name in ("server/discover", "subscriptions/listen", "tasks/get", "tasks/cancel")),
    ],
)
async def test_methods_of_the_other_era_are_none(era: str, method: str) -> None:
    it = Asked()
    it.offers.owners[method] = "up"
    assert (await ask(it, era, method, {}))["error"]["code"] == -32601
    assert it.offers.asked == []


# --- what goes to its owner -------------------------------------------------------------------------------------------


@ERAS
async def test_what_a_person_has_stopped_is_not_relayed_either(era: str) -> None:
    it = Asked()
    it.offers.owners["resources/read"] = "up"
    it.gate.stopped = "`boss` has stopped everything (switch 1): a fire"
    answer = await ask(it, era, "resources/read", {"uri": "file:///x"})
    assert answer["error"] == {"code": -32600, "message": it.gate.stopped}
    if era == "legacy":
        watched = await ask(it, era, "resources/subscribe", {"uri": "file:///x"})
        assert watched["error"] == {"code": -32600, "message": it.gate.stopped}
    assert it.offers.asked == []


@ERAS
@pytest.mark.parametrize("method", ["prompts/get", "resources/read", "completion/complete", "vendor.example/do"])
async def test_what_an_upstream_owns_is_answered_by_it_as_it_is(era: str, method: str) -> None:
    it = Asked()
    it.offers.owners[method] = "up"
    answer = {"x": [None, 1.0, 2**70], "_meta": {"k": 1}, "ttlMs": 5, "cacheScope": "public"}
    it.offers.answers[method] = ToolResult(answer)
    params = {"name": "n", "uri": "u", "vendor": None, "_meta": {"their/key": 1, "counterfoil/mine": 2}}
    if era == "modern":
        answered = await it.modern(method, {k: v for k, v in params.items() if k != "_meta"}, meta=params["_meta"])
        expected = {"resultType": "complete", **answer, "_meta": {**STAMP, "k": 1}}
    else:
        answered, expected = await ask(it, era, method, params), answer
    assert answered["result"] == expected
    [(route, asked, meta, _)] = it.offers.asked
    assert (asked, dict(route.params)) == (method, {"name": "n", "uri": "u", "vendor": None})
    assert meta["their/key"] == 1
    assert "counterfoil/mine" not in meta


@ERAS
async def test_a_method_that_nobody_owns_is_none(era: str) -> None:
    assert (await ask(Asked(), era, "vendor.example/do"))["error"]["code"] == -32601


@pytest.mark.parametrize(("era", "code"), [("modern", -32602), ("legacy", -32002)])
async def test_a_resource_that_nobody_has_is_not_found_in_the_words_of_the_era(era: str, code: int) -> None:
    it = Asked()
    it.offers.said["resources"] = {}
    answer = await ask(it, era, "resources/read", {"uri": "file:///x"})
    assert answer["error"] == {"code": code, "message": "Resource not found", "data": {"uri": "file:///x"}}
    it.offers.owners["resources/read"] = "up"
    it.offers.answers["resources/read"] = ProtocolError({"code": -32002, "message": "gone", "data": None})
    answer = await ask(it, era, "resources/read", {"uri": "file:///x"})
    assert answer["error"] == {"code": code, "message": "gone", "data": None}


@ERAS
@pytest.mark.parametrize("answer", [NotSent("it is down"), Silence("it is down")])
async def test_an_upstream_that_does_not_answer_is_an_error_that_says_so(era: str, answer: Any) -> None:
    it = Asked()
    it.offers.owners["prompts/get"] = "up"
    it.offers.answers["prompts/get"] = answer
    assert (await ask(it, era, "prompts/get", {"name": "x"}))["error"] == {"code": -32603, "message": "it is down"}


async def test_a_resource_of_an_older_server_gets_caching_hints_that_promise_nothing() -> None:
    it = Asked()
    it.offers.owners["resources/read"] = "up"
    it.offers.answers["resources/read"] = ToolResult({"contents": []})
    result = (await it.modern("resources/read", {"uri": "u"}))["result"]
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
