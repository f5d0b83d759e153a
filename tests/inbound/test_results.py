from typing import Any

import pytest

from gateway.inbound.mcp.faults import Fault
from gateway.inbound.mcp.results import (
    LIST_TTL_MS,
    answered,
    for_cache,
    for_legacy,
    for_modern,
    ledger_unavailable,
    listed,
    refused,
)
from gateway.model.answer import RECORD_KEY, Shown
from gateway.model.canonical import parse
from gateway.model.offer import Listed
from tests.inbound.fake_gate import REFUSAL

INFO = {"name": "counterfoil", "version": "1"}
INFO_KEY = "io.modelcontextprotocol/serverInfo"


@pytest.mark.parametrize(
    ("result", "record", "meta"),
    [
        ({}, None, "absent"),
        ({}, {"run": "r"}, {RECORD_KEY: {"run": "r"}}),
        ({"_meta": {"a": 1}}, {"run": "r"}, {"a": 1, RECORD_KEY: {"run": "r"}}),
        ({"_meta": {"a": 1, RECORD_KEY: "forged"}}, {"run": "r"}, {"a": 1, RECORD_KEY: {"run": "r"}}),
        ({"_meta": {"a": 1, RECORD_KEY: "forged"}}, None, {"a": 1}),
        ({"_meta": {}}, None, {}),
        ({"_meta": "no object"}, {"run": "r"}, "no object"),
    ],
)
def test_the_record_under_our_key_is_ours(result: dict[str, Any], record: Any, meta: Any) -> None:
    assert answered(Shown("r", result=result, record=record)).get("_meta", "absent") == meta


def test_what_the_gate_keeps_is_not_written_into() -> None:
    kept: dict[str, Any] = {"content": [], "_meta": {"a": 1}}
    for_modern(answered(Shown("r", result=kept, record={"run": "r"})), INFO)
    assert kept == {"content": [], "_meta": {"a": 1}}


def test_what_a_result_has_already_keeps_its_place() -> None:
    sent = {"a": 1, "ttlMs": 1.0, "cacheScope": None, "_meta": {"b": 2, INFO_KEY: 3}, "resultType": "complete"}
    assert repr(for_modern(for_cache(sent), INFO)) == repr(sent)
    assert for_cache({"cacheScope": "public"}) == {"ttlMs": 0, "cacheScope": "public"}


@pytest.mark.parametrize(
    "error", [{"code": 1, "message": "m"}, {"code": 1, "message": "m", "data": None}, {"code": 1, "message": ""}]
)
def test_an_upstream_error_keeps_what_it_had_and_gets_nothing(error: dict[str, Any]) -> None:
    with pytest.raises(Fault) as raised:
        answered(Shown("r", error=error))
    assert raised.value.error == error


def test_a_refusal_is_published_without_what_it_does_not_say() -> None:
    result = refused(REFUSAL)
    assert "approval" not in result["structuredContent"]
    assert result["structuredContent"]["executed"] is False
    assert parse(result["content"][0]["text"]) == result["structuredContent"]


def test_a_ledger_that_is_gone_is_no_end() -> None:
    refusal = ledger_unavailable("t", "disk full")
    assert (refusal.terminal, refusal.executed, refusal.tool) == (False, False, "t")


@pytest.mark.parametrize(
    ("result", "stamped"),
    [
        ({}, {"resultType": "complete", "_meta": {INFO_KEY: INFO}}),
        (
            {"resultType": "task", "_meta": {INFO_KEY: {"name": "upstream"}}},
            {"resultType": "task", "_meta": {INFO_KEY: {"name": "upstream"}}},
        ),
        ({"_meta": 1}, {"resultType": "complete", "_meta": 1}),
        ({"_meta": None}, {"resultType": "complete", "_meta": {INFO_KEY: INFO}}),
    ],
)
def test_a_modern_client_gets_what_its_era_asks_for(result: dict[str, Any], stamped: dict[str, Any]) -> None:
    assert for_modern(result, INFO) == stamped


@pytest.mark.parametrize(
    ("result", "plain"),
    [
        ({"resultType": "complete", "content": []}, {"content": []}),
        ({"resultType": "task"}, {"resultType": "task"}),
        ({"structuredContent": {"a": None}}, {"structuredContent": {"a": None}}),
        ({"structuredContent": [1], "content": [{"x": 1}]}, {"content": [{"x": 1}]}),
        ({"structuredContent": [1.0, None]}, {"content": [{"type": "text", "text": "[1.0,null]"}]}),
        ({"structuredContent": None, "content": []}, {"content": [{"type": "text", "text": "null"}]}),
    ],
)
def test_a_legacy_client_gets_what_its_era_can_take(result: dict[str, Any], plain: dict[str, Any]) -> None:
    assert for_legacy(result) == plain


@pytest.mark.parametrize(
    ("schema", "kept"), [({"type": "object"}, True), ({"type": "array"}, False), ({"anyOf": []}, False), (True, False)]
)
def test_a_legacy_list_promises_no_result_that_cannot_come(schema: Any, kept: bool) -> None:  # noqa: FBT001
    tool = {"name": "t", "x": None, "outputSchema": schema}
    [shown] = listed("tools", Listed([tool]), modern=False)["tools"]
    assert shown == (tool if kept else {"name": "t", "x": None})
    assert listed("tools", Listed([tool]), modern=True)["tools"] == [tool]


@pytest.mark.parametrize(
    ("promised", "told"),
    [(None, LIST_TTL_MS), (5, 5), (0, 0), (10**9, LIST_TTL_MS)],
    ids=["none", "short", "now", "long"],
)
def test_a_list_is_good_for_as_long_as_all_its_parts_and_no_longer_than_we_look(promised: Any, told: int) -> None:
    assert listed("tools", Listed((), promised), modern=True)["ttlMs"] == told


@pytest.mark.parametrize("public", [True, False])
def test_a_list_is_public_only_if_all_its_parts_are(public: bool) -> None:  # noqa: FBT001
    scope = listed("tools", Listed((), public=public), modern=True)["cacheScope"]
    assert scope == ("public" if public else "private")
