"""What the disk and other programs do to a gateway's ledger: nothing is sent, nothing that was acknowledged is lost,
and the gateway goes on by itself once the fault is gone, or says that it must be restarted.
"""

import os
import sqlite3
from pathlib import Path

import pytest

from gateway.model.run import AttemptState
from gateway.ports import LedgerUnavailable
from tests import world
from tests.runtime.ground import (
    FAULTS,
    LARGE,
    Fault,
    Ground,
    call,
    gateway,
    look,
    opened,
    struck,
    told,
    unlock,
    until,
    whole,
)
from tests.runtime.house import house

each_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path / "ledger.db")


@each_fault
async def test_what_strikes_at_the_intent_lets_nothing_be_sent_until_it_is_gone(fault: Fault, ground: Ground) -> None:
    clock, large = world.ToldClock(), {"text": LARGE}
    async with gateway(ground, "one", clock) as it:
        assert told(await call(it, {"n": 1})) == ("ok",)
        before = await whole(it)
        fault.begin(ground)
        for executed in (False, "unknown" if fault.unreadable else False):
            shown = await call(it, large)
            assert told(shown) == ("ledger_unavailable", executed)
            assert shown.refusal is not None
            assert fault.says in shown.refusal.reason
        assert len(it.upstreams.sent) == 1
        assert fault.says in (await look(it) or "")

        fault.end(ground)
        assert await whole(it) == before
        if fault.needs_restart:
            assert fault.says in (await look(it) or "")
            assert told(await call(it, large)) == ("ledger_unavailable", False)
            assert len(it.upstreams.sent) == 1
        else:
            assert await look(it) is None
            assert told(await call(it, large)) == ("ok",)
            assert len(it.upstreams.sent) == 2
    async with gateway(ground, "two", clock) as it:
        assert (await whole(it)).attempts["run_1.2"] == before.attempts["run_1.2"]
        assert told(await call(it, {"n": 2})) == ("ok",)
        assert await whole(it) == await it.book.state_of("run_1")


@each_fault
async def test_what_strikes_at_the_receipt_keeps_the_answer_until_it_is_gone(fault: Fault, ground: Ground) -> None:
    clock = world.ToldClock()
    async with gateway(ground, "one", clock) as it:
        await struck(it, fault, ground)
        fault.end(ground)
        if not fault.needs_restart:
            await until(it, lambda: not it.engine.carrier.kept)
            assert it.book.health.trouble is None
            assert (await whole(it)).attempts["run_1.2"].state is AttemptState.ANSWERED
            assert told(await call(it, {"n": 1})) == ("done ",)
    # Where the answer was lost with its gateway, the next one finds out that it does not know, and says so.
    async with gateway(ground, "two", clock) as two:
        for _ in range(2):
            await two.recovery.sweep()
            clock.tell(60)
        if fault.needs_restart:
            assert (await whole(two)).attempts["run_1.2"].state is AttemptState.UNKNOWN
            assert told(await call(two, {"n": 1})) == ("held", "unknown")
        assert two.upstreams.sent == []
        assert (await whole(two)).attempts["run_1.2"].state is not AttemptState.OPEN


@pytest.mark.parametrize("gone", [True, False], ids=["a fault that has gone", "a fault that stays"])
async def test_a_shutdown_gives_kept_answers_a_last_chance_and_what_is_lost_is_unknown_after_it(
    ground: Ground, *, gone: bool
) -> None:
    clock, fault = world.ToldClock(), FAULTS["locked"]
    async with gateway(ground, "one", clock) as it:
        await struck(it, fault, ground)
        if gone:
            fault.end(ground)  # and no time passes, so that nobody tries again before the end
        await it.engine.carrier.close()
        assert list(it.engine.carrier.kept) == ([] if gone else ["run_1.2"])
    if not gone:
        fault.end(ground)
    async with gateway(ground, "two", clock) as two:
        for _ in range(2):
            await two.recovery.sweep()
            clock.tell(60)
        state = (await whole(two)).attempts["run_1.2"].state
        assert state is (AttemptState.ANSWERED if gone else AttemptState.UNKNOWN)
        shown = await call(two, {"n": 1})
        assert told(shown) == (("done ",) if gone else ("held", "unknown"))
        assert two.upstreams.sent == []


async def test_our_own_sweep_leaves_an_attempt_alone_whose_answer_is_kept(ground: Ground) -> None:
    async with gateway(ground, "one", world.ToldClock()) as it:
        await struck(it, FAULTS["locked"], ground)
        unlock(ground)
        it.engine.carrier.leases.forget(())
        assert await it.recovery.sweep() == 0
        assert (await whole(it)).attempts["run_1.2"].state is AttemptState.OPEN
        await until(it, lambda: not it.engine.carrier.kept)
        assert (await whole(it)).attempts["run_1.2"].state is AttemptState.ANSWERED


@pytest.mark.parametrize("table", ["attempt", "attempt_hold", "payload", "event"])
async def test_a_page_that_is_damaged_is_not_written_over_and_stops_all_writing(ground: Ground, table: str) -> None:
    clock = world.ToldClock()
    async with gateway(ground, "one", clock) as it:
        assert told(await call(it, {"n": 1})) == ("ok",)
    db = sqlite3.connect(ground.path)
    ((page,), (size,)) = (
        db.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone(),
        db.execute("PRAGMA page_size").fetchone(),
    )
    db.close()
    body = bytearray(ground.path.read_bytes())
    body[(page - 1) * size : page * size] = b"\xff" * size
    ground.path.write_bytes(body)

    damaged = f"the ledger `{ground.path}` is damaged: stop every gateway on it and restore it from a backup"
    ledger = await opened(ground)
    if table == "event":  # then not even the run can be opened
        with pytest.raises(LedgerUnavailable) as raised:
            await ledger.read("run_1")
        assert str(raised.value) == damaged
    else:
        async with house(ledger, "two", clock=clock) as it:
            shown = await call(it, {"n": 2})
            assert told(shown) == ("ledger_unavailable", False)
            assert shown.refusal is not None
            assert shown.refusal.reason == damaged
            assert it.upstreams.sent == []
            assert await look(it) == damaged
    with pytest.raises(LedgerUnavailable) as raised:
        await ledger.touch(store=True)
    assert str(raised.value) == damaged
    await ledger.close()
    assert ground.path.read_bytes()[(page - 1) * size : page * size] == b"\xff" * size


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5, 0.8, 0.97])
@pytest.mark.parametrize("how", ["cut", "garbled"])
async def test_of_a_log_that_was_cut_or_garbled_whole_steps_are_left_in_order(
    ground: Ground, tmp_path: Path, how: str, share: float
) -> None:
    """That steps are missing at the end can only be seen from outside, by a checkpoint that somebody else has."""
    clock, copy = world.ToldClock(), Ground(tmp_path / "copy.db")
    async with gateway(ground, "one", clock) as it:
        for number in range(20):
            assert told(await call(it, {"n": number})) == ("ok",)
        stored = await it.ledger.read("run_1")
        copy.path.write_bytes(ground.path.read_bytes())
        log = bytearray(Path(f"{ground.path}-wal").read_bytes())
    at = int(len(log) * share)
    log = log[:at] if how == "cut" else log[:at] + b"\x55" * 64 + log[at + 64 :]
    Path(f"{copy.path}-wal").write_bytes(log)
    async with gateway(copy, "two", clock) as two:
        left = await two.ledger.read("run_1")
        kept = [body for _, body in left]
        assert kept == [body for _, body in stored][: len(kept)] or len(kept) == 1  # it has opened the run anew
        assert len(kept) < len(stored)
        assert told(await call(two, {"n": 99})) == ("ok",)
        assert await whole(two) == await two.book.state_of("run_1")


async def test_a_log_that_is_cut_while_it_is_open_is_noticed_and_nothing_more_is_called_recorded(
    ground: Ground,
) -> None:
    clock = world.ToldClock()
    ledger = await opened(ground)
    async with house(ledger, "one", clock=clock) as it:
        for number in range(10):
            assert told(await call(it, {"n": number})) == ("ok",)
        os.truncate(f"{ground.path}-wal", 0)
        sent = len(it.upstreams.sent)
        shown = await call(it, {"n": 99})
        assert told(shown) == ("ledger_unavailable", False)
        assert shown.refusal is not None
        assert "was cut while it was open" in shown.refusal.reason
        assert len(it.upstreams.sent) == sent
        assert "was cut while it was open" in (await look(it) or "")
    await ledger.close()
