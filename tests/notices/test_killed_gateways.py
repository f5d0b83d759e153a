"""Real gateways that are killed between telling people and recording it, and two that share the work."""

import asyncio
import json
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from gateway.model.events import NoticeSent
from gateway.outbound.ledger import open_sqlite
from tests.cli.agents import LIMIT_S, Process, counterfoil
from tests.notices.receiver import OK, SECRET, Receiver, receiving

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.long]

POLICY = {
    "workflow": "bank",
    "tools": {"bank__transfer": {"effect": "write", "reversible": "no"}},
    "transitions": [
        {"name": "transfer", "tools": ["bank__transfer"], "approval": {"reason": "money leaves", "hold_s": 0}}
    ],
}


def configured(folder: Path, hook: Receiver, bank: list[str]) -> list[str]:
    """A gateway over a ledger in the folder, which tells the receiver."""
    config = {
        "ledger": "ledger.db",
        "policies": "bank.yaml",
        "notify": [
            {"name": "ops", "webhook": hook.url, "secret": "${SECRET}"},
            {"name": "odd", "apprise": "nowhere://x", "about": ["escalation"]},
        ],
        "mcpServers": {"bank": {"command": bank[0], "args": [*bank[1:], str(folder / "effects.log")]}},
    }
    (folder / "bank.yaml").write_text(json.dumps(POLICY))
    (folder / "gateway.yaml").write_text(json.dumps(config))
    return ["serve", "--stdio", "--config", str(folder / "gateway.yaml")]


async def asked(window: Process, amount: int = 1) -> str:
    """The question that a call became."""
    told = await window.call("bank__transfer", {"amount": amount, "to": "bob"})
    approval: str = told["structuredContent"]["approval"]["id"]
    return approval


async def until(true: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT_S):
        while not true():
            await anyio.sleep(0.02)


async def sent(folder: Path) -> list[NoticeSent]:
    """What the ledger knows of messages."""
    ledger = await open_sqlite(folder / "ledger.db")
    try:
        return [one.event for one in await ledger.find(["notice.sent"]) if isinstance(one.event, NoticeSent)]
    finally:
        await ledger.close()


async def test_a_gateway_killed_between_sending_and_recording_sends_again_under_the_same_id(
    effects_server: list[str], tmp_path: Path
) -> None:
    async with receiving(OK) as hook:
        serve = configured(tmp_path, hook, effects_server)
        async with counterfoil(*serve, SECRET=SECRET) as window:

            def dies(out: asyncio.StreamWriter) -> None:
                window.process.send_signal(signal.SIGKILL)
                OK(out)

            hook.scripts = [dies, OK]
            name = await asked(window)
            await window.process.wait()
        assert [one.data["name"] for one in hook.got] == [name]
        assert await sent(tmp_path) == []
        async with counterfoil(*serve, SECRET=SECRET) as second:
            await until(lambda: len(hook.got) > 1)
            await asked(second)
            await until(lambda: len(hook.got) > 2)
        async with counterfoil(*serve, SECRET=SECRET) as third:
            await asked(third, 2)
            await until(lambda: len(hook.got) > 3)
        assert len(hook.got) == 4
        assert hook.ids[0] == hook.ids[1]
        assert len(set(hook.ids)) == 3
        told = [(one.notice, one.outcome, one.tries) for one in await sent(tmp_path)]
        assert sorted(told) == sorted((name, "delivered", 1) for name in set(hook.ids))


async def test_two_gateways_over_one_file_share_what_is_to_be_told(effects_server: list[str], tmp_path: Path) -> None:
    async with receiving(OK) as hook:
        serve = configured(tmp_path, hook, effects_server)
        async with counterfoil(*serve, SECRET=SECRET) as one, counterfoil(*serve, SECRET=SECRET) as other:
            assert await one.hear("channel odd (.*)") == "cannot be used: Apprise does not understand its address"
            names = [await asked(window, amount) for amount in range(5) for window in (one, other)]
            await until(lambda: {got.data["name"] for got in hook.got} == set(names))
        assert sorted(got.data["name"] for got in hook.got) == sorted(names)
        assert sorted(one.about for one in await sent(tmp_path)) == sorted(names)
