"""A call that waits for a person as a form of its client's own user: what is asked, and whose answers count."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.model.principal import Principal
from tests.inbound.asked import ME
from tests.inbound.desk import FORM, REVIEWER, TOLD, Desk, desk

SELF = {"caller": True, "self_review": True}


def said(decision: str = "approve", action: str = "accept") -> dict[str, Any]:
    return {"action": action, **({"content": {"decision": decision}} if action == "accept" else {})}


async def asked_by_round(it: Desk, **more: Any) -> Any:
    told = await it.call(can=FORM, **more)
    assert told["resultType"] == "input_required"
    return told


async def bring(it: Desk, told: Any, brought: Any, **more: Any) -> Any:
    params = {**it.asks(), "inputResponses": {"approval": brought}, "requestState": told["requestState"]}
    answer = await it.it.modern("tools/call", params, can=FORM, **more)
    return answer.get("result", answer)


async def test_a_modern_client_is_asked_in_a_round_and_its_yes_makes_the_call() -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        told = await asked_by_round(it)
        request = told["inputRequests"]["approval"]
        assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "form")
        schema = request["params"]["requestedSchema"]
        assert (schema["required"], schema["properties"]["decision"]["enum"]) == (["decision"], ["approve", "reject"])
        message = request["params"]["message"]
        for part in ("Tool: write", '"text": "a"', "a person looks at each write", "a write call"):
            assert part in message
        result = await bring(it, told, said())
        assert result["content"][0]["text"] == "ok"
        assert it.sent == [{"text": "a"}]
        (decided,) = await it.ledger.find(["approval.decided"])
        assert (decided.event.decision, decided.event.by.id, decided.event.via) == ("approved", ME.id, "caller")


async def test_a_legacy_client_is_asked_on_its_connection_and_its_yes_makes_the_call() -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        legacy = await it.it.session(can={"elicitation": {}}, version="2025-06-18")
        _, work = legacy.begin("tools/call", it.asks())
        question = await answered(legacy, said())
        assert "mode" not in question["params"], "in 2025-06-18 there are forms alone"
        answer: Any = await asyncio.wait_for(work, 5)
        assert answer["result"]["content"][0]["text"] == "ok"
        assert it.sent == [{"text": "a"}]


async def answered(legacy: Any, result: Any) -> Any:
    """The question that a legacy client was asked, answered."""
    asked: Any = None
    for _ in range(2_000):
        asked = next((one for one in legacy.line.sent if one.get("method") == "elicitation/create"), None)
        if asked is not None:
            break
        await asyncio.sleep(0.001)
    assert asked is not None
    if result is not None:
        legacy.reply({"id": asked["id"], "result": result})
    return asked


@pytest.mark.parametrize("brought", [said("reject"), said(action="decline")])
async def test_a_no_of_the_users_is_a_rejection(brought: Any) -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        result = await bring(it, await asked_by_round(it), brought)
        assert result["structuredContent"]["outcome"] == "denied"
        (decided,) = await it.ledger.find(["approval.decided"])
        assert decided.event.decision == "rejected"
        assert it.sent == []


@pytest.mark.parametrize(
    "brought",
    [said(action="cancel"), {}, None, "yes", said("maybe"), {"action": "accept"}, {"action": "accept", "content": []}],
)
async def test_what_says_nothing_is_no_answer_and_the_handle_is_told(brought: Any) -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        result = await bring(it, await asked_by_round(it), brought)
        assert result["structuredContent"]["outcome"] == "needs_approval"
        assert list(await it.ledger.find(["approval.decided"])) == []
        await it.decide((await it.asked())[0])
        assert it.sent == []


@pytest.mark.parametrize("brought", [said(), said("reject"), said(action="decline"), said(action="cancel")])
async def test_what_comes_sooner_than_anybody_can_read_is_nobodys_answer(brought: Any) -> None:
    async with desk(approval=SELF) as it:
        result = await bring(it, await asked_by_round(it), brought)
        assert result["structuredContent"]["outcome"] == "needs_approval"
        legacy = await it.it.session(can={"elicitation": {"form": {}}}, version="2025-06-18")
        _, work = legacy.begin("tools/call", it.asks("b"))
        await answered(legacy, brought)
        answer: Any = await asyncio.wait_for(work, 5)
        assert answer["result"]["structuredContent"]["outcome"] == "needs_approval"
        assert list(await it.ledger.find(["approval.decided"])) == []
        assert it.sent == []


async def test_what_comes_after_one_could_have_read_is_an_answer() -> None:
    async with desk(approval=SELF) as it:
        told = await asked_by_round(it)
        it.it.clock.tell(1.5)
        assert (await bring(it, told, said()))["content"][0]["text"] == "ok"


@pytest.mark.parametrize(
    ("approval", "can"),
    [({}, FORM), (SELF, {}), (SELF, {"elicitation": {"url": {}}}), ({"self_review": True}, FORM)],
)
async def test_nobody_is_asked_whom_policy_does_not_let_answer_or_who_cannot_be_asked(
    approval: Mapping[str, Any], can: Mapping[str, Any]
) -> None:
    async with desk(approval=approval) as it:
        assert (await it.call(can=can))["structuredContent"]["outcome"] == "needs_approval"


async def test_a_state_answers_one_question_of_one_principal_about_one_call() -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        told = await asked_by_round(it)
        other = {"name": "write", "arguments": {"text": "b"}, "inputResponses": {"approval": said()}}
        forged = await it.it.modern("tools/call", {**other, "requestState": told["requestState"]}, can=FORM)
        assert forged["error"]["code"] == -32602
        foreign = await bring(it, told, said(), principal=Principal("you"))
        assert foreign["error"]["code"] == -32602
        assert it.sent == []
        assert (await bring(it, told, said()))["content"][0]["text"] == "ok"
        it.it.clock.tell(601)
        assert (await bring(it, told, said()))["error"]["code"] == -32602
        assert it.sent == [{"text": "a"}]


async def test_an_answer_that_is_brought_again_makes_no_second_call() -> None:
    async with desk(approval=SELF, reading_s=0.0) as it:
        told = await asked_by_round(it)
        await bring(it, told, said())
        again = await bring(it, told, said())
        assert it.sent == [{"text": "a"}]
        assert "content" in again


async def test_while_a_legacy_user_looks_somebody_else_may_be_quicker() -> None:
    async with desk(approval=SELF, hold_s=0.0) as it:
        legacy = await it.it.session(can={"elicitation": {}}, version="2025-06-18")
        _, work = legacy.begin("tools/call", it.asks())
        asked = await answered(legacy, None)
        await it.decide((await it.asked())[0], by=REVIEWER)
        answer: Any = await asyncio.wait_for(work, 5)
        assert answer["result"]["content"][0]["text"] == "ok"
        withdrawn = legacy.line.sent[-1]
        assert (withdrawn["method"], withdrawn["params"]["requestId"]) == ("notifications/cancelled", asked["id"])


async def test_a_legacy_client_that_leaves_while_its_user_looks_has_nothing_executed() -> None:
    async with desk(approval=SELF) as it:
        legacy = await it.it.session(can={"elicitation": {}}, version="2025-06-18")
        exchange, work = legacy.begin("tools/call", it.asks())
        await answered(legacy, None)
        exchange.withdrawal.say(cancelled=True)
        assert await asyncio.wait_for(work, 5) is None
        await it.decide((await it.asked())[0])
        assert it.sent == []


async def test_what_nobody_answers_in_a_form_is_then_waited_for() -> None:
    async with desk(approval=SELF, hold_s=30.0, patience_s=60.0, reading_s=0.0) as it:
        told = await asked_by_round(it, meta=TOLD)
        work = asyncio.ensure_future(bring(it, told, said(action="cancel"), meta=TOLD))
        await it.held()
        await it.decide((await it.asked())[0])
        assert (await asyncio.wait_for(work, 5))["content"][0]["text"] == "ok"


async def test_what_is_shown_hides_nothing_and_is_cut_with_its_digest() -> None:
    async with desk(approval=SELF) as it:
        hidden = await it.call("safe\u202egnirts\u200b \U000e0041", can=FORM)
        message = hidden["inputRequests"]["approval"]["params"]["message"]
        assert "\\u{202e}" in message
        assert "\\u{200b}" in message
        assert "\\u{e0041}" in message
        long = await it.call("x" * 20_000, can=FORM)
        message = long["inputRequests"]["approval"]["params"]["message"]
        assert len(message) < 5_000
        assert "digest of all: c1:" in message


async def test_who_has_agreed_is_not_asked_again_while_another_must() -> None:
    async with desk(approval={**SELF, "quorum": 2}, reading_s=0.0) as it:
        first = await bring(it, await asked_by_round(it), said())
        assert first["structuredContent"]["outcome"] == "needs_approval"
        assert (await it.call(can=FORM))["structuredContent"]["outcome"] == "needs_approval"
        await it.decide((await it.asked())[0])
        assert (await it.call(can=FORM))["content"][0]["text"] == "ok"
