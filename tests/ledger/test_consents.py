"""What a ledger keeps for principals beside its log: of each kind of ledger the same is asked."""

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from gateway.outbound.ledger import SqliteLedger, consents, open_ledger, schema
from gateway.outbound.ledger.guarded import GuardedLedger
from gateway.ports import Consent, Holder, Ledger, LedgerUnavailable, Stand

ANN = Holder("acme", "ann", "crm")
OTHERS = (Holder("other", "ann", "crm"), Holder("acme", "bob", "crm"), Holder("acme", "ann", "mail"))
"""Each differs from it in one thing."""


def made(holder: Holder = ANN, name: str = "c1", version: int = 1, **more: Any) -> Consent:
    return Consent(holder, name, version, b"\0sealed-cAnArY " + repr(holder).encode(), **more)


async def test_each_holder_has_one_of_their_own(ledger: Ledger) -> None:
    kept = ledger.consents
    assert await kept.read(ANN) is None
    everybody = (ANN, *OTHERS)
    assert [await kept.put(made(one), None) for one in everybody] == [True] * 4
    assert [await kept.read(one) for one in everybody] == [made(one) for one in everybody]
    assert await kept.drop(ANN) == made()
    assert await kept.drop(ANN) is None
    assert [await kept.read(one) for one in everybody] == [None, *(made(one) for one in OTHERS)]


async def test_one_is_put_only_in_the_place_of_the_one_that_was_seen(ledger: Ledger) -> None:
    kept = ledger.consents
    assert not await kept.put(made(version=2), made())  # there was none to renew
    assert await kept.put(made(), None)
    assert not await kept.put(made(name="c2"), None)  # somebody was quicker
    assert await kept.put(made(version=2), made())
    assert not await kept.put(made(version=2, owner="late"), made())
    assert not await kept.put(made(version=3), made(name="c0", version=2))  # an earlier one, that was as often renewed
    assert await kept.put(made(name="c2"), made(version=2))
    assert await kept.read(ANN) == made(name="c2")


async def test_of_many_who_renew_one_at_once_one_does(ledger: Ledger) -> None:
    kept = ledger.consents
    assert await kept.put(made(), None)
    with anyio.fail_after(5):
        claims = await asyncio.gather(*(kept.claim(made(), f"gw_{n}", 9.0) for n in range(16)))
        puts = await asyncio.gather(*(kept.put(made(version=2, owner=str(n)), made()) for n in range(16)))
    assert (sum(claims), sum(puts)) == (1, 1)


async def test_a_lease_is_taken_from_nobody_who_was_not_seen_to_have_it(ledger: Ledger) -> None:
    kept = ledger.consents
    assert not await kept.claim(made(), "gw_1", 9.0)
    assert await kept.put(made(), None)
    assert await kept.claim(made(), "gw_1", 9.5)
    mine = made(owner="gw_1", lease_until=9.5)
    assert await kept.read(ANN) == mine
    assert not await kept.claim(made(), "gw_2", 9.5)
    assert not await kept.claim(replace(mine, version=2), "gw_2", 20.0)
    assert await kept.claim(mine, "gw_2", 20.0)
    assert await kept.claim(made(owner="gw_2", lease_until=20.0), "", 0.0)
    assert await kept.read(ANN) == made()


async def test_how_many_stand_is_asked_at_once(ledger: Ledger) -> None:
    kept = ledger.consents
    assert await kept.stands([]) == {}
    assert await kept.put(made(), None)
    assert await kept.put(made(OTHERS[0], "c9", 7), None)
    strange = Holder("acme", "a\0b", "crm")
    assert await kept.stands([ANN, *OTHERS, strange]) == {ANN: Stand("c1", 1), OTHERS[0]: Stand("c9", 7)}


async def test_all_of_one_principal_are_found(ledger: Ledger) -> None:
    kept = ledger.consents
    for one in (ANN, *OTHERS):
        assert await kept.put(made(one), None)
    assert await kept.held("ann") == sorted([ANN, OTHERS[0], OTHERS[2]])
    assert await kept.held("ann", "acme") == sorted([ANN, OTHERS[2]])
    assert await kept.held("eve") == []


async def test_what_no_ledger_can_hold_is_not_kept(ledger: Ledger) -> None:
    for strange in (Holder("acme", "a\0b", "crm"), Holder("\ud800", "ann", "crm")):
        assert not await ledger.consents.put(made(strange), None)
        assert await ledger.consents.read(strange) is None
        assert await ledger.consents.drop(strange) is None


async def test_two_gateways_see_one_another_and_a_restart_forgets_nothing(shared: Ledger, url: str) -> None:
    other = await open_ledger(url)
    assert await shared.consents.put(made(), None)
    assert await other.consents.read(ANN) == made()
    assert await other.consents.claim(made(), "gw_2", 9.0)
    assert not await shared.consents.claim(made(), "gw_1", 9.0)
    await other.close()
    again = await open_ledger(url)
    assert await again.consents.read(ANN) == made(owner="gw_2", lease_until=9.0)
    await again.close()


async def test_they_are_no_part_of_the_log_and_a_ledger_with_them_is_as_it_should_be(ledger: Ledger) -> None:
    assert await ledger.consents.put(made(), None)
    assert (await ledger.log(), await ledger.payloads(), await ledger.strange()) == ([], [], [])
    assert GuardedLedger(ledger).consents is ledger.consents


async def test_of_a_closed_ledger_nothing_can_be_had(ledger: Ledger) -> None:
    await ledger.close()
    kept = ledger.consents
    for call in (kept.read(ANN), kept.stands([ANN]), kept.put(made(), None), kept.claim(made(), "x", 1.0)):
        with pytest.raises(LedgerUnavailable):
            await call
    for gone in (kept.drop(ANN), kept.held("ann")):
        with pytest.raises(LedgerUnavailable):
            await gone


async def test_what_was_dropped_is_overwritten_in_the_file(sqlite: SqliteLedger, path: Path) -> None:
    assert await sqlite.consents.put(made(), None)
    assert await sqlite.consents.drop(ANN)
    await sqlite.close()
    assert b"sealed-cAnArY" not in path.read_bytes()


def test_no_query_reads_more_than_its_rows(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        schema.create(db)
        for sql, values in (
            (consents.READ, 3),
            (consents.STANDS, 3),
            (consents.CHANGE, 10),
            (consents.CLAIM, 9),
            (consents.DROP, 3),
            (consents.HELD, 2),
        ):
            plan = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * values)]
            assert [line for line in plan if line.startswith("SCAN")] == []
