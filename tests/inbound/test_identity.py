import os
import pwd
from collections.abc import Mapping
from typing import Any

import pytest
from starlette.datastructures import Headers

from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.inbound.mcp.identity import (
    ANONYMOUS,
    IDLE_S,
    MAX_SEATS,
    RUN_HEADER,
    Client,
    NotLetIn,
    Runs,
    client_of,
    local_user,
    party_key,
    run_token,
)
from gateway.inbound.mcp.tokens import RunToken, mint
from gateway.model.principal import Principal
from gateway.ports import LedgerUnavailable
from tests.inbound.asked import Asked, ToldLine, asked_over_http
from tests.inbound.fake_gate import T0, FakeGate, ToldClock
from tests.inbound.served import ENVELOPE, KEY, Served, modern_headers

pytestmark = pytest.mark.anyio

ALICE = Principal("alice", "acme", frozenset({"deployer"}))
TOKEN = mint(KEY, run="run_1", principal=ALICE, workflow="release", expires_at=T0 + 60, now=T0)
OTHER = mint(KEY, run="run_2", principal=ALICE, workflow="release", expires_at=T0 + 60, now=T0)
SAYS = RunToken("run_1", ALICE, "release", T0 + 60)


def headers(*tokens: str) -> Headers:
    return Headers(raw=[(RUN_HEADER.lower().encode(), token.encode()) for token in tokens])


# --- tokens -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tokens", "segment", "found"),
    [
        ((), None, None),
        ((TOKEN,), None, SAYS),
        ((), TOKEN, SAYS),
        ((TOKEN,), "run_1", SAYS),
        ((TOKEN,), TOKEN, SAYS),
    ],
)
def test_a_run_is_claimed_by_a_signed_token(tokens: tuple[str, ...], segment: str | None, found: Any) -> None:
    assert run_token(headers(*tokens), segment, KEY, T0) == found


UNSIGNED = "the path names a run, and no signed run token came with it in the header `Counterfoil-Run`: "
HOW_TO = "open one with `counterfoil run open`"
DIFFER = "the run token speaks for another run than the path names"


@pytest.mark.parametrize(
    ("tokens", "segment", "said"),
    [
        ((), "run_1", UNSIGNED + HOW_TO),
        ((TOKEN,), "run_2", DIFFER),
        ((TOKEN,), OTHER, DIFFER),
        ((TOKEN, TOKEN), None, "the header `Counterfoil-Run` stands there twice"),
        (("",), None, f"the run token is malformed: {HOW_TO}"),
        (("none",), None, f"the run token is malformed: {HOW_TO}"),
        ((), TOKEN + "x", f"the run token was not signed by this gateway: {HOW_TO}"),
        ((TOKEN,), "a.b.c", f"the run token is malformed: {HOW_TO}"),
    ],
)
def test_a_run_that_is_only_named_is_not_claimed(tokens: tuple[str, ...], segment: str | None, said: str) -> None:
    with pytest.raises(NotLetIn) as refused:
        run_token(headers(*tokens), segment, KEY, T0)
    assert str(refused.value) == said


def test_a_gateway_without_a_key_takes_no_token() -> None:
    with pytest.raises(NotLetIn) as refused:
        run_token(headers(TOKEN), None, None, T0)
    assert str(refused.value) == "this gateway takes no run tokens: it was started without a key for them"


# --- what clients say -------------------------------------------------------------------------------------------------


def asking(meta: Any = None, **more: Any) -> Exchange:
    message = {"id": 1, "method": "tools/call", "params": {"name": "t", "_meta": meta}}
    if "session" in more:
        more["session"] = Session(more["session"], ANONYMOUS, ToldLine())
    return Exchange(message, **{"principal": ANONYMOUS, "transport": "http", "line": ToldLine(), **more})


OLD = {"name": "old", "version": "2"}


@pytest.mark.parametrize(
    ("info", "meta", "process"),
    [
        (OLD, None, "old/2"),
        ({}, None, "/"),
        ({"name": 7}, None, "/"),
        (OLD, {"threadId": "t", "sessionId": "s"}, "t"),
        (OLD, {"sessionId": "s"}, "s"),
        (OLD, {"vscode.conversationId": "v"}, "v"),
        (OLD, {"threadId": 7, "sessionId": ""}, "old/2"),
    ],
)
def test_client_processes_are_told_apart_by_what_they_say(info: Any, meta: Any, process: str) -> None:
    assert client_of(asking(meta), info).process == process


def test_each_client_has_connections_of_its_own() -> None:
    exchanges = [
        asking(),
        asking(token=SAYS, principal=ALICE),
        asking(principal=ALICE),
        asking(session="s"),
        asking(session="t"),
        asking(session="s", transport="stdio"),
        asking({"threadId": "x"}),
    ]
    keys = [party_key(exchange, client_of(exchange, OLD)) for exchange in exchanges]
    assert len(set(keys)) == len(keys)
    assert party_key(asking(), client_of(asking(), OLD)) == keys[0]


def test_attribution_is_capped_text() -> None:
    exchange = asking({"threadId": "t" * 1000, "itemId": 1}, headers={"user-agent": "ua"}, session="s")
    assert client_of(exchange, {"name": "n" * 300}).attribution == {
        "client_name": "n" * 256,
        "user_agent": "ua",
        "mcp_session": "sha256:043a718774c572bd8a25adbeb1bfcd5c",
        "threadId": "t" * 256,
    }


def test_the_local_user_is_the_systems_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "root2")
    monkeypatch.setenv("LOGNAME", "root2")
    assert local_user() == Principal(f"local:{pwd.getpwuid(os.getuid()).pw_name}")
    monkeypatch.setattr(os, "getuid", lambda: 2_000_000_001)
    assert local_user() == Principal("local:2000000001")


# --- runs -------------------------------------------------------------------------------------------------------------


class Desk:
    """Runs behind a gate and a clock of their own; ids are counted."""

    def __init__(self) -> None:
        self.gate, self.clock, self.made = FakeGate(), ToldClock(), 0
        self.runs = Runs(self.gate, self._make_id, self.clock)

    def _make_id(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}_{self.made}"

    async def run_of(self, process: str = "p", **exchange: Any) -> str:
        return await self.runs.run_of(asking(**exchange), Client({"client_name": process}, process))


async def test_a_token_goes_before_everything() -> None:
    desk = Desk()
    assert await desk.run_of(token=SAYS, principal=ALICE, session="s") == "run_1"
    assert desk.gate.opened == [
        {
            "run": "run_1",
            "principal": ALICE,
            "origin": "token",
            "attribution": {"client_name": "p"},
            "workflow": "release",
            "expires_at": T0 + 60,
            "parent": None,
        }
    ]


async def test_a_stdio_process_has_one_run() -> None:
    desk = Desk()
    runs = [await desk.run_of(process, transport="stdio") for process in ("a", "b")]
    desk.clock.tell(10 * IDLE_S)
    runs.append(await desk.run_of(transport="stdio"))
    assert runs == ["run_1"] * 3
    assert [opened["origin"] for opened in desk.gate.opened] == ["process"]


async def test_each_legacy_session_has_one_run() -> None:
    desk = Desk()
    assert [await desk.run_of(session=session) for session in "stst"] == ["run_1", "run_2", "run_1", "run_2"]
    assert [opened["origin"] for opened in desk.gate.opened] == ["session", "session"]


async def test_whoever_names_nothing_shares_a_run_with_his_own_kind() -> None:
    desk = Desk()
    runs = [await desk.run_of(*who) for who in (("a",), ("b",), ("a",))]
    runs.append(await desk.run_of("a", principal=ALICE))
    assert runs == ["run_1", "run_2", "run_1", "run_3"]
    assert [opened["origin"] for opened in desk.gate.opened] == ["default"] * 3


async def test_a_default_run_rolls_over_when_it_was_idle_for_half_an_hour() -> None:
    desk = Desk()
    runs = []
    for pause_s in (0.0, IDLE_S - 1, IDLE_S - 1, IDLE_S):
        desk.clock.tell(pause_s)
        runs.append(await desk.run_of())
    assert runs == ["run_1", "run_1", "run_1", "run_2"]


async def test_whoever_comes_back_with_more_scopes_goes_on_in_the_same_run() -> None:
    desk = Desk()
    for scopes in (frozenset[str](), frozenset({"pay"})):
        for roles in (frozenset[str](), frozenset({"dev"})):
            assert await desk.run_of(principal=Principal("ann", "acme", roles, scopes)) == "run_1"
    assert await desk.run_of(principal=Principal("ann", "other")) == "run_2"


async def test_a_run_that_could_not_be_opened_is_opened_at_the_next_call() -> None:
    desk = Desk()
    desk.gate.open_error = LedgerUnavailable("full")
    with pytest.raises(LedgerUnavailable):
        await desk.run_of()
    desk.gate.open_error = None
    assert [await desk.run_of(), await desk.run_of()] == ["run_1", "run_1"]
    assert len(desk.gate.opened) == 1


async def test_runs_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SEATS == 20_000
    monkeypatch.setattr("gateway.inbound.mcp.identity.MAX_SEATS", 2)
    desk = Desk()
    assert [await desk.run_of(who) for who in "abacab"] == ["run_1", "run_2", "run_1", "run_3", "run_1", "run_4"]


async def test_who_begins_many_runs_has_nobody_forget_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.identity.MAX_SEATS", 3)
    desk = Desk()
    mine, other = Principal("ann", "acme"), Principal("ann", "other")
    first = await desk.run_of("a", principal=mine)
    for name in "abcdef":
        await desk.run_of(name, principal=other)
    assert await desk.run_of("a", principal=mine) == first
    assert len(desk.gate.opened) == 7


# --- over HTTP --------------------------------------------------------------------------------------------------------

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "_meta": ENVELOPE}}


async def called(
    it: Asked, served: Served, more: Mapping[str, str | None], *, path: str = "/mcp"
) -> tuple[int, str | None]:
    """The status, and the run of the proposal that was made of it."""
    it.gate.proposals.clear()
    answer = await served.post(CALL, {**modern_headers("tools/call", "echo"), **more}, path=path)
    return answer.status, it.gate.proposals[0].run if it.gate.proposals else None


async def test_a_token_in_header_or_path_names_principal_and_run() -> None:
    async with asked_over_http() as (it, served):
        for path, token in (("/mcp", TOKEN), (f"/runs/{TOKEN}/mcp", None), ("/runs/run_1/mcp", TOKEN)):
            assert await called(it, served, {RUN_HEADER: token}, path=path) == (200, "run_1")
            assert it.gate.proposals[0].principal == ALICE
        assert len(it.gate.opened) == 1
        served.clock.tell(60)
        assert await called(it, served, {RUN_HEADER: TOKEN}) == (403, None)


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
async def test_a_run_path_without_a_token_is_refused_in_words(method: str) -> None:
    async with asked_over_http() as (_, served):
        answer = await served.post(CALL, modern_headers("tools/call", "echo"), path="/runs/run_1/mcp", method=method)
    if method != "POST":  # in the newer era there is nothing to get or to delete
        assert answer.status == 405
        return
    assert (answer.status, answer.json["error"]["message"]) == (403, UNSIGNED + HOW_TO)
    assert answer.json["id"] is None  # nothing is read of what somebody sends who is not let in


async def test_whoever_shows_no_token_is_anonymous() -> None:
    async with asked_over_http() as (it, served):
        status, run = await called(it, served, {})
        assert (status, it.gate.proposals[0].principal) == (200, ANONYMOUS)
        assert run is not None
        assert run.startswith("run_01a3185c5000")


async def test_a_session_is_of_no_use_to_another_principal() -> None:
    async with asked_over_http() as (_, served):
        session = await served.session()
        ask = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        assert (await served.post(ask, {**session, RUN_HEADER: TOKEN})).status == 404
        assert (await served.post(b"", {**session, RUN_HEADER: TOKEN}, method="DELETE")).status == 404
        assert (await served.post(ask, dict(session))).status == 200


@pytest.mark.parametrize(
    "headers",
    [{"mcp-init-host": "evil", "router-key": "secret-api-key"}, {"X-Internal": "1"}, {"X-Remote-User": "admin"}],
)
async def test_no_header_is_magic(headers: dict[str, str | None]) -> None:
    async with asked_over_http() as (it, served):
        await called(it, served, headers)
        assert it.gate.proposals[0].principal == ANONYMOUS
