"""Run tokens that were revoked, and what goes with them."""

import pytest

from gateway.inbound.mcp.revoked import KNOWN_S, RevokedRuns, name_of
from gateway.model.principal import Parent
from gateway.ports import LedgerUnavailable
from tests.agents.asking import Front
from tests.agents.test_doorkeeper import keeper, run_token
from tests.inbound.fake_gate import ToldClock

pytestmark = pytest.mark.anyio


class Names:
    """What was said in a ledger."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.asked = 0
        self.gone = False
        self.parents: dict[str, str] = {}

    async def opened_from(self, run: str) -> str | None:
        return self.parents.get(run)

    async def said(self, name: str) -> bool:
        self.asked += 1
        if self.gone:
            raise LedgerUnavailable("locked")
        return name in self.names


async def test_a_revoked_run_token_is_refused_within_two_seconds_and_so_are_its_children() -> None:
    clock, ledger = ToldClock(), Names()
    front = Front(keeper(revoked=RevokedRuns(ledger.said, ledger.opened_from, clock.monotonic)))
    shown = {"counterfoil-run": run_token()}
    child = {"counterfoil-run": run_token(run="run_2", parent=Parent("run_1"))}
    for _ in range(5):
        assert (await front.call(shown)).status == 200
    assert ledger.asked == 1
    ledger.names.add(name_of("run_1"))
    assert (await front.call(shown)).status == 200
    clock.tell(KNOWN_S)
    for headers in (shown, child):
        told = await front.call(headers)
        assert (told.status, told.why) == (403, "the run token was revoked: the one of the run `run_1`")


async def test_a_revoked_run_token_takes_all_with_it_that_descend_from_its_run_within_two_seconds_too() -> None:
    clock, ledger = ToldClock(), Names()
    front = Front(keeper(revoked=RevokedRuns(ledger.said, ledger.opened_from, clock.monotonic)))
    ledger.parents = {"run_3": "run_2", "run_2": "run_1"}
    tokens = [
        run_token(run="run_2", parent=Parent("run_1")),
        run_token(run="run_3", parent=Parent("run_2")),
        run_token(run="run_4", parent=Parent("run_3")),  # has made no call, so that no ledger knows it
    ]
    assert (await front.call({"counterfoil-run": tokens[0]})).status == 200
    ledger.names.add(name_of("run_1"))
    clock.tell(KNOWN_S - 0.1)
    for token in tokens[1:]:
        assert (await front.call({"counterfoil-run": token})).status == 200
    clock.tell(0.1)
    for token in tokens:
        told = await front.call({"counterfoil-run": token})
        assert (told.status, told.why) == (403, "the run token was revoked: the one of the run `run_1`")


async def test_while_the_ledger_cannot_be_read_no_run_token_is_taken() -> None:
    clock, ledger = ToldClock(), Names()
    front = Front(keeper(revoked=RevokedRuns(ledger.said, ledger.opened_from, clock.monotonic)))
    ledger.gone = True
    told = await front.call({"counterfoil-run": run_token()})
    assert (told.status, told.headers["retry-after"]) == (503, "5")


async def test_good_run_tokens_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.inbound.mcp.revoked.MAX_KNOWN", 2)
    ledger = Names()
    revoked = RevokedRuns(ledger.said, ledger.opened_from, ToldClock().monotonic)
    for run in ("a", "b", "c", "a"):
        assert await revoked.by(run) is None
    assert ledger.asked == 4
