from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.model.tool import Answer, InputRequired, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.negotiate import Agreement, Client, Unreachable, negotiate, why
from gateway.outbound.upstream.wire import Ask

US = Client("counterfoil", "1")
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "counterfoil", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
THEM = {"name": "them", "version": "2"}
DISCOVERED = ToolResult({
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "instructions": "be careful",
    "_meta": {"io.modelcontextprotocol/serverInfo": THEM},
})  # fmt: skip
INITIALIZED = ToolResult({
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": THEM,
    "instructions": "be careful",
})  # fmt: skip
MODERN = Agreement(US, "2026-07-28", THEM, {"tools": {}}, "be careful")
LEGACY = Agreement(US, "2025-06-18", THEM, {"tools": {}}, "be careful")
UNSUPPORTED = ProtocolError({"code": -32022, "message": "no", "data": {"supported": ["2026-07-28"]}})


@dataclass
class Script:
    """A channel that answers what it is told to."""

    discover: list[Answer]
    initialize: list[Answer] = field(default_factory=list)
    said: list[Any] = field(default_factory=list)

    async def ask(self, ask: Ask) -> Answer:
        self.said.append((ask.method, ask.version))
        return (self.discover if ask.method == "server/discover" else self.initialize).pop(0)

    async def notify(self, method: str, params: Mapping[str, Any], version: str) -> None:
        self.said.append((method, params, version))


async def agreed(script: Script, probe_s: float | None = 1.0) -> Agreement:
    return await negotiate(script, US, probe_s=probe_s, timeout_s=5.0)


async def test_who_answers_discover_is_spoken_to_in_the_newer_era() -> None:
    script = Script([DISCOVERED])
    assert await agreed(script) == MODERN
    assert script.said == [("server/discover", "2026-07-28")]


@pytest.mark.parametrize(
    "answer",
    [
        ProtocolError({"code": -32602, "message": "Invalid request parameters"}),
        ProtocolError({"code": -32022, "message": "no"}),
        Silence("no answer within 3 s"),
        NotSent("refused the call", refused=True),
        ToolResult({}),
        ToolResult({"supportedVersions": ["2027-01-01", "2025-11-25"]}),
        InputRequired({}),
    ],
)
async def test_any_other_answer_to_discover_means_the_older_era(answer: Answer) -> None:
    script = Script([answer], [INITIALIZED])
    assert await agreed(script) == LEGACY
    assert script.said[1:] == [("initialize", None), ("notifications/initialized", {}, "2025-06-18")]


async def test_nothing_is_known_of_who_is_not_there() -> None:
    script = Script([NotSent("connection refused")])
    with pytest.raises(Unreachable, match=r"^connection refused$"):
        await agreed(script)
    assert script.said == [("server/discover", "2026-07-28")]


async def test_who_refuses_the_version_that_it_speaks_is_asked_once_more() -> None:
    script = Script([UNSUPPORTED, DISCOVERED])
    assert await agreed(script) == MODERN
    assert [method for method, *_ in script.said] == ["server/discover"] * 2
    assert await agreed(Script([UNSUPPORTED, UNSUPPORTED], [INITIALIZED])) == LEGACY


async def test_who_must_not_be_probed_is_initialized_at_once() -> None:
    assert await agreed(Script([], [INITIALIZED]), probe_s=None) == LEGACY


async def test_who_answered_the_probe_too_late_is_discovered_after_all() -> None:
    assert await agreed(Script([Silence("late"), DISCOVERED], [UNSUPPORTED])) == MODERN


@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000])
async def test_who_refuses_the_older_era_in_any_words_is_asked_for_the_newer(code: int) -> None:
    refusal = ProtocolError({"code": code, "message": "Method not found"})
    assert await agreed(Script([DISCOVERED], [refusal]), probe_s=None) == MODERN
    with pytest.raises(Unreachable, match=f"^initialize failed: {code} Method not found$"):
        await agreed(Script([Silence("a")], [refusal]), probe_s=None)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (Script([Silence("a"), Silence("b")], [UNSUPPORTED]), "initialize failed: -32022 no"),
        (Script([Silence("a")], [NotSent("refused")]), "initialize failed: refused"),
        (Script([Silence("a")], [InputRequired({})]), "initialize failed: the answer is not a complete result"),
        (
            Script([Silence("a")], [ProtocolError({"code": 1, "message": "a\x1b\nb", "data": 1})]),
            "initialize failed: 1 a\\x1b\\nb",
        ),
        (
            Script([Silence("a")], [ToolResult({"protocolVersion": "2099-01-01"})]),
            "it speaks the protocol version `2099-01-01`, which we do not",
        ),
    ],
)
async def test_without_an_agreement_the_reason_is_said(script: Script, reason: str) -> None:
    with pytest.raises(Unreachable) as unreachable:
        await agreed(script)
    assert str(unreachable.value) == reason


async def test_what_a_server_says_of_itself_may_be_nonsense() -> None:
    odd = {"protocolVersion": "2024-11-05", "serverInfo": 1, "capabilities": [], "instructions": {}}
    assert await agreed(Script([], [ToolResult(odd)]), None) == Agreement(US, "2024-11-05", {}, {}, "")


def test_params_carry_the_envelope_of_their_era_and_the_meta_of_the_caller() -> None:
    theirs = {**ENVELOPE, "io.modelcontextprotocol/clientCapabilities": {"roots": {}}, "traceparent": "00-1"}
    assert MODERN.params({"name": "a"}, theirs) == {"name": "a", "_meta": {"traceparent": "00-1", **ENVELOPE}}
    assert MODERN.params({}, {}) == {"_meta": ENVELOPE}
    assert LEGACY.params({"name": "a"}, theirs) == {"name": "a", "_meta": {"traceparent": "00-1"}}
    assert LEGACY.params({"name": "a"}, ENVELOPE) == {"name": "a"}


def test_why_is_one_line() -> None:
    assert why(Silence("quiet")) == "quiet"
