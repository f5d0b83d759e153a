"""An answer is delivered once a client that is still there has it; nothing less counts [design, 5: repeats]."""

import json
from typing import Any

import anyio
import pytest
from mcp import Client

from gateway.model.answer import Shown
from tests.inbound.fake_gate import REFUSAL, Held, answering
from tests.inbound.served import BOUND_S, ENVELOPE, Served, door, drained, modern_headers, request

pytestmark = pytest.mark.anyio

CALL: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "slow"}}
MODERN_CALL = {**CALL, "params": {"name": "slow", "_meta": ENVELOPE}}
SHIELDS = pytest.mark.parametrize("shields", [True, False])
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


async def calling(served: Served, era: str) -> tuple[dict[str, Any], dict[str, str | None]]:
    if era == "modern":
        return MODERN_CALL, modern_headers("tools/call", "slow")
    return CALL, dict(await served.session())


@ERAS
@pytest.mark.parametrize(
    "parts", [{"result": {"content": []}}, {"error": {"code": -32602, "message": "no"}}, {"refusal": REFUSAL}]
)
async def test_whatever_the_client_has_read_is_delivered_once(era: str, parts: dict[str, Any]) -> None:
    async with door() as served:
        served.gate.answers["slow"] = answering(**parts)
        await served.post(*await calling(served, era))
        assert [shown.attempt for shown in served.gate.deliveries] == ["att_1"]
        assert served.gate.deliveries == served.gate.finished


@ERAS
async def test_it_is_delivered_before_the_client_can_ask_again(era: str) -> None:
    async with door() as served:
        seen: list[int] = []

        async def counts(proposal: Any) -> Shown:
            seen.append(len(served.gate.deliveries))
            return Shown(proposal.run, result={"content": []})

        served.gate.answers["count"] = counts
        with anyio.fail_after(BOUND_S):
            async with Client(served.url, mode="2026-07-28" if era == "modern" else "legacy") as client:
                for _ in range(20):
                    await client.call_tool("count", {})
    assert seen == list(range(20))


@ERAS
@SHIELDS
async def test_a_client_that_left_before_the_answer_was_told_nothing(era: str, shields: bool) -> None:  # noqa: FBT001
    held = Held()
    async with door(lambda gate: gate.answers.update(slow=held)) as served:
        served.gate.shields = shields
        body, headers = await calling(served, era)
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await served.gate.until(lambda: len(served.gate.proposals) == 1)
        await settled(served)  # the door sees the client leave
        held.gate.set()
        with anyio.fail_after(BOUND_S):
            await served.gate.until(lambda: len(served.gate.finished) == 1)
        await settled(served)
        assert served.gate.deliveries == []


async def test_an_id_is_not_free_while_the_call_of_a_client_that_left_goes_on() -> None:
    """Else the SDK would give the late answer to whoever uses the id next."""
    held = Held()
    async with door(lambda gate: gate.answers.update(slow=held)) as served:
        body, headers = await calling(served, "legacy")
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await served.gate.until(lambda: len(served.gate.proposals) == 1)
        await settled(served)
        assert (await served.post(body, headers)).status == 400
        held.gate.set()
        await settled(served)
        assert (await served.post(body, headers)).status == 200
        assert len(served.gate.deliveries) == 1


@SHIELDS
async def test_a_legacy_request_that_was_cancelled_is_answered_and_not_delivered(shields: bool) -> None:  # noqa: FBT001
    held = Held()
    async with door(lambda gate: gate.answers.update(slow=held)) as served:
        served.gate.shields = shields
        body, headers = await calling(served, "legacy")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await served.gate.until(lambda: len(served.gate.proposals) == 1)
                assert (await served.post(cancel, headers)).status == 202
                await settled(served)
                held.gate.set()
                assert b"-32800" in await drained(stream)
                await served.gate.until(lambda: len(served.gate.finished) == 1)
        await settled(served)
        assert served.gate.deliveries == []


async def test_a_session_cannot_cancel_the_request_of_another() -> None:
    held = Held()
    async with door(lambda gate: gate.answers.update(slow=held)) as served:
        body, headers = await calling(served, "legacy")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await served.gate.until(lambda: len(served.gate.proposals) == 1)
                await served.post(cancel, dict(await served.session()))
                held.gate.set()
                assert b'"result"' in await drained(stream)
        assert len(served.gate.deliveries) == 1


@SHIELDS
async def test_a_session_that_ends_in_the_middle_of_a_call_was_told_nothing(shields: bool) -> None:  # noqa: FBT001
    held = Held()
    async with door(lambda gate: gate.answers.update(slow=held)) as served:
        served.gate.shields = shields
        body, headers = await calling(served, "legacy")
        async with await served.connect() as stream:
            await stream.send(whole(served, body, headers))
            with anyio.fail_after(BOUND_S):
                await served.gate.until(lambda: len(served.gate.proposals) == 1)
                assert (await served.post(b"", headers, method="DELETE")).status == 200
                held.gate.set()
                await served.gate.until(lambda: len(served.gate.finished) == 1)
                await drained(stream)
        await settled(served)
        assert served.gate.deliveries == []


def whole(served: Served, body: Any, headers: dict[str, str | None]) -> bytes:
    return request(json.dumps(body).encode(), headers, port=served.port)


async def settled(served: Served) -> None:
    """Whatever the door had still to do is done: a later request has gone all the way."""
    for _ in range(3):
        await served.modern("tools/list", {})
