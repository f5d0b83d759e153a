"""Real clients of both eras before a real gateway, while a person decides in another process."""

import asyncio
import contextlib
import json
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import ElicitResult

from gateway.outbound.ledger import open_ledger
from tests.cli.agents import LIMIT_S, META_2026, Process, counterfoil, ledger_of, post, run
from tests.packs.behind import COUNTERFOIL

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

ERAS: tuple[Literal["auto", "legacy"], ...] = ("auto", "legacy")
PAID = {"amount": 5, "to": "ann"}
POLICY = """\
workflow: till
transitions:
  - name: look
    tools: ["*"]
    effect: [read]
  - name: pay
    tools: ["*"]
    approval: { reason: money leaves, %s }
"""
SELF = "self_review: true"
CALLER = "self_review: true, caller: true"
TOLD: dict[str, Any] = {"progressToken": "p1"}


class Till:
    """A till in a folder of its own, whose transfers need a person."""

    def __init__(self, folder: Path, server: list[str], approval: str = SELF) -> None:
        self.log = folder / "log"
        self.ledger = ledger_of(folder)
        self._file = folder / "ledger.db"
        policy = folder / "policy.yaml"
        policy.write_text(POLICY % approval)
        self._args = ("wrap", "--policy", str(policy), *self.ledger)
        self._server = ("--", *server, str(self.log))

    def command(self, *options: str) -> tuple[str, ...]:
        return (*self._args, *options, *self._server)

    def paid(self) -> int:
        """How often money has really moved."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    async def asked(self) -> list[str]:
        """What waits for a person, the oldest first."""
        if not self._file.exists():
            return []
        ledger = await open_ledger(f"sqlite:///{self._file}")
        try:
            asked, decided = [await ledger.find([kind]) for kind in ("approval.requested", "approval.decided")]
        finally:
            await ledger.close()
        answered = {getattr(one.event, "approval", None) for one in decided}
        names = [getattr(one.event, "approval", "") for one in reversed(asked)]
        return [name for name in names if name not in answered]

    async def decide(self, word: str = "approve", *more: str) -> str:
        """A person at another terminal decides the one question that is there, once it is."""
        with anyio.fail_after(LIMIT_S):
            while not (found := await self.asked()):
                await asyncio.sleep(0.05)
        (approval,) = found
        agreed = ("--yes",) if word == "approve" else ()
        await run("approvals", word, approval, *agreed, *self.ledger, *more)
        return approval


@contextlib.asynccontextmanager
async def over_http(till: Till, *options: str) -> AsyncIterator[tuple[str, Process]]:
    """The address of the till's gateway."""
    async with counterfoil(*till.command("--listen", "127.0.0.1:0", *options)) as gateway:
        yield await gateway.hear(r"listening at (http://\S+/mcp)"), gateway


def text(result: Any) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(result.content[0].text)
    return told


@pytest.mark.parametrize("front", [pytest.param("stdio", marks=pytest.mark.long), "http"])
async def test_sdk_clients_of_both_eras_wait_and_get_what_a_person_in_another_process_allowed(
    front: str, effects_server: list[str], tmp_path: Path
) -> None:
    till, told = Till(tmp_path, effects_server), list[str]()

    async def heard(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        told.append(message or str(progress))

    async def pays(client: Client, amount: int) -> None:
        paying = asyncio.ensure_future(
            client.call_tool("transfer", {**PAID, "amount": amount}, progress_callback=heard)
        )
        await till.decide()
        with anyio.fail_after(LIMIT_S):
            result = await paying
        assert (result.is_error, text(result)["amount"]) == (False, amount)

    if front == "http":
        async with over_http(till, "--hold", "30") as (url, _):
            for number, era in enumerate(ERAS, 1):
                async with Client(url, mode=era) as client:
                    await pays(client, number)
    else:
        for number, era in enumerate(ERAS, 1):
            args = [*till.command("--hold", "30")]
            async with Client(StdioServerParameters(command=COUNTERFOIL, args=args), mode=era) as client:
                await pays(client, number)
    assert till.paid() == 2
    assert len(told) >= 2
    where = (
        "counterfoil approvals approve ap_" if front == "stdio" else r"http://127\.0\.0\.1:\d+/console/approvals/ap_"
    )
    assert all(re.search(rf"to approve `transfer` \(money leaves\): {where}", one) for one in told)


@pytest.mark.long
async def test_a_claude_code_shaped_client_is_kept_waiting_and_its_repeat_gets_the_record(
    effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server)
    async with counterfoil(*till.command("--hold", "30")) as window:
        mine = {"claudecode/toolUseId": "toolu_01", **TOLD}
        paying = asyncio.ensure_future(window.call("transfer", PAID, **mine))
        await till.decide()
        with anyio.fail_after(LIMIT_S):
            first = await paying
        assert first["structuredContent"]["amount"] == 5
        again = await window.call("transfer", PAID, **mine)
        assert (again["structuredContent"], again["_meta"]["counterfoil/record"]["replayed"]) == (
            first["structuredContent"],
            True,
        )
        assert till.paid() == 1


async def test_a_codex_shaped_client_that_declines_by_itself_has_decided_nothing(
    effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server, CALLER)
    async with counterfoil(*till.command("--hold", "0")) as window:
        await window.codex()
        call = {"name": "transfer", "arguments": PAID, "_meta": {"callId": "call_1", "progressToken": 1}}
        await window.write({"jsonrpc": "2.0", "id": 50, "method": "tools/call", "params": call})
        question = await asked_of(window)
        assert "Tool: transfer" in question["params"]["message"]
        await window.write({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "decline"}})
        told = (await window.answer(50))["result"]["structuredContent"]
        assert (told["outcome"], told["executed"]) == ("needs_approval", False)
        approval = await till.decide()
        assert approval == told["approval"]["id"]
        where = await window.call("gateway__approval", {"approval": approval})
        assert where["structuredContent"]["state"] == "approved"
        assert till.paid() == 0
        done = await window.request("tools/call", {"name": "transfer", "arguments": PAID}, callId="call_2")
        assert done["result"]["structuredContent"]["amount"] == 5
        assert till.paid() == 1


async def asked_of(window: Process) -> dict[str, Any]:
    """The first thing that the client is asked."""
    assert window.process.stdout is not None
    with anyio.fail_after(LIMIT_S):
        while True:
            message: dict[str, Any] = json.loads(await window.process.stdout.readline())
            if message.get("method") == "elicitation/create":
                return message


@pytest.mark.long
@pytest.mark.parametrize("era", ["auto", pytest.param("legacy", marks=pytest.mark.long)])
async def test_the_user_of_an_sdk_client_answers_its_form_where_policy_lets_them(
    era: Literal["auto", "legacy"], effects_server: list[str], tmp_path: Path
) -> None:
    till, shown = Till(tmp_path, effects_server, CALLER), list[str]()

    async def reads(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001
        shown.append(params.message)
        await asyncio.sleep(1.1)  # no person reads it sooner, and sooner is no answer
        return ElicitResult(action="accept", content={"decision": "approve"})

    server = StdioServerParameters(command=COUNTERFOIL, args=[*till.command("--hold", "0")])
    with anyio.fail_after(LIMIT_S):
        async with Client(server, mode=era, elicitation_callback=reads) as client:
            result = await client.call_tool("transfer", PAID)
    assert text(result)["amount"] == 5
    assert ("Tool: transfer" in shown[0], '"to": "ann"' in shown[0], till.paid()) == (True, True, 1)


@pytest.mark.long
async def test_a_client_with_a_limit_gets_the_handle_within_it_and_asks_again(
    effects_server: list[str], tmp_path: Path
) -> None:
    """Clients give up after 60 s by default; here they do after 4 s, and we are patient for 2 s."""
    till = Till(tmp_path, effects_server)

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        """It shows that it is there."""

    async with (
        over_http(till, "--hold", "30", "--patience", "2") as (url, _),
        Client(url, read_timeout_seconds=4) as client,
    ):
        waiting = await client.call_tool("transfer", PAID, progress_callback=heard)
        told = waiting.structured_content or {}
        assert told["outcome"] == "needs_approval"
        name = told["approval"]["id"]
        asking = asyncio.ensure_future(
            client.call_tool("gateway__approval", {"approval": name, "wait_s": 45}, progress_callback=heard)
        )
        assert (await asking).structured_content["state"] == "awaiting"
        await till.decide()
        assert till.paid() == 0
        again = await client.call_tool("gateway__approval", {"approval": name, "wait_s": 45})
        assert (again.structured_content or {})["state"] == "approved"
        assert text(await client.call_tool("transfer", PAID))["amount"] == 5
    assert till.paid() == 1


@pytest.mark.long
@pytest.mark.parametrize("front", ["stdio", "http"])
async def test_who_waits_when_the_gateway_is_told_to_end_gets_the_handle(
    front: str, effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server)
    if front == "http":
        async with over_http(till, "--hold", "30") as (url, gateway):
            paying = asyncio.ensure_future(post(url, "tools/call", {"name": "transfer", "arguments": PAID}, **TOLD))
            await waits(till)
            gateway.process.send_signal(signal.SIGTERM)
            answer = (await paying)[1]
    else:
        async with counterfoil(*till.command("--hold", "30")) as gateway:
            params = {"name": "transfer", "arguments": PAID}
            whole = asyncio.ensure_future(gateway.request("tools/call", params, **TOLD))
            await waits(till)
            gateway.process.send_signal(signal.SIGTERM)
            answer = await whole
    assert answer["result"]["structuredContent"]["outcome"] == "needs_approval"
    await till.decide()
    assert till.paid() == 0


async def waits(till: Till) -> str:
    """The question of a call that is kept waiting."""
    with anyio.fail_after(LIMIT_S):
        while not (found := await till.asked()):
            await asyncio.sleep(0.05)
    return found[0]


@pytest.mark.long
async def test_who_pipes_a_call_in_and_says_no_more_gets_the_handle_at_once(
    effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server)
    async with counterfoil(*till.command("--hold", "30")) as window:
        call = {"name": "transfer", "arguments": PAID, "_meta": {**META_2026, **TOLD}}
        await window.write({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": call})
        await waits(till)
        assert window.process.stdin is not None
        closed_at = time.monotonic()
        window.process.stdin.close()
        told = (await window.answer(9))["result"]["structuredContent"]
        assert (told["outcome"], time.monotonic() - closed_at < 10) == ("needs_approval", True)
    assert till.paid() == 0


@pytest.mark.long
async def test_a_client_and_a_gateway_that_die_while_a_call_waits_leave_the_question_and_nothing_else(
    effects_server: list[str], tmp_path: Path
) -> None:
    till = Till(tmp_path, effects_server)
    async with over_http(till, "--hold", "30") as (url, gateway):
        paying = asyncio.ensure_future(post(url, "tools/call", {"name": "transfer", "arguments": PAID}, **TOLD))
        first = await waits(till)
        paying.cancel()  # its connection is gone
        await asyncio.wait({paying})
        await till.decide()
        await asyncio.sleep(1.5)  # a look at the ledger, and a half
        assert till.paid() == 0
        repeated = (await post(url, "tools/call", {"name": "transfer", "arguments": PAID}))[1]
        assert repeated["result"]["structuredContent"]["amount"] == 5
        paying = asyncio.ensure_future(
            post(url, "tools/call", {"name": "transfer", "arguments": {**PAID, "amount": 6}}, **TOLD)
        )
        second = await waits(till)
        os.kill(gateway.process.pid, signal.SIGKILL)
        with contextlib.suppress(Exception):
            await paying
        await gateway.process.wait()
    assert first != second
    assert await till.asked() == [second]
    assert till.paid() == 1
