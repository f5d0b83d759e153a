from collections.abc import Mapping

from gateway.outbound.upstream.headers import headers_of, unfit
from gateway.outbound.upstream.wire import Ask

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "where": {"type": "object", "properties": {"deep": {"type": "boolean", "x-mcp-header": "Deep"}}},
        "absent": {"type": "integer", "x-mcp-header": "Absent"},
    },
}
ARGUMENTS = {"region": "Köln", "where": {"deep": True}}
COMMON = {
    "content-type": "application/json",
    "accept": "application/json, text/event-stream",
    "accept-encoding": "identity",
}


def ask(version: str | None, **headers: str) -> Ask:
    params = {"name": "näme", "arguments": ARGUMENTS}
    return Ask("tools/call", params, 1.0, version, name="näme", schema=SCHEMA, headers=headers)


def lower(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def test_the_newer_era_says_method_name_and_marked_arguments_beside_the_body() -> None:
    assert lower(headers_of(ask("2026-07-28"), {}, "s1")) == {
        **COMMON,
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "=?base64?bsOkbWU=?=",
        "mcp-param-region": "=?base64?S8O2bG4=?=",
        "mcp-param-deep": "true",
    }
    listed = headers_of(Ask("tools/list", {}, 1.0, "2026-07-28"), {}, None)
    assert lower(listed) == {**COMMON, "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/list"}


def test_the_older_era_says_version_and_session() -> None:
    assert lower(headers_of(ask("2025-06-18"), {}, "s1")) == {
        **COMMON,
        "mcp-protocol-version": "2025-06-18",
        "mcp-session-id": "s1",
    }
    assert lower(headers_of(ask(None), {}, None)) == COMMON


def test_credentials_come_from_the_configuration_and_from_nowhere_else() -> None:
    theirs = {"authorization": "Bearer theirs", "Cookie": "theirs", "Host": "theirs", "X-Key": "1", "x-mode": "theirs"}
    ours = {"Authorization": "Bearer ours", "X-Mode": "ours", "accept-encoding": "gzip"}
    assert lower(headers_of(ask(None, **theirs), ours, None)) == {
        **COMMON,
        "authorization": "Bearer ours",
        "x-key": "1",
        "x-mode": "ours",
    }


def test_a_tool_with_a_wrong_mark_is_unfit() -> None:
    assert unfit({"inputSchema": SCHEMA}) is None
    assert unfit({}) is None
    wrong = {"properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
    assert unfit({"inputSchema": wrong}) == (
        "property 'a': x-mcp-header is only permitted on integer/string/boolean properties (got 'number')"
    )
