"""`gateway__approval`: where a question stands, to whoever asked it."""

import asyncio
import json
from typing import Any

from gateway.inbound.mcp.tokens import RunToken
from gateway.model.principal import Principal
from gateway.model.review import Reviewer
from tests.inbound.asked import ME, Asked
from tests.inbound.desk import desk
from tests.inbound.fake_gate import T0


async def test_gateway_approval_says_where_a_question_stands_from_first_to_last() -> None:
    async with desk(approval={"quorum": 2}) as it:
        first = (await it.call())["structuredContent"]
        name = first["approval"]["id"]
        asked = await it.told(name)
        assert (asked["state"], asked["needed"], asked["agreed"]) == ("awaiting", 2, [])
        assert (asked["tool"], asked["asks"]) == ("write", "a person looks at each write")
        await it.decide(name)
        assert (await it.told(name))["agreed"] == ["local:boss"]
        await it.decide(name, by=Reviewer("local", "local:cfo"))
        approved = await it.told(name)
        assert (approved["state"], approved["by"]) == ("approved", "local:cfo")
        assert "Repeat the call unchanged" in approved["next"]
        await it.call()
        used = await it.told(name)
        assert used["state"] == "used"
        assert used["attempt"].startswith(used["run"])


async def test_gateway_approval_tells_a_rejection_and_an_end_of_time() -> None:
    async with desk(approval={"expires_s": 60}) as it:
        await it.call("a")
        await it.call("b")
        first, second = await it.asked(2)
        await it.decide(first, approve=False, reason="too much")
        rejected = await it.told(first)
        assert (rejected["state"], rejected["by"], rejected["said"]) == ("rejected", "local:boss", "too much")
        it.clock.tell(61)
        assert (await it.told(second))["state"] == "expired"


async def test_gateway_approval_waits_for_the_answer_and_makes_no_call() -> None:
    async with desk(patience_s=60.0) as it:
        name = (await it.call())["structuredContent"]["approval"]["id"]
        work = asyncio.ensure_future(it.told(name, wait_s=45))
        await it.held()
        await it.decide(name)
        assert (await asyncio.wait_for(work, 5))["state"] == "approved"
        assert it.sent == []
        waits = (await it.call("b"))["structuredContent"]["approval"]["id"]
        assert (await it.told(waits, wait_s=0.05))["state"] == "awaiting"


async def test_gateway_approval_takes_a_question_back() -> None:
    async with desk(approval={"self_review": True}) as it:
        name = (await it.call())["structuredContent"]["approval"]["id"]
        told = await it.told(name, withdraw=True, reason="another way was found")
        assert (told["state"], told["said"]) == ("withdrawn", "another way was found")
        again = (await it.call())["structuredContent"]
        assert again["outcome"] == "needs_approval"
        assert again["approval"]["id"] != name


async def test_a_question_of_another_or_of_nobody_is_unknown() -> None:
    async with desk() as it:
        name = (await it.call())["structuredContent"]["approval"]["id"]

        async def refused(asked: Asked, approval: str, **more: Any) -> Any:
            params = {"name": "gateway__approval", "arguments": {"approval": approval}}
            exchange = asked.modern_exchange("tools/call", params, **{k: v for k, v in more.items() if k != "token"})
            exchange.token = more.get("token")
            answer: Any = await asked.relay.request(exchange)
            return answer["result"]

        unknown = await refused(it.it, "ap_0000000000000000")
        foreign = await refused(it.it, name, principal=Principal("you"))
        bound = await refused(it.it, name, token=RunToken(run="run_t", principal=ME, workflow="test", expires_at=T0))
        for one, asked in ((unknown, "ap_0000000000000000"), (foreign, name), (bound, name)):
            told = one["structuredContent"]
            assert (one["isError"], told["outcome"], told["executed"]) == (True, "denied", False)
            assert told["reason"] == f"no approval `{asked}` is known"
            assert json.loads(one["content"][0]["text"]) == told


async def test_a_question_of_an_earlier_run_of_the_same_principal_is_known() -> None:
    async with desk() as it:
        name = (await it.call())["structuredContent"]["approval"]["id"]
        async with desk(it.ledger, owner="next", clock=it.clock) as later:
            assert (await later.told(name))["state"] == "awaiting"
