"""An export proves by itself what was in the log, and holds no secret unless that is wanted."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.canonical import dump_bytes
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.redaction import DetectingRedactor
from gateway.ports import Ledger, Redactor
from gateway.runtime.exporting import BadExport, check, exported
from tests import world
from tests.audit.ledgers import every_kind, sealed
from tests.runtime.house import house

SECRET = "hunter2-" + "canary"
REDACTOR = DetectingRedactor()


async def lines(ledger: Ledger, *runs: str, redactor: Redactor | None = REDACTOR) -> list[bytes]:
    return [dump_bytes(line) async for line in exported(ledger, runs, redactor)]


async def made() -> Ledger:
    ledger = MemoryLedger()
    await every_kind(ledger)
    await sealed(ledger)
    async with house(ledger) as it:
        await it.open("run_9")
        it.upstreams.will("read", world.ok(f"password={SECRET}"))
        await it.call("read", {"token": SECRET}, run="run_9")
    return ledger


async def test_every_record_of_a_sealed_log_is_proven_and_later_ones_continue_it() -> None:
    ledger = await made()
    found = check(await lines(ledger, "run_1", "run_4", "run_9"))
    sizes = [len(await ledger.read(run)) for run in ("run_1", "run_4", "run_9")]
    assert (found.records, found.proven) == (sum(sizes), sum(sizes[:2]))
    assert (list(found.runs.values()), found.redacted) == (sizes, 0)
    assert found.payloads > 10


async def test_secrets_are_out_of_it_unless_they_are_wanted() -> None:
    ledger = await made()
    told, raw = await lines(ledger, "run_9"), await lines(ledger, "run_9", redactor=None)
    assert SECRET.encode() not in b"".join(told)
    assert b'"redacted":true' in b"".join(told)
    assert b"".join(raw).count(SECRET.encode()) == 2
    assert check(told).records == check(raw).records


async def test_a_secret_in_a_records_own_words_leaves_its_place_proven() -> None:
    ledger = MemoryLedger()
    async with house(ledger) as it:
        await it.engine.open_run(
            run="run_7", principal=world.USER, origin="process", attribution={}, goal=f"use password={SECRET}"
        )
    await sealed(ledger)
    told = await lines(ledger, "run_7")
    found = check(told)
    assert (found.records, found.proven, found.redacted) == (1, 1, 1)
    assert SECRET.encode() not in b"".join(told)


async def test_what_was_erased_is_told_with_its_time() -> None:
    ledger = await made()
    cited = next(one for one in map(json.loads, await lines(ledger, "run_9")) if one.get("redacted"))["payload"]
    await ledger.erase([cited], 7.0, await ledger.closed())
    assert {"payload": cited, "erased_at": 7.0} in [json.loads(one) for one in await lines(ledger, "run_9")]


def _with(place: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], list[Any]]:
    return lambda told: [*told[:place], change(told[place]), *told[place + 1 :]]


CHANGES: dict[str, tuple[Callable[[list[Any]], list[Any]], str]] = {
    "no head": (lambda told: told[1:], "line 1: it is no such line"),
    "nothing": (lambda _: [], "it is empty"),
    "another time": (
        _with(2, lambda one: {**one, "record": {**one["record"], "at": "2020-01-01T00:00:00Z"}}),
        "is not what was recorded",
    ),
    "another place": (
        _with(2, lambda one: {**one, "number": one["number"] + 1}),
        "is not under the root of the checkpoint",
    ),
    "another link": (
        _with(2, lambda one: {**one, "link": "00" * 32, "redacted": True}),
        "is not under the root of the checkpoint",
    ),
    "one less": (
        lambda told: [one for one in told if one.get("record", {}).get("seq") != 2],
        "does not continue the record before it",
    ),
    "no note": (_with(1, lambda _: {"checkpoint": "x"}), "a checkpoint has an origin, a size and a root"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_what_was_changed_is_found(name: str) -> None:
    change, says = CHANGES[name]
    told = [json.loads(one) for one in await lines(await made(), "run_1")]
    with pytest.raises(BadExport) as raised:
        check(map(dump_bytes, change(told)))
    assert str(raised.value).endswith(says)
