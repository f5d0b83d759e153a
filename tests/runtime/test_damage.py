"""What was changed in the ledger is never sent, judged by or told; what it does not concern goes on as before."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gateway.model.canonical import Digest
from gateway.model.record import link
from gateway.model.run import Attempt, AttemptState
from gateway.model.tool import Silence
from gateway.outbound.ledger.memory import MemoryLedger
from tests.runtime.house import House, house, outcome
from tests.runtime.undoing import POLICY, kinds, sent, swept, upstreams

KEY = {"effect": "write", "idempotency": {"kind": "key", "key": {"argument": "key"}, "valid_s": 86_400}}
KEYED: dict[str, Any] = {"tools": {"write": KEY, "pay": KEY, "read": {"effect": "read"}}}

damage = pytest.mark.parametrize("body", [b'{"n":1000000}', b'{"n":'], ids=["altered", "garbled"])


@pytest.fixture
def said() -> Iterator[list[str]]:
    """What the log says of errors, line by line; telling it hides nothing from whoever else listens."""
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(record.getMessage())

    handler, log = Lines(logging.ERROR), logging.getLogger("counterfoil")
    log.addHandler(handler)
    yield lines
    log.removeHandler(handler)


def put(it: House, cited: Digest | None, body: bytes) -> None:
    """Somebody who can write the ledger has put these bytes in the place of a payload."""
    assert cited in it.ledger._payloads
    it.ledger._payloads[cited] = body


async def attempt(it: House, name: str = "run_1.2") -> Attempt:
    return (await it.book.fresh_state_of("run_1")).attempts[name]


async def lost(it: House, tool: str, arguments: dict[str, Any], run: str = "run_1") -> str:
    """A call whose outcome nobody knows; its attempt."""
    it.upstreams.will(tool, Silence("gone"))
    shown = await it.call(tool, arguments, run=run)
    assert outcome(shown) == "timeout_unknown"
    assert shown.attempt is not None
    return shown.attempt


async def sweeps(it: House) -> None:
    for _ in range(4):
        await it.recovery.sweep()
        it.clock.tell(90)


@damage
async def test_changed_arguments_are_not_sent_again_and_what_else_is_unknown_is(body: bytes, said: list[str]) -> None:
    async with house(**KEYED) as it:
        await lost(it, "write", {"n": 1})
        other = await lost(it, "pay", {"m": 2})
        cited = (await attempt(it)).intent.arguments
        put(it, cited, body)
        await sweeps(it)
        assert [one.tool.name for one in it.upstreams.sent] == ["write", "pay", "pay"]
        assert (await attempt(it)).state is AttemptState.UNKNOWN
        assert (await attempt(it, other)).state is AttemptState.ANSWERED
        assert it.recovery.state() == {"attempts": 1, "for_people": 1}
        why = f"the payload `{cited}` of the ledger was changed after it was written: restore it from a backup"
        assert said == [f"attempt run_1.2 cannot be settled: {why}"]


@damage
async def test_what_is_to_be_undone_is_not_told_from_a_changed_answer(body: bytes, said: list[str]) -> None:
    fields: dict[str, Any] = {"upstreams": upstreams(), **POLICY}
    async with house(**fields) as it:
        refund = it.upstreams.tools.pop("refund")
        await it.call("pay", {"amount": 5})
        it.upstreams.offer(refund)
        put(it, (await attempt(it)).result, body)
        await swept(it)
        assert sent(it, "refund") == []
        assert "compensation.failed" not in await kinds(it)
        assert len(said) >= 1
        assert said[0].startswith("what run run_1 has to undo cannot be undone: the payload")


@damage
async def test_nothing_is_judged_by_a_changed_policy(body: bytes) -> None:
    ledger = MemoryLedger()
    async with house(ledger, "before") as before:
        policy = (await before.book.state_of("run_1")).policy
    async with house(ledger, "after", description="newer") as it:
        put(it, policy, body)
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert outcome(shown) == "ledger_unavailable"
        assert f"the payload `{policy}` of the ledger was changed" in shown.refusal.reason
        assert it.upstreams.sent == []
        await it.open("run_2")
        assert outcome(await it.call("write", {"n": 1}, run="run_2")) == "result"


@damage
async def test_a_changed_result_is_not_told(body: bytes) -> None:
    async with house() as it:
        await it.call("write", {"n": 1}, deliver=False)
        put(it, (await attempt(it)).result, body)
        shown = await it.call("write", {"n": 1})
        assert shown.refusal is not None
        assert outcome(shown) == "ledger_unavailable"
        assert len(it.upstreams.sent) == 1


async def test_what_nobody_foresaw_of_one_attempt_stops_no_other(said: list[str]) -> None:
    async with house(**KEYED) as it:
        await lost(it, "write", {"n": 1})
        other = await lost(it, "pay", {"m": 2})
        found = it.upstreams.tool

        async def tool(name: str, party: Any = None) -> Any:
            if name == "write":
                raise RuntimeError("a bug")
            return await found(name, party)

        it.upstreams.tool = tool  # type: ignore[method-assign]
        await sweeps(it)
        assert (await attempt(it, other)).state is AttemptState.ANSWERED
        assert said == ["attempt run_1.2 cannot be settled: a bug"]


def changed(body: bytes, linked: str) -> tuple[bytes, str]:
    """Somebody has changed the record."""
    return body.replace(b"local", b"lokal"), linked


def newer(body: bytes, _: str) -> tuple[bytes, str]:
    """A gateway of a newer version has written the record."""
    later = body.replace(b'"schema_version":1', b'"schema_version":2')
    return later, link(later)


@pytest.mark.parametrize("how", [changed, newer])
async def test_a_run_that_cannot_be_read_is_no_trouble_of_the_whole_ledger(
    how: Callable[[bytes, str], tuple[bytes, str]], said: list[str]
) -> None:
    ledger = MemoryLedger()
    async with house(ledger, "before", **KEYED) as before:
        await before.open("run_2")
        await lost(before, "write", {"n": 1}, run="run_2")
        await lost(before, "pay", {"m": 2})
    kind, body, linked, *more = ledger._runs["run_2"][0]
    ledger._runs["run_2"][0] = (kind, *how(body, linked), *more)  # type: ignore[assignment]
    async with house(ledger, "after", upstreams=before.upstreams, **KEYED) as it:
        keeping = asyncio.ensure_future(it.recovery.keep())
        for _ in range(10):
            await it.settle()
            assert it.book.health.state() == {"state": "writable"}
            it.clock.tell(it.book.options.lease_s)
        assert [one.tool.name for one in it.upstreams.sent] == ["write", "pay", "pay"]
        assert len(said) == 1
        assert said[0].startswith("attempt run_2.2 cannot be settled: a record of the ledger ")
        keeping.cancel()
