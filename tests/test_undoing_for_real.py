"""Real gateways, killed at each step between a payment that was booked wrong and its refund: it is made once, or a
person is asked. The shop is that of `examples/pay-and-refund`, whose book is the only witness.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.agents import LIMIT_S, META_2026, counterfoil, ledger_of, run
from tests.conftest import EXAMPLES

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHOP = EXAMPLES / "pay-and-refund"
PATIENCE_S = 75
"""A lease that nobody renews is over after 15 s, which two sweeps, 15 s apart, must have seen."""
ORDER = {"order": "twice-1", "amount": 700}


class Shop:
    """A shop in a folder of its own, behind gateways that share a ledger."""

    def __init__(self, folder: Path, policy: str) -> None:
        folder.mkdir()
        self.book = folder / "book"
        self.ledger = ledger_of(folder)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy)

    def command(self, seconds: float) -> list[str]:
        """A gateway before a server that takes that long for each answer."""
        server = [sys.executable, str(SHOP / "shop_server.py"), str(self.book), str(seconds)]
        return ["wrap", "--policy", str(self.policy), *self.ledger, "--", *server]

    def booked(self, what: str) -> int:
        """How often that stands in the book."""
        lines = self.book.read_text().splitlines() if self.book.exists() else []
        return sum(json.loads(line)["what"] == what for line in lines)

    async def until(self, there: Callable[[], bool], patience_s: float = LIMIT_S) -> None:
        """It is so, in time."""
        with anyio.fail_after(patience_s):
            while not there():
                await anyio.sleep(0.02)

    async def shown(self) -> list[dict[str, Any]]:
        """The events of the run that paid."""
        runs = json.loads((await run("runs", "--json", *self.ledger))[0])
        paid = next(one["run"] for one in runs if one["calls"])
        records = json.loads((await run("show", paid, "--json", *self.ledger))[0])
        return [record["event"] for record in records]

    async def kinds(self) -> list[str]:
        return [event["kind"] for event in await self.shown()]

    async def killed(self, there: Callable[[], bool], seconds: float = 3.0) -> None:
        """A gateway that was killed, with its server, as soon as it was so while it paid."""
        params = {"name": "pay", "arguments": ORDER, "_meta": META_2026}
        async with counterfoil(*self.command(seconds)) as gateway:
            await gateway.write({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            await self.until(there)
            os.kill(gateway.process.pid, signal.SIGKILL)
            await gateway.process.wait()

    async def waits_for(self, kind: str) -> None:
        """Another gateway lives until the ledger says so."""
        async with counterfoil(*self.command(0.0)):
            with anyio.fail_after(PATIENCE_S):
                while kind not in await self.kinds():
                    await anyio.sleep(1)


def policy(*changes: tuple[str, str]) -> str:
    text = (SHOP / "policy.yaml").read_text().partition("\ncases:")[0]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + "\n"


ASKS = ("    from: [doubt]\n", "    from: [doubt]\n    approval: { reason: money back, self_review: true }\n")


async def test_a_gateway_that_is_killed_while_the_book_is_read_leaves_the_refund_to_the_next(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy())
    await shop.killed(lambda: shop.booked("looked") == 1)
    assert (await shop.kinds())[-1] == "receipt.recorded"
    await shop.waits_for("run.stopped")
    assert (shop.booked("paid"), shop.booked("refunded")) == (2, 1)
    assert (await shop.kinds()).count("compensation.owed") == 1


async def test_one_that_is_killed_while_a_person_is_asked_about_the_refund_does_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy(ASKS))
    async with counterfoil(*shop.command(0.0)) as gateway:
        answer = await gateway.call("pay", ORDER)
        assert answer["structuredContent"]["undone"][0]["state"] == "waits"
        os.kill(gateway.process.pid, signal.SIGKILL)
        await gateway.process.wait()
    told, _ = await run("approvals", "approve", answer["structuredContent"]["approval"]["id"], *shop.ledger)
    assert "A gateway makes this call itself" in told
    assert shop.booked("refunded") == 0
    await shop.waits_for("run.stopped")
    assert shop.booked("refunded") == 1
    paid = (await shop.shown())[1]["attempt"].rpartition(".")[0]
    assert "UNDONE by step" in (await run("show", paid, *shop.ledger))[0]


async def test_a_refund_whose_answer_was_lost_is_never_sent_again_by_itself(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy())
    await shop.killed(lambda: shop.booked("refunded") == 1)
    assert (await shop.kinds())[-1] == "intent.recorded"
    await shop.waits_for("attempt.unknown")
    intents = [event["attempt"] for event in await shop.shown() if event["kind"] == "intent.recorded"]
    assert "1 to be undone" in (await run("runs", *shop.ledger, COLUMNS="200"))[0]
    await run("resolve", intents[1], "--happened", "--reason", "the book says so", *shop.ledger)
    await shop.waits_for("run.stopped")
    assert shop.booked("refunded") == 1
