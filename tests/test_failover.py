"""A PostgreSQL server that dies in the middle of calls, and its standby that takes over: nothing that was acknowledged
is lost, and no effect is made twice. Real servers, real gateways, and an upstream that counts what it did.
"""

import asyncio
from collections import Counter
from pathlib import Path

import anyio
import pytest

from tests import postgres_server
from tests.cli.agents import LIMIT_S, post, run
from tests.test_many_gateways import Json, World, gateways, outcome

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

CALLS = 40
TRIES = 200


async def insisting(it: World, token: str, n: int) -> Json:
    """What a client is told that makes the same call until it is done, each time at the next gateway."""
    for attempt in range(TRIES):
        try:
            url = f"{it.urls[(n + attempt) % len(it.urls)]}/runs/{token}/mcp"
            params = {"name": "bank__transfer", "arguments": {"amount": n, "to": "ann"}}
            call_id: Json = {"claudecode/toolUseId": f"call-{n}"}
            _, answer = await post(url, "tools/call", params, **call_id)
        except OSError:
            answer = {}
        told: Json = answer.get("result") or {}
        if told and outcome(told) not in {"ledger_unavailable", "in_flight"}:
            return told
        await anyio.sleep(0.1)
    raise AssertionError(f"call {n} was never answered")


async def test_the_standby_takes_over_in_the_middle_of_calls(
    effects_server: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres_server.running() as first, first.standby() as second:
        hosts = f"{postgres_server.USER}@127.0.0.1:{first.port},127.0.0.1:{second.port}"
        ledger = f"postgresql://{hosts}/postgres?sslmode=disable"
        monkeypatch.setenv("LEDGER", ledger)
        async with gateways(2, tmp_path, ledger, effects_server) as it:
            tokens = [await it.token() for _ in range(4)]
            calls = [asyncio.ensure_future(insisting(it, tokens[n % 4], n)) for n in range(CALLS)]
            with anyio.fail_after(LIMIT_S):
                while len(it.effects()) < CALLS // 4:
                    await anyio.sleep(0.002)
            first.crash()
            made_before = len(it.effects())
            # Between the two nobody can write, and says so instead of sending.
            stuck = await it.call(0, tokens[0], "bank__transfer", {"amount": CALLS, "to": "nobody"})
            assert outcome(stuck) == "ledger_unavailable"
            assert all(effect["amount"] != CALLS for effect in it.effects())
            second.promote()
            with anyio.fail_after(3 * LIMIT_S):
                told = await asyncio.gather(*calls)
            assert Counter(map(outcome, told)) == {"done": CALLS}
            assert Counter(effect["amount"] for effect in it.effects()) == dict.fromkeys(range(CALLS), 1)
            assert made_before < CALLS

            # The one that was replaced is there no more: what the runs say, the standby says.
            await run("verify", COUNTERFOIL_LEDGER=ledger)
            records = [record for row in await it.read("runs") for record in await it.read("show", row["run"])]
            kinds = Counter(record["event"]["kind"] for record in records)
            assert kinds["intent.recorded"] == kinds["receipt.recorded"] == CALLS
