"""Time never goes back for those who use one ledger, and never stands still."""

from datetime import timedelta

from gateway.model.record import utc
from gateway.outbound.clock import LedgerClock, clock_of
from gateway.outbound.ledger.memory import MemoryLedger
from tests import world
from tests.runtime.house import approve, house, outcome


class Machine(world.ToldClock):
    """A clock that one sets, and a time that goes on whatever it is set to."""

    went_on: float = 0.0

    def monotonic(self) -> float:
        return self.went_on

    def goes_on(self, seconds: float) -> None:
        self.seconds += seconds
        self.went_on += seconds


def test_a_clock_that_is_set_back_goes_on_from_where_it_was() -> None:
    machine = Machine()
    clock = LedgerClock(machine, machine.now())
    machine.goes_on(10)
    assert clock.now() == world.T0 + 10
    machine.seconds -= 86_400
    assert clock.now() == world.T0 + 10
    machine.goes_on(5)
    assert clock.now() == world.T0 + 15
    assert clock.ahead_s == 86_400


def test_a_clock_that_is_set_forward_is_followed_and_nothing_stands_still_when_it_is_set_back() -> None:
    machine = Machine()
    clock = LedgerClock(machine, machine.now())
    machine.seconds += 3600
    assert clock.now() == world.T0 + 3600
    machine.seconds -= 3600
    machine.goes_on(60)
    assert clock.now() == world.T0 + 3660


def test_the_time_is_the_ledgers_own_however_wrong_the_machine_is() -> None:
    machine = Machine()
    clock = LedgerClock(machine, world.T0 - 300)
    machine.goes_on(10)
    assert clock.now() == world.T0 - 290
    clock.hear(world.T0 - 280)
    assert clock.now() == world.T0 - 280
    clock.hear(world.T0 - 400)
    machine.goes_on(1)
    assert clock.now() == world.T0 - 279


class Dated(MemoryLedger):
    """A ledger on a machine whose clock one sets."""

    time = world.T0

    async def now(self) -> float:
        return self.time


async def test_a_gateway_that_starts_with_a_clock_that_was_set_back_goes_on_from_the_latest_record() -> None:
    ledger = Dated()
    async with house(ledger):
        machine = Machine(world.T0 - 86_400)
        ledger.time = machine.seconds
        assert (await clock_of(ledger, machine)).now() == world.T0


async def test_an_approval_that_has_expired_stays_expired_whatever_the_clock_says() -> None:
    approval = {"reason": "money", "expires_s": 60, "self_review": True}
    clock = world.ToldClock()
    async with house(clock=clock, transitions=[{"name": "any", "tools": ["*"], "approval": approval}]) as it:
        assert outcome(await it.call("write")) == "needs_approval"
        await approve(it)
        clock.tell(61)
        assert outcome(await it.call("read")) == "needs_approval"
        clock.seconds -= 86_400
        assert outcome(await it.call("write")) == "needs_approval"
        run = await it.book.state_of("run_1")
        assert run.last_at == utc(world.T0) + timedelta(seconds=61)
        assert it.upstreams.sent == []
