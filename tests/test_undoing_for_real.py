"""Real gateways, killed at each step between a payment that was booked wrong and its refund: it is made once, or a
person is asked. The shop is that of `examples/pay-and-refund`, whose book is the only witness.
"""

import json
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.agents import LIMIT_S, META_2026, counterfoil, ledger_of, run
from tests.conftest import EXAMPLES
from tests.logs import whole_lines

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SHOP = EXAMPLES / "pay-and-refund"
PATIENCE_S = 80
"""A lease that nobody renews is over after 15 s, which two sweeps, 15 s apart, must have seen."""
ORDER = {"order": "twice-1", "amount": 700}


class Shop:
    """A shop in a folder of its own, behind gateways that share a ledger."""

    def __init__(self, folder: Path, policy: str) -> None:
        folder.mkdir()
        self.book = folder / "book"
        self.ledger_file = folder / "ledger.db"
        self.ledger = ledger_of(folder)
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy)

    @property
    def command(self) -> list[str]:
        """A gateway before a server that takes its time: always the same, else it would be another upstream."""
        server = [sys.executable, str(SHOP / "shop_server.py"), str(self.book), "2"]
        return ["wrap", "--policy", str(self.policy), *self.ledger, "--", *server]

    def booked(self, what: str) -> int:
        """How often that stands in the book."""
        return sum(json.loads(line)["what"] == what for line in whole_lines(self.book))

    async def until(self, there: Callable[[], bool], patience_s: float = LIMIT_S) -> None:
        """It is so, in time."""
        with anyio.fail_after(patience_s):
            while not there():
                await anyio.sleep(0.05)

    def shown(self) -> list[dict[str, Any]]:
        """The events of all runs, from the file itself: a command for each look would starve the gateways."""
        with closing(sqlite3.connect(self.ledger_file)) as db:
            bodies = db.execute("SELECT body FROM event ORDER BY position").fetchall()
        return [json.loads(body)["event"] for (body,) in bodies]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.shown()]

    async def killed(self, there: Callable[[], bool]) -> None:
        """A gateway that was killed, with its server, as soon as it was so while it paid."""
        params = {"name": "pay", "arguments": ORDER, "_meta": META_2026}
        async with counterfoil(*self.command) as gateway:
            await gateway.write({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
            await self.until(there)
            os.kill(gateway.process.pid, signal.SIGKILL)
            await gateway.process.wait()

    async def waits_for(self, kind: str) -> None:
        """Another gateway lives until the ledger says so."""
        async with counterfoil(*self.command):
            await self.until(lambda: kind in self.kinds(), PATIENCE_S)


def policy(*changes: tuple[str, str]) -> str:
    text = (SHOP / "policy.yaml").read_text().partition("\ncases:")[0]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text + "\n"


ASKS = ("    from: [doubt]\n", "    from: [doubt]\n    approval: { reason: money back, self_review: true }\n")


@pytest.mark.long
async def test_a_gateway_that_is_killed_while_the_book_is_read_leaves_the_refund_to_the_next(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy())
    await shop.killed(lambda: shop.booked("looked") == 1)
    assert shop.kinds()[-1] == "receipt.recorded"
    await shop.waits_for("run.stopped")
    assert (shop.booked("paid"), shop.booked("refunded")) == (2, 1)
    assert shop.kinds().count("compensation.owed") == 1


@pytest.mark.long
async def test_one_that_is_killed_while_a_person_is_asked_about_the_refund_does_too(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy(ASKS))
    async with counterfoil(*shop.command) as gateway:
        answer = await gateway.call("pay", ORDER)
        assert answer["structuredContent"]["undone"][0]["state"] == "waits"
        os.kill(gateway.process.pid, signal.SIGKILL)
        await gateway.process.wait()
    told, _ = await run("approvals", "approve", "--yes", answer["structuredContent"]["approval"]["id"], *shop.ledger)
    assert "A gateway makes this call itself" in told
    assert shop.booked("refunded") == 0
    await shop.waits_for("run.stopped")
    assert shop.booked("refunded") == 1
    paid = shop.shown()[1]["attempt"].rpartition(".")[0]
    assert "UNDONE by step" in (await run("show", paid, *shop.ledger))[0]


@pytest.mark.long
async def test_a_refund_whose_answer_was_lost_is_never_sent_again_by_itself(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "shop", policy())
    await shop.killed(lambda: shop.booked("refunded") == 1)
    assert shop.kinds()[-1] == "intent.recorded"
    await shop.waits_for("attempt.unknown")
    intents = [event["attempt"] for event in shop.shown() if event["kind"] == "intent.recorded"]
    assert "1 to be undone" in (await run("runs", *shop.ledger, COLUMNS="200"))[0]
    await run("resolve", intents[1], "--happened", "--reason", "the book says so", *shop.ledger)
    await shop.waits_for("run.stopped")
    assert shop.booked("refunded") == 1
