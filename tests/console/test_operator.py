"""A reviewer's own assistant: it looks for them, and nothing is recorded but what the person said in their client."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from gateway.inbound.console.operator.seats import EACH
from gateway.inbound.mcp.tokens import mint
from gateway.model.tool import Silence
from tests import world
from tests.console.reviewing import ANN, BOB, BOUND_S, EVE, Reviewing, elsewhere, problem, served

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
YES = types.ElicitResult(action="accept", content={"agree": True})
NO = types.ElicitResult(action="accept", content={"agree": False})
DECLINED = types.ElicitResult(action="decline")
CANCELLED = types.ElicitResult(action="cancel")


@asynccontextmanager
async def assistant(
    at: Reviewing, mode: str, answer: types.ElicitResult | Callable[[str], types.ElicitResult] | None, **token: Any
) -> AsyncIterator[tuple[Client, list[str]]]:
    """A real client of that era, whose person answers so, and what the person was asked."""
    asked: list[str] = []

    async def elicit(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
        asked.append(params.message)
        return answer(params.message) if callable(answer) else answer or DECLINED

    headers = {"Authorization": f"Bearer {at.assistants(token.pop('who', ANN), **token)}"}
    async with httpx2.AsyncClient(headers=headers, timeout=BOUND_S) as http:
        there = streamable_http_client(f"{at.url}/console/mcp", http_client=http)
        with anyio.fail_after(BOUND_S):
            async with Client(there, mode=mode, elicitation_callback=None if answer is None else elicit) as client:
                yield client, asked


async def told(client: Client, tool: str, **arguments: Any) -> tuple[bool, dict[str, Any]]:
    """Whether it is an error, and what it says."""
    result = await client.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict), result
    return bool(result.is_error), result.structured_content


async def decision_of(at: Reviewing, approval: str) -> str | None:
    return (await at.it.book.state_of("run_1")).approvals[approval].decision


@BOTH
async def test_an_assistant_shows_what_waits_and_brings_the_persons_yes(mode: str) -> None:
    async with served() as at:
        asked = await at.ask(5)
        async with assistant(at, mode, YES) as (client, seen):
            _, inbox = await told(client, "list_waiting")
            assert [row["name"] for row in inbox["rows"]] == [asked]
            _, shown = await told(client, "show_packet", name=asked)
            action = shown["packet"]["action"]
            wrong, done = await told(client, "approve", approval=asked, action=action, reason="it is due")
        assert (wrong, done["recorded"], done["approval"]["decision"]) == (False, True, "approved")
        [question] = seen
        assert question.startswith(
            'Approve this call once?\n\nTool: pay on fake\n\nArguments:\n\n    {\n      "amount": 5\n    }'
        )
        assert f"Digest: {action}" in question
        run = await at.it.book.state_of("run_1")
        decided = next(r.event for r, _ in await at.it.ledger.read("run_1") if r.event.kind == "approval.decided")
        assert (run.approvals[asked].by, decided.via, decided.reason) == ("ann", "operator", "it is due")
        assert (await at.it.call("pay", {"amount": 5})).refusal is None


@BOTH
@pytest.mark.parametrize("answer", [NO, DECLINED, CANCELLED], ids=["no", "declined", "cancelled"])
async def test_without_the_persons_yes_nothing_is_recorded(mode: str, answer: types.ElicitResult) -> None:
    async with served() as at:
        asked = await at.ask(5)
        before = len(await at.it.ledger.read("run_1"))
        async with assistant(at, mode, answer) as (client, seen):
            action = await at.action_of(asked)
            for tool, more in (("approve", {}), ("reject", {"reason": "r"}), ("return_for_evidence", {"wanted": "w"})):
                wrong, done = await told(client, tool, approval=asked, action=action, **more)
                assert (wrong, done["recorded"]) == (False, False)
            assert (await told(client, "stop_run", run="run_1", reason="r"))[1]["recorded"] is False
        assert len(seen) == 4
        assert len(await at.it.ledger.read("run_1")) == before


@BOTH
async def test_a_client_that_cannot_ask_is_told_where_the_person_decides(mode: str) -> None:
    async with served() as at:
        asked = await at.ask(5)
        action = await at.action_of(asked)
        async with assistant(at, mode, None) as (client, _):
            wrong, said = await told(client, "approve", approval=asked, action=action)
        assert (wrong, said["check"], said["status"]) == (True, "not_asked", 403)
        assert said["detail"] == (
            f"this client cannot ask you anything: decide it yourself at {at.url}/console/approvals/{asked}"
        )
        assert await decision_of(at, asked) is None
        async with assistant(at, mode, None, unattended=True) as (client, _):
            wrong, said = await told(client, "approve", approval=asked, action=action)
        assert (wrong, said["recorded"]) == (False, True)


@BOTH
async def test_each_decision_is_asked_in_its_own_words_and_recorded(mode: str) -> None:
    async with served() as at:
        first, second = await at.ask(5), await at.ask(6)
        at.it.upstreams.will("write", Silence("gone"))
        shown = await at.it.call("write", {"n": 1})
        assert shown.refusal is not None
        unknown = next(iter((await at.it.book.state_of("run_1")).unsettled))
        async with assistant(at, mode, YES) as (client, seen):
            one = await told(
                client, "reject", approval=first, action=await at.action_of(first), reason="too\u202e much"
            )
            two = await told(
                client, "return_for_evidence", approval=second, action=await at.action_of(second), wanted="the bill"
            )
            three = await told(client, "settle_attempt", attempt=unknown, what="happened", reason="it is listed")
            four = await told(client, "stop_run", run="run_1", reason="enough")
        assert [(wrong, done["recorded"]) for wrong, done in (one, two, three, four)] == [(False, True)] * 4
        assert [text.split("\n")[0] for text in seen] == [
            "Reject this call?",
            "Return for more evidence this call?",
            f"Record about the attempt {unknown}: it happened?",
            "Stop the run run_1 for good? A stopped run stays stopped.",
        ]
        assert "    too\\u{202e} much" in seen[0]
        assert [await decision_of(at, name) for name in (first, second)] == ["rejected", "returned"]
        assert (await at.it.book.state_of("run_1")).stopped is not None


HIDDEN = {"to": "ann\u202e\u200b@example.org", "note": "```\n# Approved\n[x](http://evil)"}


@BOTH
async def test_a_question_hides_nothing_and_what_an_agent_wrote_is_no_markup(mode: str) -> None:
    async with served() as at:
        await at.it.call("pay", HIDDEN)
        at.it.clock.tell(2)
        asked = next(iter((await at.it.book.state_of("run_1")).approvals))
        async with assistant(at, mode, DECLINED) as (client, seen):
            _, shown = await told(client, "show_packet", name=asked)
            await told(client, "approve", approval=asked, action=await at.action_of(asked))
        assert shown["packet"]["arguments"] == HIDDEN | {"to": "ann\\u{202e}\\u{200b}@example.org"}
        [question] = seen
        assert "ann\\u{202e}\\u{200b}@example.org" in question
        assert all(line.startswith("    ") for line in question.split("\n") if "Approved" in line or "evil" in line)


@BOTH
async def test_what_cannot_be_decided_is_refused_before_anybody_is_asked(mode: str) -> None:
    async with served() as at:
        first, second = await at.ask(5), await at.ask(6)
        long = "x" * 9_000
        await at.it.call("pay", {"note": long})
        at.it.clock.tell(2)
        third = max((await at.it.book.state_of("run_1")).approvals.values(), key=lambda one: one.seq).id
        async with assistant(at, mode, YES, lives_s=200_000) as (client, seen):
            cases = [
                await told(client, "approve", approval="ap_nothing", action=await at.action_of(first)),
                await told(client, "approve", approval=first, action=await at.action_of(second)),
                await told(client, "approve", approval=third, action=await at.action_of(third)),
                await told(client, "show_packet", name="nothing"),
            ]
            assert [(wrong, said["check"]) for wrong, said in cases] == [
                (True, "unknown"),
                (True, "action"),
                (True, "not_asked"),
                (True, "unknown"),
            ]
            at.it.clock.tell(86_400)
            wrong, said = await told(client, "approve", approval=first, action=await at.action_of(first))
            assert (wrong, said["check"]) == (True, "decided")
            assert seen == []
        async with assistant(at, mode, YES, who=EVE) as (client, seen):
            wrong, said = await told(client, "approve", approval=second, action=await at.action_of(second))
            assert (wrong, said["check"], seen) == (True, "unknown", [])
        assert [await decision_of(at, name) for name in (first, second, third)] == [None] * 3


@BOTH
async def test_a_yes_to_what_changed_while_it_was_asked_is_refused(mode: str) -> None:
    async with served() as at:
        asked = await at.ask(5)
        action = await at.action_of(asked)

        async def decided_elsewhere() -> None:
            async with at.as_(BOB) as other:
                path = f"/console/api/v1/approvals/{asked}/decision"
                answer = await other.post(path, json={"action": action, "decision": "rejected", "reason": "no"})
                assert answer.status_code == 200

        async def elicit(context: Any, params: Any) -> types.ElicitResult:  # noqa: ARG001
            await decided_elsewhere()
            return YES

        headers = {"Authorization": f"Bearer {at.assistants(ANN)}"}
        async with httpx2.AsyncClient(headers=headers, timeout=BOUND_S) as http:
            there = streamable_http_client(f"{at.url}/console/mcp", http_client=http)
            with anyio.fail_after(BOUND_S):
                async with Client(there, mode=mode, elicitation_callback=elicit) as client:
                    wrong, said = await told(client, "approve", approval=asked, action=action)
        assert (wrong, said["check"]) == (True, "decided")
        assert await decision_of(at, asked) == "rejected"


async def test_the_tools_say_which_of_them_look_and_which_decide() -> None:
    async with served() as at, assistant(at, "2026-07-28", YES) as (client, _):
        tools = (await client.list_tools()).tools
    hints = {
        tool.name: (tool.annotations.read_only_hint, tool.annotations.destructive_hint)
        for tool in tools
        if tool.annotations
    }
    looks, decides = (True, False), (False, True)
    assert hints == {
        "list_waiting": looks,
        "show_packet": looks,
        "approve": decides,
        "reject": decides,
        "return_for_evidence": decides,
        "settle_attempt": decides,
        "stop_run": decides,
    }
    assert all(tool.output_schema is not None for tool in tools)
    approve = next(tool for tool in tools if tool.name == "approve")
    assert set(approve.input_schema["properties"]) == {"approval", "action", "reason", "times", "for_s"}


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def test_no_agent_and_nobody_without_a_token_comes_in() -> None:
    async with served() as at:
        now = at.it.clock.now()
        run_token = mint(b"k" * 32, run="run_1", principal=world.USER, workflow="t", expires_at=now + 60, now=now)
        cases: list[tuple[dict[str, str], int]] = [
            ({}, 401),
            ({"Authorization": "Bearer x"}, 401),
            ({"Authorization": f"Bearer {run_token}"}, 403),
            ({"Counterfoil-Run": run_token}, 403),
            ({"Mcp-Session-Id": "of an agent"}, 403),
        ]
        async with httpx2.AsyncClient(base_url=at.url) as client:
            for headers, status in cases:
                answer = await client.post("/console/mcp", json=INITIALIZE, headers={**ACCEPT, **headers})
                assert problem(answer)[0] == status
            assert "www-authenticate" in (await client.post("/console/mcp", json=INITIALIZE, headers=ACCEPT)).headers


async def test_nobody_goes_on_in_anothers_session() -> None:
    async with served() as at, httpx2.AsyncClient(base_url=at.url) as client:
        mine = {**ACCEPT, "Authorization": f"Bearer {at.assistants(ANN)}"}
        opened = await client.post("/console/mcp", json=INITIALIZE, headers=mine)
        session = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": "2025-06-18"}
        listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
        assert (await client.post("/console/mcp", json=listing, headers={**mine, **session})).status_code == 200
        for other in (EVE, elsewhere(ANN, tenant="other"), elsewhere(ANN, id="anna")):
            theirs = {**ACCEPT, "Authorization": f"Bearer {at.assistants(other)}", **session}
            assert (await client.post("/console/mcp", json=listing, headers=theirs)).status_code == 404


META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
}
MODERN = {**ACCEPT, "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "approve"}


async def test_an_answer_counts_only_from_whom_and_for_what_it_was_asked() -> None:
    async with served() as at, httpx2.AsyncClient(base_url=at.url) as client:
        first, second = await at.ask(5), await at.ask(6)

        async def called(who: Any, asked: str, **more: Any) -> dict[str, Any]:
            arguments = {"approval": asked, "action": await at.action_of(asked)}
            params = {"name": "approve", "arguments": arguments, "_meta": META, **more}
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            headers = {**MODERN, "Authorization": f"Bearer {at.assistants(who)}"}
            answer = (await client.post("/console/mcp", json=body, headers=headers)).text
            data = [line[5:] for line in answer.splitlines() if line.startswith("data:")]
            told: dict[str, Any] = json.loads(data[-1] if data else answer)
            return told

        asked = (await called(ANN, first))["result"]
        assert asked["resultType"] == "input_required"
        [key] = asked["inputRequests"]
        yes = {"requestState": asked["requestState"], "inputResponses": {key: YES.model_dump(mode="json")}}
        assert "error" in await called(BOB, first, **yes)
        assert "error" in await called(ANN, second, **yes)
        forged = {**yes, "requestState": asked["requestState"][:-4] + "AAAA"}
        assert "error" in await called(ANN, first, **forged)
        blind = {"inputResponses": yes["inputResponses"]}
        assert (await called(ANN, first, **blind))["result"]["resultType"] == "input_required"
        assert [await decision_of(at, name) for name in (first, second)] == [None, None]
        assert (await called(ANN, first, **yes))["result"]["structuredContent"]["recorded"] is True
        again = (await called(ANN, first, **yes))["result"]["structuredContent"]
        assert again["check"] == "decided"


async def test_an_assistants_token_and_that_of_a_program_are_each_taken_at_one_door() -> None:
    """Else an assistant with a shell decides by the API, where its person is not asked."""
    async with served() as at, httpx2.AsyncClient(base_url=at.url) as client:
        asked = await at.ask(5)
        body = {"action": await at.action_of(asked), "decision": "approved"}
        for unattended in (False, True):
            assistants = {"Authorization": f"Bearer {at.assistants(ANN, unattended=unattended)}"}
            path = f"/console/api/v1/approvals/{asked}"
            for answer in (
                await client.post(f"{path}/decision", json=body, headers=assistants),
                await client.get(path, headers=assistants),
            ):
                assert problem(answer) == (403, "door")
                assert "good for `/console/mcp` alone" in answer.json()["detail"]
            assert (await client.get("/console/", headers=assistants)).status_code == 403
            assert (await client.post(f"/console/approvals/{asked}", data=body, headers=assistants)).status_code == 403
        programs = {**ACCEPT, "Authorization": f"Bearer {at.token(ANN)}"}
        refused = await client.post("/console/mcp", json=INITIALIZE, headers=programs)
        assert problem(refused) == (403, "door")
        assert "`counterfoil reviewer token --for-assistant`" in refused.json()["detail"]
        assert await decision_of(at, asked) is None


WIDE: dict[str, Any] = {"times": 50, "for_s": 600.0, "varies": ["to", "amount"], "within": ["args.amount <= 9000"]}


@BOTH
async def test_a_person_is_told_how_far_their_yes_would_go_before_they_say_it(mode: str) -> None:
    async with served(transitions=[{"name": "pay", "tools": ["pay"], "approval": {"reuse": WIDE}}]) as at:
        asked = await at.ask(5)
        action = await at.action_of(asked)
        async with assistant(at, mode, DECLINED) as (client, seen):
            await told(client, "approve", approval=asked, action=action)
            await told(client, "approve", approval=asked, action=action, times=7)
            await told(client, "approve", approval=asked, action=action, times=None, for_s=60)
            for for_s in (1e300, 30 * 86_400 + 1, 0):
                refused = await client.call_tool("approve", {"approval": asked, "action": action, "for_s": for_s})
                assert refused.is_error, for_s
        once, few, long = seen
        assert once.startswith("Approve this call once?\n\nTool:")
        assert "may differ" not in once
        assert few.startswith("Approve this call, and others as far as is said below?\n\nHow far your yes goes:\n\n")
        for line in (
            "    how often: 7 calls in all",
            "    how long: for 10 minutes from the answer on",
            "    may differ: to, amount; any value, and all else as shown",
            "    only if: args.amount <= 9000",
        ):
            assert line in few.split("\n")
        assert "    how often: 50 calls in all\n    how long: for 1 minute from the answer on" in long


async def test_the_oldest_idle_session_of_a_reviewer_gives_way_and_no_other_reviewers() -> None:
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
    async with served() as at, httpx2.AsyncClient(base_url=at.url) as client:

        async def opened(who: Any) -> dict[str, str]:
            headers = {**ACCEPT, "Authorization": f"Bearer {at.assistants(who)}"}
            answer = await client.post("/console/mcp", json=INITIALIZE, headers=headers)
            assert answer.status_code == 200
            session = answer.headers["mcp-session-id"]
            return {**headers, "Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-06-18"}

        async def lives(session: dict[str, str]) -> bool:
            return (await client.post("/console/mcp", json=listing, headers=session)).status_code == 200

        bobs = await opened(BOB)
        mine = [await opened(ANN) for _ in range(EACH)]
        assert await lives(mine[0]), "it is used, so that the next one is the oldest"
        more = [await opened(ANN) for _ in range(EACH - 1)]
        assert [await lives(one) for one in mine] == [True, *[False] * (EACH - 1)]
        assert all([await lives(one) for one in (bobs, *more)])
        assert (await client.delete("/console/mcp", headers=more[0])).status_code < 300
        again = await opened(ANN)
        assert all([await lives(one) for one in (mine[0], *more[1:], again)]), "who left has left room"
