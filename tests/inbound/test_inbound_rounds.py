"""Calls of modern clients that take several rounds, tasks, streams; and what a legacy client is asked meanwhile."""

import asyncio
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from gateway.inbound.mcp.rounds import LIVES_S
from gateway.model.answer import Shown
from gateway.model.canonical import Digest
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.tool import InputRequired, ToolResult
from gateway.ports import Caller
from tests.inbound.asked import Asked, until
from tests.inbound.fake_gate import answering

ELICIT = {"message": "Who?", "requestedSchema": {"type": "object"}}
CAN: Mapping[str, Any] = {"elicitation": {"form": {}, "url": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}}


def asks(it: Asked, tool: str = "t", *, method: str = "elicitation/create", params: Mapping[str, Any] = ELICIT) -> None:
    """The tool's upstream asks its client in the middle of the call, and answers with what it heard."""

    async def answer(proposal: Proposal) -> Shown:
        heard = await it.gate.callers[-1].ask(method, params)
        said = dict(heard.result) if isinstance(heard, ToolResult) else {"failed": repr(heard)}
        return Shown(proposal.run, "a.1", {"content": [], "structuredContent": said})

    it.gate.answers[tool] = answer


# --- a server of the older era: the work is parked --------------------------------------------------------------------


async def test_what_an_older_server_asks_is_brought_with_the_next_round() -> None:
    it = Asked()
    asks(it, params={**ELICIT, "elicitationId": "e"})
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    assert first["resultType"] == "input_required"
    assert first["inputRequests"] == {"q1": {"method": "elicitation/create", "params": ELICIT}}
    assert it.gate.finished == []
    brought = {"q1": {"action": "accept", "content": {"name": "Ada"}}}
    again = {"name": "t", "inputResponses": brought, "requestState": first["requestState"]}
    done = (await it.modern("tools/call", again, can=CAN))["result"]
    assert done["structuredContent"] == brought["q1"]
    assert len(it.gate.proposals) == 1


async def test_a_person_who_stopped_the_call_stops_its_further_rounds_until_it_may_go_on() -> None:
    it = Asked()
    asks(it)
    it.offers.owners["t"] = "up"
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    again = {"name": "t", "inputResponses": {"q1": {"action": "accept"}}, "requestState": first["requestState"]}
    it.gate.stopped = "`boss` has stopped the tool `t` (switch 1): it pays twice"
    told = await it.modern("tools/call", again, can=CAN)
    assert told["error"] == {"code": -32600, "message": it.gate.stopped}
    assert it.gate.looked == [("me", ("up",), "t")]
    assert it.gate.finished == []
    it.gate.stopped = None
    done = (await it.modern("tools/call", again, can=CAN))["result"]
    assert done["structuredContent"] == {"action": "accept"}


async def test_a_round_that_brings_nothing_is_asked_again() -> None:
    it = Asked()
    asks(it)
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    again = {"name": "t", "inputResponses": {"else": {}}, "requestState": first["requestState"]}
    second = (await it.modern("tools/call", again, can=CAN))["result"]
    assert second["inputRequests"] == first["inputRequests"]
    it.relay.close()
    await until(lambda: it.gate.finished)
    assert "did not bring" in str(it.gate.finished[0].result)


async def test_a_state_is_good_once_and_for_its_own_request() -> None:
    it = Asked()
    asks(it)
    first = (await it.modern("tools/call", {"name": "t", "arguments": {"a": 1}}, can=CAN))["result"]
    state = {"inputResponses": {"q1": {}}, "requestState": first["requestState"]}
    another = "`requestState` cannot be used: it was given out for another request"
    none = "`requestState` cannot be used: it is not a state that this gateway gave out to you, or was changed"
    for params, principal, why in (
        ({"name": "t", "arguments": {"a": 2}}, Principal("me"), another),
        ({"name": "u", "arguments": {"a": 1}}, Principal("me"), another),
        ({"name": "t", "arguments": {"a": 1}}, Principal("you"), none),
    ):
        answer = await it.modern("tools/call", {**params, **state}, can=CAN, principal=principal)
        assert (answer["error"]["code"], answer["error"]["message"]) == (-32602, why)
    good = {"name": "t", "arguments": {"a": 1}, **state}
    assert "result" in await it.modern("tools/call", good, can=CAN)
    assert (await it.modern("tools/call", good, can=CAN))["error"]["code"] == -32602
    assert len(it.gate.proposals) == 1


@pytest.mark.parametrize("state", ["", "x", "A" * 80, 7, None, {}])
async def test_a_state_that_was_tampered_with_is_refused(state: Any) -> None:
    it = Asked()
    answer = await it.modern("tools/call", {"name": "t", "requestState": state}, can=CAN)
    assert answer["error"]["code"] == -32602
    assert it.gate.proposals == []


async def test_a_state_expires() -> None:
    it = Asked()
    asks(it)
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    it.clock.tell(LIVES_S + 1)
    answer = await it.modern("tools/call", {"name": "t", "requestState": first["requestState"]}, can=CAN)
    assert answer["error"] == {"code": -32602, "message": "`requestState` cannot be used: it has expired"}


async def test_who_has_many_requests_wait_for_them_gives_up_only_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.rounds.MAX_PARKED", 2)
    it = Asked()
    asks(it)
    mine = (await it.modern("tools/call", {"name": "t"}, can=CAN, principal=Principal("ann", "acme")))["result"]
    for _ in range(3):
        await it.modern("tools/call", {"name": "t"}, can=CAN, principal=Principal("ann", "other"))
    await until(lambda: len(it.gate.finished) == 2)
    again = {"name": "t", "inputResponses": {"q1": {"action": "accept"}}, "requestState": mine["requestState"]}
    done = await it.modern("tools/call", again, can=CAN, principal=Principal("ann", "acme"))
    assert done["result"]["structuredContent"] == {"action": "accept"}


async def test_a_client_is_never_asked_what_it_did_not_say_it_can() -> None:
    it = Asked()
    asks(it, method="sampling/createMessage")
    result = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    assert "cannot be asked for `sampling/createMessage`" in str(result["structuredContent"])


@pytest.mark.parametrize("method", ["completion/complete", "vendor/own"])
async def test_what_has_no_rounds_is_not_kept_waiting_by_a_question(method: str) -> None:
    it = Asked()

    async def answer(caller: Caller) -> ToolResult:
        return ToolResult({"heard": repr(await caller.ask("elicitation/create", ELICIT))})

    it.offers.owners[method], it.offers.answers[method] = "u", answer
    told = (await it.modern(method, {}, can=CAN))["result"]
    assert "cannot be asked" in told["heard"]


async def test_a_client_that_leaves_while_it_is_waited_for_withdraws_the_call() -> None:
    it = Asked()
    gate = asyncio.Event()

    async def slow(proposal: Proposal) -> Shown:
        await gate.wait()
        return Shown(proposal.run, result={})

    it.gate.answers["t"] = slow
    exchange = it.modern_exchange("tools/call", {"name": "t"}, can=CAN)
    work = asyncio.ensure_future(it.relay.request(exchange))
    await until(lambda: it.gate.callers)
    exchange.withdrawal.say(cancelled=False)
    assert (it.gate.callers[0].withdrawal.gone, it.gate.callers[0].withdrawal.said) == (True, False)
    gate.set()
    await work


async def test_what_is_asked_of_a_client_that_leaves_at_that_moment_is_answered_by_nobody() -> None:
    it = Asked()
    exchange = it.modern_exchange("tools/call", {"name": "t"}, can=CAN)

    async def answer(proposal: Proposal) -> Shown:
        asked = asyncio.ensure_future(it.gate.callers[-1].ask("elicitation/create", ELICIT))
        await asyncio.sleep(0)
        exchange.withdrawal.say(cancelled=False)
        return Shown(proposal.run, result={"heard": repr(await asked)})

    it.gate.answers["t"] = answer
    with anyio.fail_after(5):
        await it.relay.request(exchange)
    assert "did not bring" in str(it.gate.finished[0].result)


async def test_progress_and_logs_come_as_the_client_asked_for_them() -> None:
    it = Asked()

    async def telling(proposal: Proposal) -> Shown:
        caller = it.gate.callers[-1]
        caller.tell("notifications/progress", {"progressToken": "gw-1", "progress": 1, "total": 2.0, "x": None})
        caller.tell("notifications/message", {"level": "info", "data": "no"})
        caller.tell("notifications/message", {"level": "error", "data": "yes"})
        caller.tell("notifications/elicitation/complete", {"elicitationId": "of 2025-11-25 alone"})
        return Shown(proposal.run, result={})

    it.gate.answers["t"] = telling
    meta = {"progressToken": 7, "io.modelcontextprotocol/logLevel": "warning"}
    exchange = it.modern_exchange("tools/call", {"name": "t"}, meta=meta)
    await it.relay.request(exchange)
    assert exchange.line.sent == [  # type: ignore[attr-defined]
        {
            "jsonrpc": "2.0",
            "method": "notifications/progress",
            "params": {"progressToken": 7, "progress": 1, "total": 2.0, "x": None},
        },
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": "yes"}},
    ]
    silent = it.modern_exchange("tools/call", {"name": "t"})
    await it.relay.request(silent)
    assert silent.line.sent == []  # type: ignore[attr-defined]


# --- a server of the newer era: the state is sealed -------------------------------------------------------------------

QUESTION = {"resultType": "input_required", "inputRequests": {"k": {"method": "roots/list"}}, "vendor": None}


async def test_the_state_of_a_newer_server_comes_back_to_it_and_resumes_the_attempt() -> None:
    it = Asked()
    shown = {"result": {**QUESTION, "requestState": "inner"}, "awaits": "input", "round": Digest("c1:r")}
    it.gate.answers["t"] = answering(**shown)
    first = (await it.modern("tools/call", {"name": "t", "arguments": {"a": 1}}, can=CAN))["result"]
    assert {**first, "requestState": ""} == {**QUESTION, "requestState": "", "_meta": first["_meta"]}
    assert "inner" not in first["requestState"]
    again = {"name": "t", "arguments": {"a": 1}, "inputResponses": {"k": {"roots": []}}}
    await it.modern("tools/call", {**again, "requestState": first["requestState"]}, can=CAN)
    [opening, resuming] = it.gate.proposals
    assert opening.resumes is None
    assert resuming.resumes is not None
    assert (resuming.resumes.attempt, resuming.resumes.round) == ("att_1", "c1:r")
    assert resuming.more == {"inputResponses": {"k": {"roots": []}}, "requestState": "inner"}
    assert resuming.run == opening.run


async def test_a_newer_server_that_keeps_no_state_gets_none_back() -> None:
    it = Asked()
    it.gate.answers["t"] = answering(result=QUESTION, awaits="input", round=Digest("c1:r"))
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    again = {"name": "t", "inputResponses": {"k": {}}, "requestState": first["requestState"]}
    await it.modern("tools/call", again, can=CAN)
    assert it.gate.proposals[1].resumes is not None
    assert it.gate.proposals[1].more == {"inputResponses": {"k": {}}}


async def test_prompts_and_resources_have_rounds_too() -> None:
    it = Asked()
    it.offers.owners["prompts/get"] = "up"
    it.offers.answers["prompts/get"] = InputRequired({**QUESTION, "requestState": "inner"})
    first = (await it.modern("prompts/get", {"name": "p"}, can=CAN))["result"]
    assert first["inputRequests"] == QUESTION["inputRequests"]
    it.offers.answers["prompts/get"] = ToolResult({"messages": []})
    again = {"name": "p", "inputResponses": {"k": {}}, "requestState": first["requestState"]}
    assert (await it.modern("prompts/get", again, can=CAN))["result"]["messages"] == []
    route, _, _, upstream = it.offers.asked[-1]
    assert dict(route.params) == {"name": "p", "inputResponses": {"k": {}}, "requestState": "inner"}
    assert upstream == "up"


async def test_what_an_older_server_asks_for_a_prompt_is_brought_with_the_next_round() -> None:
    it = Asked()
    it.offers.owners["prompts/get"] = "up"

    async def asking(caller: Any) -> Any:
        return await caller.ask("elicitation/create", ELICIT)

    it.offers.answers["prompts/get"] = asking
    first = (await it.modern("prompts/get", {"name": "p"}, can=CAN))["result"]
    again = {"name": "p", "inputResponses": {"q1": {"action": "decline"}}, "requestState": first["requestState"]}
    assert (await it.modern("prompts/get", again, can=CAN))["result"]["action"] == "decline"


async def test_addresses_to_visit_become_a_round_for_a_client_that_can_visit() -> None:
    it = Asked()
    visit = {"mode": "url", "elicitationId": "e", "url": "https://example.test/", "message": "Sign in"}
    error = {"code": -32042, "message": "visit first", "data": {"elicitations": [visit]}}
    it.gate.answers["t"] = answering(error=error)
    first = (await it.modern("tools/call", {"name": "t"}, can=CAN))["result"]
    without = {key: value for key, value in visit.items() if key != "elicitationId"}
    assert first["inputRequests"] == {"visit-1": {"method": "elicitation/create", "params": without}}
    it.gate.answers["t"] = answering(result={"content": []})
    again = {"name": "t", "inputResponses": {"visit-1": {"action": "accept"}}, "requestState": first["requestState"]}
    assert (await it.modern("tools/call", again, can=CAN))["result"]["content"] == []
    assert it.gate.proposals[1].resumes is None
    it.gate.answers["t"] = answering(error=error)
    assert (await it.modern("tools/call", {"name": "t"}))["error"] == error


# --- what a legacy client is asked ------------------------------------------------------------------------------------


async def test_a_legacy_client_is_asked_in_the_middle_of_its_request() -> None:
    it = Asked()
    asks(it, params={**ELICIT, "mode": "url", "_meta": {"progressToken": "theirs"}})
    conversation = await it.session(can={"elicitation": {}})
    _, work = conversation.begin("tools/call", {"name": "t"})
    await until(lambda: conversation.line.sent)
    [question] = conversation.line.sent
    assert question["method"] == "elicitation/create"
    assert question["params"].pop("elicitationId")
    conversation.reply({"id": question["id"], "result": {"action": "accept", "x": None}})
    answer = await work
    assert answer is not None
    assert answer["result"]["structuredContent"] == {"action": "accept", "x": None}


async def test_a_question_that_its_upstream_takes_back_is_withdrawn_at_the_client() -> None:
    it = Asked()
    conversation = await it.session(can={"roots": {}})

    async def impatient(proposal: Proposal) -> Shown:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await it.gate.callers[-1].ask("roots/list", {})
        return Shown(proposal.run, result={})

    it.gate.answers["t"] = impatient
    await conversation.ask("tools/call", {"name": "t"})
    question, withdrawn = conversation.line.sent
    assert withdrawn["method"] == "notifications/cancelled"
    assert withdrawn["params"]["requestId"] == question["id"]


async def test_the_clients_progress_with_a_question_reaches_who_asked() -> None:
    it = Asked()
    heard: list[Any] = []
    conversation = await it.session(can={"sampling": {}})

    async def answer(proposal: Proposal) -> Shown:
        params = {"_meta": {"progressToken": "up-1"}}
        await it.gate.callers[-1].ask("sampling/createMessage", params, lambda *said: heard.append(said))
        return Shown(proposal.run, result={})

    it.gate.answers["t"] = answer
    _, work = conversation.begin("tools/call", {"name": "t"})
    await until(lambda: conversation.line.sent)
    [question] = conversation.line.sent
    token = question["params"]["_meta"]["progressToken"]
    conversation.say("notifications/progress", {"progressToken": token, "progress": 0.5})
    conversation.reply({"id": question["id"], "error": {"code": -1, "message": "no"}})
    await work
    assert heard == [("notifications/progress", {"progressToken": "up-1", "progress": 0.5})]


async def test_a_client_that_ends_its_conversation_answers_nothing_more() -> None:
    it = Asked()
    asks(it, method="roots/list", params={})
    conversation = await it.session(can={"roots": {}})
    exchange, work = conversation.begin("tools/call", {"name": "t"})
    await until(lambda: conversation.line.sent)
    it.relay.closed(conversation.session)
    await work
    assert "the client is gone" in str(it.gate.finished[0].result)
    assert exchange.withdrawal.gone
