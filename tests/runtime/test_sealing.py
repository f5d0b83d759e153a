"""Checkpoints: made beside everything, over what is there, and never over what is not what it was."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from gateway.kernel.merkle import Tree
from gateway.model.checkpoint import Checkpoint
from gateway.model.note import Note, Signature, key_id, origin_of, read_note
from gateway.outbound.head_file import HeadFile
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.seal_keys import SealKey, new_key, seal_key, signed_by
from gateway.runtime import sealing
from gateway.runtime.sealing import Sealer, Sealing, Unsealable
from tests import world
from tests.ledger.making import Line

KEY = seal_key("11" * 32)


def sealer(ledger: MemoryLedger, key: SealKey | None = KEY, head: HeadFile | None = None) -> Sealer:
    return Sealer(ledger, world.ToldClock(), Sealing(key, signed_by, head))


async def filled(ledger: MemoryLedger, run: str = "run_1", count: int = 3) -> Line:
    line = Line(run)
    for _ in range(count):
        await ledger.append(line.step())
    return line


async def tree_of(ledger: MemoryLedger) -> Tree:
    tree = Tree()
    for _, link in await ledger.links():
        tree.add(bytes.fromhex(link))
    return tree


async def forged(ledger: MemoryLedger, size: int, key: SealKey | None = None) -> Checkpoint:
    """A checkpoint over records that never were."""
    tree = Tree()
    for number in range(size):
        tree.add(b"%d" % number)
    origin = origin_of(ledger.salt)
    note = Note(origin, size, tree.root)
    if key is not None:
        signature = Signature(origin, key_id(origin, key.public), key.sign(note.text.encode()))
        note = replace(note, signatures=(signature,))
    return Checkpoint(size, size, tuple(peak.hex() for peak in tree.peaks), 0.0, str(note))


async def test_a_checkpoint_is_over_all_that_is_recorded_and_signed() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    made = await sealer(ledger).seal()
    tree = await tree_of(ledger)
    assert made is not None
    assert list(await ledger.checkpoints()) == [made]
    assert (made.size, made.place, made.at) == (3, 3, world.T0)
    assert made.peaks == tuple(peak.hex() for peak in tree.peaks)
    note = read_note(made.note)
    (signature,) = note.signatures
    assert (note.origin, note.size, note.root) == (origin_of(ledger.salt), 3, tree.root)
    assert signed_by(KEY.public, signature.signature, note.text.encode())


async def test_it_goes_on_from_the_last_one_also_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "BATCH", 2)
    ledger = MemoryLedger()
    for count in (1, 5, 2):
        await filled(ledger, f"run_{count}", count)
        assert await sealer(ledger).seal() is not None
        assert await sealer(ledger).seal() is None
    tree = await tree_of(ledger)
    assert [one.size for one in await ledger.checkpoints(limit=9)] == [8, 6, 1]
    assert read_note((await ledger.checkpoints())[0].note).root == tree.root


async def test_an_empty_ledger_has_no_checkpoint(tmp_path: Path) -> None:
    ledger, head = MemoryLedger(), HeadFile(tmp_path / "head")
    assert await sealer(ledger, head=head).seal() is None
    assert (list(await ledger.checkpoints()), head.read()) == ([], None)


async def test_of_two_that_seal_at_once_one_is_quicker_and_both_go_on(tmp_path: Path) -> None:
    ledger, head = MemoryLedger(), HeadFile(tmp_path / "head")
    await filled(ledger)
    one, other = sealer(ledger, head=head), sealer(ledger, head=head)
    made = []
    async with anyio.create_task_group() as group:
        for each in (one, other):

            async def seals(each: Sealer = each) -> None:
                made.append(await each.seal())

            group.start_soon(seals)
    assert sum(found is not None for found in made) == 1
    await filled(ledger, "run_2")
    assert await other.seal() is not None
    await filled(ledger, "run_3")
    assert await one.seal() is not None
    newest = await ledger.checkpoints(limit=9)
    assert [found.size for found in newest] == [9, 6, 3]
    assert head.read() == read_note(newest[0].note)


async def test_without_a_key_it_is_not_signed_and_a_signed_ledger_is_left_alone() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    made = await sealer(ledger, None).seal()
    assert made is not None
    assert read_note(made.note).signatures == ()
    await filled(ledger, "run_2")
    assert await sealer(ledger).seal() is not None
    await filled(ledger, "run_3")
    assert await sealer(ledger, None).seal() is None


async def test_what_another_key_or_nobody_signed_is_not_gone_on_from() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    for made in (await forged(ledger, 1), await forged(ledger, 2, seal_key(new_key()))):
        assert await ledger.checkpoint(made)
    found = await sealer(ledger).seal()
    assert found is not None
    assert read_note(found.note).root == (await tree_of(ledger)).root


async def test_peaks_that_the_note_does_not_say_are_not_gone_on_from() -> None:
    ledger = MemoryLedger()
    await filled(ledger, count=2)
    made = await sealer(ledger).seal()
    assert made is not None
    ledger._checkpoints[0] = replace(made, peaks=(await forged(ledger, 2)).peaks)
    await filled(ledger, "run_2")
    found = await sealer(ledger).seal()
    assert found is not None
    assert read_note(found.note).root == (await tree_of(ledger)).root


async def test_a_checkpoint_over_more_than_there_is_stops_it() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    assert await ledger.checkpoint(await forged(ledger, 1_000))
    with pytest.raises(Unsealable) as raised:
        await sealer(ledger).seal()
    assert str(raised.value) == "a checkpoint says that there are 1000 records, and there are 3"


async def test_a_ledger_that_is_shorter_than_it_was_is_not_sealed_again() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    own = sealer(ledger)
    assert await own.seal() is not None
    ledger._log.pop()
    for one in (own, sealer(ledger)):
        with pytest.raises(Unsealable) as raised:
            await one.seal()
        assert str(raised.value) == "the log ends at place 2, and was sealed up to place 3"


async def test_a_ledger_that_was_rewritten_with_its_checkpoints_is_not_sealed_by_who_knew_it() -> None:
    ledger = MemoryLedger()
    await filled(ledger)
    own = sealer(ledger)
    assert await own.seal() is not None
    ledger._log.clear()
    ledger._runs.clear()
    ledger._checkpoints.clear()
    await filled(ledger, "another", 4)
    with pytest.raises(Unsealable) as raised:
        await own.seal()
    assert str(raised.value) == "the first 3 records are not those that were sealed"


@pytest.mark.parametrize("key", [KEY, None])
async def test_the_head_outside_keeps_a_shortened_or_rewritten_ledger_from_being_sealed(
    tmp_path: Path, key: SealKey | None
) -> None:
    ledger, head = MemoryLedger(), HeadFile(tmp_path / "outside" / "head")
    await filled(ledger)
    made = await sealer(ledger, key, head).seal()
    assert made is not None
    assert head.read() == read_note(made.note)
    shorter, other = MemoryLedger(ledger.salt), MemoryLedger(ledger.salt)
    await filled(shorter, count=2)
    await filled(other, "another", 5)
    said = {}
    for name, one in {"shorter": shorter, "other": other, "alien": MemoryLedger()}.items():
        with pytest.raises(Unsealable) as raised:
            await sealer(one, key, head).seal()
        said[name] = str(raised.value).partition(";")[0]
    assert said == {
        "shorter": "the log has 2 records, and was sealed over 3",
        "other": "the first 3 records are not those that were sealed",
        "alien": f"the head is of another ledger, `{origin_of(ledger.salt)}`",
    }
    assert head.read() == read_note(made.note)


@pytest.mark.parametrize("key", [KEY, None])
async def test_a_death_between_the_checkpoint_and_the_head_is_made_up_for(tmp_path: Path, key: SealKey | None) -> None:
    ledger, head = MemoryLedger(), HeadFile(tmp_path / "head")
    await filled(ledger)
    assert await sealer(ledger, key, head).seal() is not None
    await filled(ledger, "run_2")
    made = await sealer(ledger, key).seal()  # and the head was never told
    assert made is not None
    assert await sealer(ledger, key, head).seal() is None
    assert head.read() == read_note(made.note)


async def test_it_is_sealed_when_it_is_time_or_many_wait_and_at_the_end() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    own = Sealer(ledger, clock, Sealing(KEY, signed_by, every_s=60.0))
    line = await filled(ledger)
    await own._look()
    assert not await ledger.checkpoints()
    clock.tell(60)
    await own._look()
    assert [one.size for one in await ledger.checkpoints()] == [3]
    for _ in range(sealing.MANY // 50):
        await ledger.append(line.step(*[Line("x").step().records[0].event] * 50))
    await own._look()
    assert [one.size for one in await ledger.checkpoints()] == [3 + sealing.MANY]
    await ledger.append(line.step())
    await own.last()
    assert [one.size for one in await ledger.checkpoints()] == [4 + sealing.MANY]


async def test_what_another_gateway_sealed_just_now_is_left_for_the_next_time() -> None:
    ledger, clock = MemoryLedger(), world.ToldClock()
    own, other = (Sealer(ledger, clock, Sealing(KEY, signed_by)) for _ in range(2))
    await filled(ledger)
    clock.tell(60)
    assert await other.seal() is not None
    await filled(ledger, "run_2")
    await own._look()
    assert [one.size for one in await ledger.checkpoints()] == [3]
    clock.tell(60)
    await own._look()
    assert [one.size for one in await ledger.checkpoints()] == [6]


async def test_the_keeper_outlives_a_ledger_that_cannot_be_read_and_a_head_that_cannot_be_written(
    tmp_path: Path,
) -> None:
    (tmp_path / "head").write_text("no checkpoint")
    ledger, clock = MemoryLedger(), world.ToldClock()
    own = Sealer(ledger, clock, Sealing(KEY, signed_by, HeadFile(tmp_path / "head"), every_s=1.0))
    await filled(ledger)
    said = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(own.keep)
            for trouble, mend in [("gone", False), (None, False), (None, True)]:
                ledger.trouble = trouble
                if mend:
                    (tmp_path / "head").unlink()
                while not any(due > clock.seconds for due, _ in clock.sleepers):
                    await anyio.sleep(0.001)
                clock.sleepers = [one for one in clock.sleepers if one[0] > clock.seconds]
                clock.tell(60)
                while not any(due > clock.seconds for due, _ in clock.sleepers):
                    await anyio.sleep(0.001)
                said.append(own.trouble)
            group.cancel_scope.cancel()
    wants = "a checkpoint has an origin, a size and a root"
    assert said == [
        "no checkpoint was made: gone",
        f"no checkpoint was made: `{tmp_path}/head` is no checkpoint of a ledger: {wants}",
        None,
    ]
    assert HeadFile(tmp_path / "head").read() is not None


async def test_a_ledger_that_gets_a_key_has_a_signed_head_at_once(tmp_path: Path) -> None:
    ledger, head = MemoryLedger(), HeadFile(tmp_path / "head")
    await filled(ledger)
    await sealer(ledger, None).seal()
    await sealer(ledger, KEY, head).seal()
    stands = head.read()
    assert stands is not None
    assert (stands.size, [one.key_id for one in stands.signatures]) == (3, [key_id(stands.origin, KEY.public)])


async def test_a_head_behind_a_link_is_replaced_where_the_link_leads(tmp_path: Path) -> None:
    ledger, there = MemoryLedger(), tmp_path / "elsewhere" / "head"
    there.parent.mkdir()
    (tmp_path / "head").symlink_to(there)
    await filled(ledger)
    await sealer(ledger, KEY, HeadFile(tmp_path / "head")).seal()
    assert (tmp_path / "head").is_symlink()
    assert HeadFile(there).read() is not None
