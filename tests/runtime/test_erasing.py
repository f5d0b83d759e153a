"""Payloads are erased once nobody needs them, and what happened is recorded and verifies as before."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.inbound.told.rows import rows_of
from gateway.model.canonical import Digest, digest
from gateway.model.citation import Citation
from gateway.model.events import PayloadsErased, Who
from gateway.model.tool import Silence
from gateway.outbound.citations import CitationsOnDisk
from gateway.outbound.ledger import open_ledger
from gateway.ports import LedgerUnavailable
from gateway.runtime import erasing
from gateway.runtime.erasing import Erased, Eraser, Erasure
from gateway.runtime.policies import PolicyMissing
from gateway.runtime.retention import Kept, Retention
from gateway.runtime.story import story_of
from tests import world
from tests.audit.ledgers import verified
from tests.runtime.house import House, house
from tests.runtime.office import ANN, asking, office

BOSS = Who(tenant="local", id="local:boss")
DAY_S = 86_400.0
POLICY: dict[str, Any] = {
    "tools": {
        "read": {"effect": "read", "data_class": "mail"},
        "look": {"effect": "read"},
        "write": {"effect": "write"},
    },
    "transitions": [{"name": "all", "tools": ["read", "look", "write"]}],
}


@asynccontextmanager
async def at_work() -> AsyncIterator[House]:
    async with house(**POLICY) as it:
        it.upstreams.offer(world.tool("look"))
        yield it


async def pause() -> None: ...


async def purge(it: House, free: Callable[[Citation], bool] = lambda _cited: True, *, dry: bool = False) -> Erased:
    citations = CitationsOnDisk()
    try:
        return await Eraser(it.book, citations, Erasure("purge: all", free, BOSS), pause).run(dry=dry)
    finally:
        citations.close()


def of(it: House, value: object) -> Digest:
    return digest(value, it.ledger.salt)


async def erasures(it: House, run: str = "run_1") -> list[PayloadsErased]:
    found = [record.event for record, _ in await it.ledger.read(run)]
    return [event for event in found if isinstance(event, PayloadsErased)]


async def clean(it: House) -> int:
    """How many payloads are erased, of a ledger that is whole."""
    report = await verified(it.ledger, keys=[])
    assert report.breaches == []
    return report.erased


async def test_what_was_asked_and_answered_goes_and_what_decides_stays_and_the_ledger_verifies() -> None:
    async with at_work() as it:
        await it.call("write", {"to": "alice"})
        before = dict(await it.ledger.payloads())
        done = await purge(it)
        left = dict(await it.ledger.payloads())
        assert of(it, {"to": "alice"}) in before.keys() - left.keys()
        assert done.payloads == len(before) - len(left) == 2
        assert (await it.book.state_of("run_1")).policy in left
        (told,) = await erasures(it)
        assert (told.count, told.cited_by, told.by, told.rule) == (2, (2, 3), BOSS, "purge: all")
        assert await clean(it) == 2
        story = await story_of(it.book, "run_1")
        assert story is not None
        row = rows_of(story)[-1]
        assert (row.verdict, row.results) == ("erased", ["2 payloads by local:boss: purge: all"])


async def test_a_second_time_nothing_is_left_to_erase_and_nothing_is_recorded() -> None:
    async with at_work() as it:
        await it.call("write")
        await purge(it)
        version = (await it.book.state_of("run_1")).version
        assert (await purge(it)).payloads == 0
        assert (await it.book.state_of("run_1")).version == version


async def test_to_look_first_changes_nothing() -> None:
    async with at_work() as it:
        await it.call("write", {"to": "alice"})
        looked = await purge(it, dry=True)
        assert (looked.payloads, looked.runs) == (2, {"run_1": 2})
        assert await erasures(it) == []
        assert await it.ledger.payload(of(it, {"to": "alice"})) is not None


async def test_a_run_in_which_something_is_unknown_is_left_whole_and_named() -> None:
    async with at_work() as it:
        await it.call("look", {"q": 1})
        it.upstreams.will("write", Silence("gone"))
        await it.call("write", {"to": "alice"})
        done = await purge(it)
        assert (done.payloads, done.left) == (0, ["run_1"])


async def test_of_a_call_whose_outcome_nobody_was_told_only_that_one_is_kept() -> None:
    async with at_work() as it:
        await it.call("look", {"q": 1})
        await it.call("write", {"to": "alice"}, deliver=False)
        await purge(it)
        assert await it.ledger.payload(of(it, {"q": 1})) is None
        assert (await it.call("write", {"to": "alice"})).refusal is None  # answered from its record


async def test_what_another_run_cites_goes_with_the_last_of_them() -> None:
    async with at_work() as it:
        await it.call("look", {"q": "shared"})
        await it.open("run_2")
        await it.call("look", {"q": "shared"}, run="run_2")
        shared = of(it, {"q": "shared"})
        await purge(it, lambda cited: cited.run == "run_1")
        assert await it.ledger.payload(shared) is not None
        await purge(it)
        assert await it.ledger.payload(shared) is None
        assert (await erasures(it, "run_2"))[0].count == 2


async def test_what_is_cited_anew_while_it_is_decided_stays() -> None:
    async with at_work() as it:
        await it.call("look", {"q": 1})
        erase_at_last = it.ledger.tracked

        async def late(**asked: Any) -> Any:
            found = await erase_at_last(**asked)
            it.ledger.tracked = erase_at_last
            await it.open("run_2")
            await it.call("look", {"q": 1}, run="run_2")
            return found

        it.ledger.tracked = late
        await purge(it)
        assert await it.ledger.payload(of(it, {"q": 1})) is not None


async def test_a_purge_that_is_cut_off_after_its_record_is_done_by_the_next_one() -> None:
    async with at_work() as it:
        await it.call("write", {"to": "alice"})
        erase = it.ledger.erase

        async def dies(*_: Any) -> int:
            raise LedgerUnavailable("killed")

        it.ledger.erase = dies
        with pytest.raises(LedgerUnavailable):
            await purge(it)
        assert await clean(it) == 0
        it.ledger.erase = erase
        assert (await purge(it)).payloads == 2
        assert await clean(it) == 2


async def test_what_is_cited_anew_after_its_erasure_was_recorded_stays() -> None:
    async with at_work() as it:
        await it.call("look", {"q": 1})
        await it.open("run_2")
        erase = it.ledger.erase

        async def late(*asked: Any) -> int:
            await it.call("look", {"q": 1}, run="run_2", deliver=False)
            gone: int = await erase(*asked)
            return gone

        it.ledger.erase = late
        await purge(it)
        assert await it.ledger.payload(of(it, {"q": 1})) is not None


async def test_of_a_run_that_wakes_up_while_others_are_erased_nothing_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "AT_ONCE", 1)
    async with at_work() as it:
        await it.call("look", {"q": 1})
        await it.open("run_2")
        await it.call("look", {"q": 2}, run="run_2")
        begun: list[None] = []

        async def wakes() -> None:
            if await erasures(it) and not begun:
                begun.append(None)
                await it.call("look", {"q": 3}, run="run_2", deliver=False)

        citations = CitationsOnDisk()
        await Eraser(it.book, citations, Erasure("purge: all", lambda _: True, BOSS), wakes).run(dry=False)
        citations.close()
        assert begun
        assert await it.ledger.payload(of(it, {"q": 1})) is None
        assert await it.ledger.payload(of(it, {"q": 2})) is not None


async def test_in_each_run_it_is_recorded_however_many_steps_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "AT_ONCE", 1)
    async with at_work() as it:
        await it.call("look", {"q": "shared"})
        await it.call("look", {"q": 1})
        await it.open("run_2")
        await it.call("look", {"q": "shared"}, run="run_2")
        done = await purge(it)
        assert [sum(one.count for one in await erasures(it, run)) for run in ("run_1", "run_2")] == [3, 2]
        assert (done.payloads, done.runs) == (3, {"run_1": 3, "run_2": 2})


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_two_purges_at_once_beside_calls_leave_a_ledger_that_verifies(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue("postgres_url") if kind == "postgres" else f"sqlite:///{tmp_path}/ledger.db"
    ledger, other = await open_ledger(url), await open_ledger(url)
    async with house(ledger, **POLICY) as it, house(other, "two", **POLICY) as two:
        it.upstreams.offer(world.tool("look"))
        it.upstreams.will("write", Silence("gone"))
        for number in range(6):
            await it.open(f"old_{number}")
            await it.call("look", {"q": number % 3}, run=f"old_{number}")
        await it.open("unknown")
        await it.call("write", {"to": "alice"}, run="unknown")
        done, told = await asyncio.gather(
            asyncio.gather(purge(it), purge(two)), asyncio.gather(*(it.call("look", {"q": n}) for n in range(3)))
        )
        assert sum(one.payloads for one in done) <= 4
        assert all(shown.refusal is None for shown in told)
        assert await ledger.payload(of(it, {"to": "alice"})) is not None
        await purge(two)
        assert await ledger.payload(of(it, {"q": 0})) is None
        assert await clean(it) == 4
    await other.close()
    await ledger.close()


async def test_retention_takes_each_class_of_data_after_its_time_and_what_is_in_use_never() -> None:
    async with at_work() as it:
        it.upstreams.will("read", world.ok("a letter"))
        await it.call("read", {"q": "mail"})
        await it.call("look", {"q": "other"})
        keeper = Retention(it.book, Kept(30, {"mail": 7}), CitationsOnDisk, pause)
        it.clock.tell(6 * DAY_S)
        assert (await keeper.look()).payloads == 0
        it.clock.tell(2 * DAY_S)
        assert (await keeper.look()).payloads == 2
        assert await it.ledger.payload(of(it, {"q": "mail"})) is None
        assert await it.ledger.payload(of(it, {"q": "other"})) is not None
        assert (await erasures(it))[0].rule == "retention: 30 days, 7 days of `mail`"
        it.clock.tell(23 * DAY_S)
        assert (await keeper.look()).payloads == 2  # what erasing itself records does not make a run young again
        assert await clean(it) == 4


async def test_without_a_word_about_other_data_only_the_named_class_goes() -> None:
    async with at_work() as it:
        await it.call("read", {"q": "mail"})
        await it.call("look", {"q": "other"})
        it.clock.tell(1000 * DAY_S)
        await Retention(it.book, Kept(None, {"mail": 7}), CitationsOnDisk, pause).look()
        assert await it.ledger.payload(of(it, {"q": "mail"})) is None
        assert await it.ledger.payload(of(it, {"q": "other"})) is not None


async def test_of_a_run_that_cannot_be_written_to_nothing_is_erased() -> None:
    async with at_work() as it:
        await it.call("look", {"q": 1})

        async def fails(*_: Any) -> Any:
            raise PolicyMissing("gone")

        it.book.say = fails  # type: ignore[method-assign, assignment]
        done = await purge(it)
        assert (done.payloads, done.unread) == (0, 1)
        assert await it.ledger.payload(of(it, {"q": 1})) is not None


async def test_a_question_keeps_what_it_asks_for_and_a_yes_outlives_its_arguments() -> None:
    async with office(transitions=asking()) as at:
        it, arguments = at.it, {"to": "alice"}
        await at.calls(arguments)
        it.clock.tell(DAY_S / 2)
        assert (await purge(it)).left == ["run_1"]
        assert of(it, arguments) in dict(await it.ledger.payloads()), "somebody must be shown it"
        await at.says()
        await purge(it)
        assert of(it, arguments) not in dict(await it.ledger.payloads())
        packet = await at.desk.packet((await at.asked()).id, ANN)
        assert packet is not None
        assert packet.arguments is None
        assert (await at.calls(arguments), at.sent) == ("result", 1)
        assert await clean(it) == 0, "it was said again"
