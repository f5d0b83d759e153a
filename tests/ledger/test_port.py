"""What every ledger promises, asked of each kind that there is."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import anyio
import pytest

from gateway.model.canonical import Digest, digest_bytes
from gateway.model.record import GENESIS, encode
from gateway.outbound.ledger import open_ledger
from gateway.ports import Append, Checkpoint, Conflict, DamagedRecord, Ledger, LedgerUnavailable, Occupied
from tests.ledger.making import T0, Line, asked, attempt, opened, small

BODY = b'{"to":"alice"}'
CITED = Digest("c1:arguments")


async def outcomes(ledger: Ledger, *steps: Append) -> list[BaseException | None]:
    """What came of each step, all being appended at once."""
    with anyio.fail_after(5):
        return await asyncio.gather(*(ledger.append(step) for step in steps), return_exceptions=True)


async def test_a_step_is_read_back_byte_for_byte(ledger: Ledger) -> None:
    step = Line("run_1").step(opened("pay the bill"), asked())
    await ledger.append(step)
    assert await ledger.read("run_1") == [(record, encode(record)) for record in step.records]


async def test_a_run_is_read_from_where_the_reader_left_off(ledger: Ledger) -> None:
    line = Line("run_1")
    first, second = line.step(opened()), line.step(small(), small("att_2"))
    await ledger.append(first)
    await ledger.append(second)
    assert [record for record, _ in await ledger.read("run_1", after=1)] == second.records
    assert await ledger.read("run_1", after=3) == []


async def test_an_unknown_run_is_empty(ledger: Ledger) -> None:
    await ledger.append(Line("run_1").step())
    assert await ledger.read("run_2") == []


async def test_a_run_that_moved_on_is_a_conflict_and_nothing_is_written(ledger: Ledger) -> None:
    line = Line("run_1")
    late = replace(Line("run_1").tracking(attempt("att_1", hold="h1")), payloads={CITED: BODY})
    await ledger.append(line.step(opened()))
    before = await ledger.read("run_1")
    with pytest.raises(Conflict):
        await ledger.append(late)
    assert await ledger.read("run_1") == before
    assert await ledger.payload(CITED) is None
    assert await ledger.tracked() == []


async def test_a_run_that_was_never_as_far_is_a_conflict(ledger: Ledger) -> None:
    line = Line("run_1")
    line.step(opened())
    with pytest.raises(Conflict):
        await ledger.append(line.step())
    assert await ledger.read("run_1") == []


async def test_the_same_version_with_another_head_is_a_conflict(ledger: Ledger) -> None:
    await ledger.append(Line("run_1").step(opened("theirs")))
    ours = Line("run_1")
    ours.step(opened("ours"))
    with pytest.raises(Conflict):
        await ledger.append(ours.step())
    assert len(await ledger.read("run_1")) == 1


def with_gap(step: Append) -> Append:
    return replace(step, records=step.records[1:])


def with_other_head(step: Append) -> Append:
    first = step.records[0].model_copy(update={"previous": "0" * 64})
    return replace(step, records=[first, *step.records[1:]])


def with_other_run(step: Append) -> Append:
    return replace(step, records=[record.model_copy(update={"run": "run_2"}) for record in step.records])


def with_other_runs_attempt(step: Append) -> Append:
    return replace(step, track=[attempt("att_1", "run_2")])


@pytest.mark.parametrize("broken", [with_gap, with_other_head, with_other_run, with_other_runs_attempt])
async def test_records_that_do_not_continue_the_run_are_the_callers_mistake(
    ledger: Ledger, broken: Callable[[Append], Append]
) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is for the developer, and says which record
        await ledger.append(broken(Line("run_1").step(small(), small())))
    assert await ledger.read("run_1") == []
    assert await ledger.tracked() == []


async def test_a_step_without_records_still_expects_the_run_to_be_where_it_was(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.step(opened()))
    await ledger.append(Append("run_1", line.expected, (), track=[attempt("att_1")]))
    with pytest.raises(Conflict):
        await ledger.append(Append("run_1", (0, GENESIS), (), untrack=["att_1"]))
    assert await ledger.tracked() == [attempt("att_1")]


async def test_an_effect_that_is_held_in_any_run_occupies_its_equals(ledger: Ledger) -> None:
    holder = attempt("att_1", hold="pay alice", lease_until=T0 + 30)
    await ledger.append(Line("run_1").tracking(holder))
    with pytest.raises(Occupied) as occupied:
        await ledger.append(
            replace(Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")), payloads={CITED: BODY})
        )
    assert occupied.value.held == holder
    assert await ledger.read("run_2") == []
    assert await ledger.payload(CITED) is None
    assert await ledger.tracked() == [holder]


async def test_a_hold_ends_when_its_attempt_settles(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    await ledger.append(line.step(untrack=["att_1"]))
    again = attempt("att_2", "run_2", hold="pay alice")
    await ledger.append(Line("run_2").tracking(again))
    assert await ledger.tracked() == [again]


async def test_a_hold_ends_when_its_attempt_no_longer_claims_it(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    await ledger.append(line.tracking(attempt("att_1", state="unverified")))
    await ledger.append(Line("run_2").tracking(attempt("att_2", "run_2", hold="pay alice")))
    assert [tracked.attempt for tracked in await ledger.tracked()] == ["att_1", "att_2"]


async def test_a_hold_passes_on_within_one_step(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.tracking(attempt("att_1", hold="pay alice")))
    await ledger.append(line.tracking(attempt("att_2", hold="pay alice"), untrack=["att_1"]))
    assert await ledger.tracked() == [attempt("att_2", hold="pay alice")]


async def test_two_equal_effects_in_one_step_occupy_each_other(ledger: Ledger) -> None:
    first, second = attempt("att_1", hold="pay alice"), attempt("att_2", hold="pay alice")
    with pytest.raises(Occupied) as occupied:
        await ledger.append(Line("run_1").tracking(first, second))
    assert occupied.value.held == first
    assert await ledger.tracked() == []


async def test_attempts_without_a_hold_never_stand_in_each_others_way(ledger: Ledger) -> None:
    await ledger.append(Line("run_1").tracking(attempt("att_1"), attempt("att_2")))
    await ledger.append(Line("run_2").tracking(attempt("att_3", "run_2")))
    assert [tracked.attempt for tracked in await ledger.tracked()] == ["att_1", "att_2", "att_3"]


async def test_of_many_equal_effects_at_once_one_is_recorded(ledger: Ledger) -> None:
    runs = [f"run_{number}" for number in range(16)]
    came = await outcomes(ledger, *(Line(run).tracking(attempt(f"att_{run}", run, hold="pay alice")) for run in runs))
    assert Counter(type(one) for one in came) == {type(None): 1, Occupied: 15}
    assert len(await ledger.tracked()) == 1


async def test_of_many_equal_versions_at_once_one_is_recorded(ledger: Ledger) -> None:
    came = await outcomes(ledger, *(Line("run_1").step(opened(f"goal {number}")) for number in range(16)))
    assert Counter(type(one) for one in came) == {type(None): 1, Conflict: 15}
    assert len(await ledger.read("run_1")) == 1


async def test_steps_that_build_on_queued_ones_are_all_recorded_in_order(ledger: Ledger) -> None:
    line = Line("run_1")
    steps = [line.step(small(f"att_{number}")) for number in range(32)]
    assert await outcomes(ledger, *steps) == [None] * 32
    assert [record for record, _ in await ledger.read("run_1")] == [step.records[0] for step in steps]


async def test_what_builds_on_a_refused_step_is_refused_too(ledger: Ledger) -> None:
    await ledger.append(Line("run_0").tracking(attempt("att_0", "run_0", hold="pay alice")))
    line = Line("run_1")
    good, refused, after = line.step(opened()), line.tracking(attempt("att_1", hold="pay alice")), line.step()
    came = await outcomes(ledger, good, refused, after, Line("run_2").step())
    assert [type(one) for one in came] == [type(None), Occupied, Conflict, type(None)]
    assert [record for record, _ in await ledger.read("run_1")] == good.records
    assert len(await ledger.read("run_2")) == 1


async def test_a_payload_is_stored_once_and_the_first_stays(ledger: Ledger) -> None:
    line = Line("run_1")
    cited, two = digest_bytes(BODY, ledger.salt), digest_bytes(b"", ledger.salt)
    await ledger.append(line.paying({cited: BODY}))
    await ledger.append(line.paying({cited: b"other", two: b""}))
    assert await ledger.payload(cited) == BODY
    assert await ledger.payload(two) == b""
    assert await ledger.payload(Digest("c1:never")) is None


async def test_a_payload_that_is_not_the_one_of_its_digest_is_never_given(ledger: Ledger) -> None:
    cited = digest_bytes(BODY, ledger.salt)
    await ledger.append(Line("run_1").paying({cited: b'{"to":"mallory"}'}))
    with pytest.raises(DamagedRecord) as damaged:
        await ledger.payload(cited)
    assert str(damaged.value) == (
        f"the payload `{cited}` of the ledger was changed after it was written: restore it from a backup"
    )
    assert await ledger.payloads() == [(cited, b'{"to":"mallory"}')]  # for `verify`, as it stands


async def test_a_payload_may_have_sixteen_mebibytes(ledger: Ledger) -> None:
    large = bytes(range(256)) * (16 * 1024 * 4)
    cited = digest_bytes(large, ledger.salt)
    await ledger.append(Line("run_1").paying({cited: large}))
    assert await ledger.payload(cited) == large


async def test_what_is_unsettled_is_listed_oldest_first_and_keeps_its_age(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.tracking(attempt("att_b"), attempt("att_a"), attempt("att_c")))
    unknown = attempt("att_b", state="unknown", hold="h", owner="gw_2", lease_until=0.0)
    await ledger.append(line.tracking(unknown, untrack=["att_a", "att_never"]))
    assert await ledger.tracked() == [unknown, attempt("att_c")]


async def test_what_is_unsettled_is_listed_by_state(ledger: Ledger) -> None:
    one, two = attempt("att_1", state="unknown"), attempt("att_2")
    await ledger.append(Line("run_1").tracking(one, two))
    assert await ledger.tracked(states={"open"}) == [two]
    assert await ledger.tracked(states=["open", "unknown"]) == [one, two]
    assert await ledger.tracked(states=()) == []


async def test_a_claim_needs_the_lease_as_it_was_seen(ledger: Ledger) -> None:
    seen = attempt("att_1", owner="gw_1", lease_until=T0)
    await ledger.append(Line("run_1").tracking(seen))
    for stale in ({"owner": "gw_0"}, {"lease_until": T0 - 1}, {"state": "unknown"}, {"attempt": "att_never"}):
        assert not await ledger.claim(replace(seen, **stale), "gw_2", T0 + 10)
    assert await ledger.claim(seen, "gw_2", T0 + 10)
    assert not await ledger.claim(seen, "gw_1", T0 + 20)
    assert await ledger.tracked() == [replace(seen, owner="gw_2", lease_until=T0 + 10)]


async def test_of_many_claims_at_once_one_wins(ledger: Ledger) -> None:
    seen = attempt("att_1", lease_until=T0)
    await ledger.append(Line("run_1").tracking(seen))
    with anyio.fail_after(5):
        won = await asyncio.gather(*(ledger.claim(seen, f"gw_{n}", T0 + 10) for n in range(10, 26)))
    assert won.count(True) == 1
    (held,) = await ledger.tracked()
    assert held.owner == f"gw_{10 + won.index(True)}"


async def test_only_what_its_owner_works_on_is_renewed(ledger: Ledger) -> None:
    others = [attempt("att_2", state="unknown", lease_until=0.0), attempt("att_3", owner="gw_2")]
    await ledger.append(Line("run_1").tracking(attempt("att_1"), attempt("att_4", state="unverified"), *others))
    await ledger.renew("gw_1", ["att_1", "att_2", "att_3", "att_never"], T0 + 60)
    await ledger.renew("gw_never", ["att_1"], T0 + 90)
    await ledger.renew("gw_1", [], T0 + 90)
    left = [attempt("att_4", state="unverified"), *others]
    assert await ledger.tracked() == [attempt("att_1", lease_until=T0 + 60), *left]
    await ledger.renew("gw_1", {"att_1"}, 0.0)
    await ledger.renew("gw_1", {"att_1"}, T0 + 60)
    assert await ledger.tracked() == [attempt("att_1", lease_until=0.0), *left], "it is nobody's now"


async def test_the_log_is_every_record_in_the_order_of_the_appends(ledger: Ledger) -> None:
    one, two = Line("run_1"), Line("run_2")
    steps = [one.step(opened()), two.step(opened(), small()), one.step(small())]
    for step in steps:
        await ledger.append(step)
    logged = await ledger.log()
    stored = [(one.run, one.seq, one.event.kind, *one.sealed[::-1]) for step in steps for one in step.records]
    assert [(found.run, found.seq, found.kind, found.link, found.body) for found in logged] == stored
    places = [found.place for found in logged]
    assert places == sorted(set(places))
    assert await ledger.log(places[1], limit=1) == logged[2:3]
    assert await ledger.links(places[0], limit=2) == [(found.place, found.link) for found in logged[1:3]]
    assert await ledger.closed() == places[-1]
    assert await ledger.log(places[-1]) == []


async def test_nothing_comes_at_or_before_a_closed_place(ledger: Ledger) -> None:
    assert await ledger.closed() == 0
    with anyio.fail_after(5):
        for turn in range(5):
            lines = [Line(f"run_{turn}_{n}") for n in range(8)]
            appending = [asyncio.ensure_future(ledger.append(line.step(opened(), small()))) for line in lines]
            closed = await ledger.closed()
            before = [one.link for one in await ledger.log() if one.place <= closed]
            await asyncio.gather(*appending)
            assert [one.link for one in await ledger.log() if one.place <= closed] == before


def checkpoint(size: int) -> Checkpoint:
    return Checkpoint(size, size * 2, ("aa" * 32, "bb" * 32), T0 + size / 8, f"origin\n{size}\nroot\n")


async def test_checkpoints_only_grow(ledger: Ledger) -> None:
    assert await ledger.checkpoints() == []
    assert await ledger.checkpoint(checkpoint(2))
    assert not await ledger.checkpoint(checkpoint(2))
    assert not await ledger.checkpoint(checkpoint(1))
    assert await ledger.checkpoint(checkpoint(5))
    assert await ledger.checkpoints() == [checkpoint(5)]
    assert await ledger.checkpoints(limit=9) == [checkpoint(5), checkpoint(2)]


async def test_payloads_are_listed_and_erased_and_what_was_erased_is_known(ledger: Ledger) -> None:
    names = [Digest(f"c1:{name}") for name in "bca"]
    line = Line("run_1")
    await ledger.append(line.paying(dict.fromkeys(names, BODY)))
    assert await ledger.payloads() == [(Digest(f"c1:{name}"), BODY) for name in "abc"]
    assert await ledger.payloads("c1:a", limit=1) == [(Digest("c1:b"), BODY)]
    assert await ledger.erase([names[0], names[2], Digest("c1:never")], T0, await ledger.closed()) == 2
    assert await ledger.erase([names[0]], T0 + 1, await ledger.closed()) == 0
    assert await ledger.payloads() == [(names[1], BODY)]
    assert await ledger.payload(names[0]) is None
    assert await ledger.erased(names) == {names[0]: T0, names[2]: T0}
    assert await ledger.erased([]) == {}
    assert len(await ledger.read("run_1")) == 1


async def test_a_payload_that_is_cited_by_what_the_eraser_has_not_read_stays(ledger: Ledger) -> None:
    line = Line("run_1")
    await ledger.append(line.paying({CITED: BODY}))
    seen = await ledger.closed()
    await ledger.append(line.step(asked()))
    assert await ledger.erase([CITED], T0, seen) == 0
    assert await ledger.erased([CITED]) == {}
    assert await ledger.erase([CITED], T0, await ledger.closed()) == 1


async def test_a_payload_that_comes_again_is_no_longer_an_erased_one(ledger: Ledger) -> None:
    line = Line("run_1")
    cited = digest_bytes(BODY, ledger.salt)
    await ledger.append(line.paying({cited: BODY}))
    await ledger.erase([cited], T0, await ledger.closed())
    await ledger.append(line.paying({cited: BODY}))
    assert await ledger.payload(cited) == BODY
    assert await ledger.erased([cited]) == {}


async def test_each_ledger_has_a_salt_of_its_own(ledger: Ledger) -> None:
    other = await open_ledger("memory:")
    assert len(ledger.salt) == 32
    assert ledger.salt != other.salt


async def test_a_closed_ledger_is_unavailable_and_may_be_closed_again(ledger: Ledger) -> None:
    await ledger.append(Line("run_1").tracking(attempt("att_1")))
    await ledger.close()
    await ledger.close()
    for call in (
        *(ledger.append(Line("run_2").step()), ledger.read("run_1"), ledger.find(["run.opened"])),
        ledger.named(["a"]),
        ledger.payload(CITED),
        ledger.tracked(),
        ledger.claim(attempt("att_1"), "gw_1", T0),
        ledger.log(),
        ledger.links(),
        ledger.closed(),
        ledger.checkpoint(checkpoint(1)),
        ledger.checkpoints(),
        ledger.payloads(),
        ledger.erase([CITED], T0, 1),
        ledger.erased([CITED]),
        ledger.renew("gw_1", ["att_1"], T0),
    ):
        with pytest.raises(LedgerUnavailable, match=r"^the ledger is closed$"):
            await call


async def test_a_run_is_read_in_pages(ledger: Ledger) -> None:
    line = Line("run_1")
    for _ in range(5):
        await ledger.append(line.step())
    seqs = [[one.seq for one, _ in await ledger.read("run_1", after, limit=2)] for after in (0, 2, 4, 5)]
    assert seqs == [[1, 2], [3, 4], [5], []]
    assert await ledger.read("run_1", 1, limit=100) == (await ledger.read("run_1"))[1:]


@pytest.mark.parametrize("store", [False, True])
async def test_a_touch_changes_nothing_that_can_be_read(ledger: Ledger, *, store: bool) -> None:
    await ledger.append(Line("run_1").step(opened()))
    before = await ledger.log(), await ledger.payloads(), await ledger.tracked(), ledger.salt
    for _ in range(2):
        await ledger.touch(store=store)
    assert (await ledger.log(), await ledger.payloads(), await ledger.tracked(), ledger.salt) == before
