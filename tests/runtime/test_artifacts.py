"""Recorded answers are read in ranges by who got them in part, and named where they are told by reference."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.kernel.schema import violations
from gateway.model.artifact import Unreadable
from gateway.model.canonical import parse
from gateway.model.events import ReceiptRecorded
from gateway.ports import NoSuchRun
from tests import world
from tests.audit.ledgers import verified
from tests.runtime.bounding import MOST, SCHEMA, STRICT, TEXT, bounding, read, read_all, result, size, text_of

# --- what is told by reference ----------------------------------------------------------------------------------------

NAMED: dict[str, Any] = {"result": {"repeat": "reference"}}


async def test_a_result_that_was_delivered_is_named_and_not_told_again() -> None:
    async with bounding(rule=NAMED) as it:
        it.upstreams.will("read", result(), result(), result("another " * 500), result())
        first, second, other, fourth = [await it.call("read", {"n": number}) for number in range(4)]
        assert first.result == result().result
        assert other.result == result("another " * 500).result
        for named in (second, fourth):
            label = (named.record or {})["repeats"]
            assert (label["attempt"], label["step"], label["tool"]) == (first.attempt, 2, "read")
            assert f"attempt {first.attempt}" in text_of(named)
            assert size(named) < 1_000
            assert parse(await read_all(it, label["artifact"])) == result().result
        replayed = await it.engine.outcome(second.attempt or "", world.USER, world.PatientCaller())
        assert replayed.result == second.result
        receipts = [one.event for one, _ in await it.ledger.read("run_1") if isinstance(one.event, ReceiptRecorded)]
        assert [one.repeats for one in receipts] == [None, first.attempt, None, first.attempt]
        assert (await verified(it.ledger, keys=[])).breaches == []


async def test_nothing_is_named_that_the_client_has_not_got() -> None:
    async with bounding(rule=NAMED) as it:
        it.upstreams.will("read", result(), result(), result("short"), result("short"))
        it.upstreams.will("read", result(isError=True), result(isError=True))
        lost = await it.call("read", {"n": 0}, deliver=False)
        told = [await it.call("read", {"n": number}) for number in range(1, 6)]
        for shown, answer in zip([lost, *told], [result(), result(), *[result("short")] * 2], strict=False):
            assert shown.result == answer.result
        assert all(one.result == result(isError=True).result for one in told[3:])


async def test_another_run_has_not_got_what_this_one_has() -> None:
    async with bounding(rule=NAMED) as it:
        it.upstreams.will("read", result(), result())
        await it.call("read")
        await it.open("run_2")
        assert (await it.call("read", run="run_2")).result == result().result


async def test_what_is_named_keeps_its_schema_too() -> None:
    for schema, kept in ((SCHEMA, True), (STRICT, True), (None, False)):
        async with bounding(schema, rule=NAMED) as it:
            it.upstreams.will("read", *[result(structuredContent={"content": TEXT})] * 2)
            shown = [await it.call("read", {"n": number}) for number in range(2)][1]
            assert shown.result is not None
            assert ("structuredContent" in shown.result) is kept
            if schema is not None:
                assert not violations(schema, shown.result["structuredContent"])
            assert "byte for byte" in text_of(shown)


async def test_who_reads_on_has_the_answer_parsed_once_and_what_is_erased_meanwhile_is_gone() -> None:
    async with bounding() as it:
        it.upstreams.will("read", result())
        shown = await it.call("read")
        asked: list[Any] = []
        payload = it.ledger.payload

        async def counted(cited: Any) -> Any:
            asked.append(cited)
            return await payload(cited)

        it.ledger.payload = counted
        address = f"gateway://artifact/{shown.attempt}/content/0/text"
        assert (await read_all(it, address)).decode() == TEXT
        (cited,) = asked
        await it.ledger.erase([cited], it.clock.now(), await it.ledger.closed())
        with pytest.raises(Unreadable, match="erased"):
            await read(it, address)
        with pytest.raises(NoSuchRun):
            await read(it, address, who=replace(world.USER, id="local:other"))


# --- what is read -----------------------------------------------------------------------------------------------------


async def test_lines_are_read_by_their_numbers_and_each_range_says_what_follows() -> None:
    async with bounding() as it:
        it.upstreams.will("read", result())
        address = f"gateway://artifact/{(await it.call('read')).attempt}/content/0/text"
        piece = await read(it, f"{address}?line=100&lines=2")
        assert piece.body.decode() == "line 99: grüße\nline 100: grüße\n"
        assert str(piece.following) == f"{address}?line=102&lines=2"
        last = await read(it, f"{address}?line=3000&lines=9")
        assert (last.body.decode(), last.following) == ("line 2999: grüße\n", None)
        assert (await read(it, f"{address}?line=4000&lines=1")).body == b""
        assert (await read(it, f"{address}?from=999999999")).body == b""
        much = await read(it, f"{address}?bytes=99999999")
        assert len(much.body) <= MOST
        assert much.body.endswith(b"\n")
        within = TEXT.encode().index("ü".encode()) + 1
        assert (await read(it, f"{address}?from={within}&bytes=1")).body.decode() == "ü"


async def test_what_policy_keeps_back_of_an_answer_cannot_be_read_either() -> None:
    hides = "\U000e0041" + TEXT
    for done, reads in (("strip", TEXT), ("flag", hides), ("refuse", None)):
        async with bounding(rule={"hidden": done, "trust": "untrusted"}) as it:
            it.upstreams.will("read", result(hides))
            shown = await it.call("read")
            address = f"gateway://artifact/{shown.attempt}/content/0/text"
            if reads is None:
                with pytest.raises(Unreadable, match="hides characters"):
                    await read(it, address)
            else:
                piece = await read(it, address)
                assert reads.startswith(piece.body.decode())
                assert piece.label["trust"] == "untrusted"


async def test_what_was_erased_is_told_as_erased() -> None:
    async with bounding() as it:
        it.upstreams.will("read", result())
        shown = await it.call("read")
        attempt = (await it.book.state_of("run_1")).attempts[shown.attempt or ""]
        assert attempt.result is not None
        await it.ledger.erase([attempt.result], it.clock.now(), await it.ledger.closed())
        with pytest.raises(Unreadable, match="erased"):
            await read(it, f"gateway://artifact/{shown.attempt}")


async def test_only_who_made_the_call_reads_it_and_data_of_a_class_only_in_its_run() -> None:
    for rule, elsewhere in (({}, True), ({"data_class": "mail"}, False)):
        async with bounding(rule=rule) as it:
            it.upstreams.will("read", result())
            address = f"gateway://artifact/{(await it.call('read')).attempt}"
            assert (await read(it, address)).body
            for other in (replace(world.USER, id="eve"), replace(world.USER, tenant="other")):
                with pytest.raises(NoSuchRun):
                    await read(it, address, who=other)
            for run in (None, "run_2"):
                if elsewhere:
                    assert (await read(it, address, run)).body
                else:
                    with pytest.raises(NoSuchRun):
                        await read(it, address, run)
            for wrong in (f"{address}/content/7", f"{address}/isError", "gateway://artifact/run_1.99"):
                with pytest.raises(NoSuchRun):
                    await read(it, wrong)


async def test_a_read_is_no_call_and_leaves_nothing() -> None:
    async with bounding() as it:
        it.upstreams.will("read", result())
        address = f"gateway://artifact/{(await it.call('read')).attempt}"
        before = await it.book.state_of("run_1")
        await read_all(it, address)
        assert await it.book.fresh_state_of("run_1") == before
        assert len(it.upstreams.sent) == 1
