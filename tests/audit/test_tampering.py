"""Whoever can write the file changes the log or its seals; each time it is told what is broken, and where."""

import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gateway.model.note import Note, key_id, origin_of
from gateway.model.record import link
from gateway.outbound.ledger import open_sqlite
from tests.audit.ledgers import KEY, OTHER_KEY, every_kind, found, sealed, verified
from tests.audit.tampered import places, rechained, report_of, reseal, where


async def test_what_nobody_touched_is_clean(path: Path, head: Note) -> None:
    report = await report_of(path, head=head)
    assert found(report) == []
    assert (report.checkpoints, report.sealed_up_to, report.signed_up_to) == (2, head.size, head.size)


# --- records --------------------------------------------------------------------------------------------------------


async def test_one_byte_of_a_record(path: Path, db: sqlite3.Connection, head: Note) -> None:
    (place,) = places(db, ("run_1", 7))
    (body,) = db.execute("SELECT body FROM event WHERE position = ?", (place,)).fetchone()
    db.execute("UPDATE event SET body = ? WHERE position = ?", (body.replace(b'"n"', b'"m"') or body, place))
    altered = bytearray(body)
    altered[100] ^= 1
    db.execute("UPDATE event SET body = ? WHERE position = ?", (bytes(altered), place))
    report = await report_of(path, head=head)
    assert found(report)[0] == (
        "I1",
        "run_1#7",
        f"its bytes, at place {place}, are not those that were recorded",
    )
    assert {one[0] for one in found(report)[1:]} <= {"I1", "I8", "I11", "I18"}


async def test_two_records_of_one_run_that_changedplaces(path: Path, db: sqlite3.Connection) -> None:
    one, other = places(db, ("run_1", 5), ("run_1", 6))
    db.execute("UPDATE event SET position = -1 WHERE position = ?", (one,))
    db.execute("UPDATE event SET position = ? WHERE position = ?", (one, other))
    db.execute("UPDATE event SET position = ? WHERE position = -1", (other,))
    assert found(await report_of(path)) == [
        ("I1", "run_1#5", f"gone: the log has nothing of it before `run_1#6`, at place {one}"),
        ("I1", "run_1#5", f"it stands at place {other}, after `run_1#6`"),
        ("I1", "checkpoint 20", "records 1 to 20, places 1 to 20, are not what was sealed"),
        ("I1", "checkpoints", "nothing of the ledger is signed by the key that was given"),
    ]


async def test_two_records_of_two_runs_that_changedplaces(path: Path, db: sqlite3.Connection, head: Note) -> None:
    one, other = places(db, ("run_2", 3), ("run_3", 1))
    db.execute("UPDATE event SET position = -1 WHERE position = ?", (one,))
    db.execute("UPDATE event SET position = ? WHERE position = ?", (one, other))
    db.execute("UPDATE event SET position = ? WHERE position = -1", (other,))
    says = f"records 21 to {head.size}, places 21 to {head.size}, are not what was sealed"
    assert found(await report_of(path)) == [("I1", f"checkpoint {head.size}", says)]


async def test_the_newest_record(path: Path, db: sqlite3.Connection, head: Note) -> None:
    db.execute("DELETE FROM event WHERE position = (SELECT max(position) FROM event)")
    size = head.size
    assert found(await report_of(path, head=head)) == [
        ("I1", f"checkpoint {size}", f"it is over {size} records, and the log has {size - 1}"),
        ("I1", "head", f"the ledger was shortened: it had {size} records, and has {size - 1}"),
    ]


async def test_a_record_in_the_middle(path: Path, db: sqlite3.Connection) -> None:
    (place,) = places(db, ("run_1", 8))
    db.execute("DELETE FROM event WHERE run = 'run_1' AND seq = 8")
    report = await report_of(path)
    assert found(report)[0] == (
        "I1",
        "run_1#8",
        f"gone: the log has nothing of it before `run_1#9`, at place {place + 1}",
    )
    assert ("I1", "checkpoint 20") in await where(path)


async def test_several_records_in_the_middle(path: Path, db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM event WHERE run = 'run_1' AND seq BETWEEN 8 AND 10")
    assert (await where(path))[0] == ("I1", "run_1#8 to #10")


async def test_the_first_record_of_a_run(path: Path, db: sqlite3.Connection) -> None:
    db.execute("DELETE FROM event WHERE run = 'run_3' AND seq = 1")
    assert (await where(path))[0] == ("I1", "run_3#1")


async def test_a_whole_run(path: Path, db: sqlite3.Connection, head: Note) -> None:
    gone = db.execute("DELETE FROM event WHERE run = 'run_2'").rowcount
    size = head.size
    assert found(await report_of(path, head=head))[:2] == [
        ("I1", f"checkpoint {size}", f"it is over {size} records, and the log has {size - gone}"),
        ("I1", "head", f"the ledger was shortened: it had {size} records, and has {size - gone}"),
    ]


async def test_a_record_under_the_name_of_another_run(path: Path, db: sqlite3.Connection) -> None:
    db.execute("UPDATE event SET run = 'run_9' WHERE run = 'run_3' AND seq = 1")
    (place,) = places(db, ("run_9", 1))
    assert found(await report_of(path))[0] == (
        "I1",
        "run_9#1",
        f"at place {place} stands the record `run_3#1` in its stead",
    )


@pytest.mark.parametrize(("stored", "says"), [("no hash", "its link is no hash"), ("00" * 32, None)])
async def test_a_link(path: Path, db: sqlite3.Connection, stored: str, says: str | None) -> None:
    db.execute("UPDATE event SET link = ? WHERE run = 'run_2' AND seq = 1", (stored,))
    (place,) = places(db, ("run_2", 1))
    expected = [("I1", f"place {place}", says)] if says else []
    altered = ("I1", "run_2#1", f"its bytes, at place {place}, are not those that were recorded")
    assert found(await report_of(path))[: len(expected) + 1] == [*expected, altered]


async def test_bytes_that_are_no_record(path: Path, db: sqlite3.Connection) -> None:
    db.execute("UPDATE event SET body = ?, link = ? WHERE run = 'run_2' AND seq = 1", (b"{}", link(b"{}")))
    (place,) = places(db, ("run_2", 1))
    assert found(await report_of(path))[0] == ("I1", "run_2#1", f"what stands at place {place} is no record")


async def test_any_byte_of_any_record(path: Path, db: sqlite3.Connection) -> None:
    chosen, clean = random.Random(5), []  # noqa: S311 - the same bytes each time
    ledger = await open_sqlite(path)
    for place, body in db.execute("SELECT position, body FROM event ORDER BY position").fetchall():
        altered = bytearray(body)
        altered[chosen.randrange(len(body))] ^= 1 << chosen.randrange(8)
        db.execute("UPDATE event SET body = ? WHERE position = ?", (bytes(altered), place))
        report = await verified(ledger, judge=False)
        clean += [place] if f"place {place}," not in str(found(report)) else []
        db.execute("UPDATE event SET body = ? WHERE position = ?", (body, place))
    assert clean == []
    assert found(await verified(ledger)) == []
    await ledger.close()


# --- history that was rewritten with all its links ------------------------------------------------------------------


def _cheaper(event: dict[str, Any]) -> None:
    event["goal"] = "another"


async def test_a_run_that_was_rewritten_whole_differs_from_its_checkpoint(path: Path, db: sqlite3.Connection) -> None:
    rechained(db, "run_1", 1, _cheaper)
    report = await report_of(path)
    assert found(report) == [
        ("I1", "checkpoint 20", "records 1 to 20, places 1 to 20, are not what was sealed"),
        ("I1", "checkpoints", "nothing of the ledger is signed by the key that was given"),
    ]


async def test_one_that_was_sealed_anew_without_the_key_is_not_signed(path: Path, db: sqlite3.Connection) -> None:
    rechained(db, "run_1", 1, _cheaper)
    db.execute("DELETE FROM checkpoint")
    assert await where(path) == [("I1", "checkpoints")]
    reseal(db, None)
    assert await where(path) == [("I1", "checkpoints")]


async def test_one_that_was_sealed_anew_with_the_key_differs_from_the_head(
    path: Path, db: sqlite3.Connection, head: Note
) -> None:
    rechained(db, "run_1", 1, _cheaper)
    db.execute("DELETE FROM checkpoint")
    reseal(db, KEY)
    assert found(await report_of(path)) == []  # whoever has the key, and no head stands outside, can do this
    says = f"the first {head.size} records are not those that the head was made over"
    assert found(await report_of(path, head=head)) == [("I1", "head", says)]


async def test_an_older_backup_is_shorter_than_its_head(path: Path, db: sqlite3.Connection, head: Note) -> None:
    db.execute("DELETE FROM checkpoint WHERE size > 20")
    db.execute("DELETE FROM event WHERE position > 20")
    assert ("I1", "head", f"the ledger was shortened: it had {head.size} records, and has 20") in found(
        await report_of(path, head=head)
    )


async def test_another_ledger_in_its_place(tmp_path: Path, head: Note) -> None:
    other = tmp_path / "other.db"
    ledger = await open_sqlite(other)
    await every_kind(ledger)
    await sealed(ledger)
    origin = origin_of(ledger.salt)
    await ledger.close()
    says = f"another ledger stands in its place: the head is of `{head.origin}`, and this is `{origin}`"
    assert found(await report_of(other, head=head)) == [("I1", "head", says)]


# --- checkpoints ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        (
            "UPDATE checkpoint SET note = replace(note, char(10) || '20', char(10) || '21')",
            "its note is over 21 records",
        ),
        ("UPDATE checkpoint SET note = 'x'", "its note cannot be read: a checkpoint has an origin, a size and a root"),
        ("UPDATE checkpoint SET peaks = 'xx'", "its peaks are not those of the root in its note"),
        ("UPDATE checkpoint SET peaks = peaks || ' 00'", "its peaks are not those of the root in its note"),
        ("UPDATE checkpoint SET place = 19", "it names place 19, and record 20 is at 20"),
        ("UPDATE checkpoint SET note = replace(note, 'ledger/', 'ledger/x')", "it is of another ledger, `{origin}`"),
    ],
)
async def test_a_checkpoint_that_was_changed(
    path: Path, db: sqlite3.Connection, head: Note, sql: str, says: str
) -> None:
    db.execute(f"{sql} WHERE size = 20")
    told = says.replace("{origin}", head.origin.replace("ledger/", "ledger/x"))
    assert found(await report_of(path, head=head)) == [("I1", "checkpoint 20", told)]


async def test_a_signature_that_is_forged(path: Path, db: sqlite3.Connection) -> None:
    reseal(db, KEY, sizes=[10, 30])
    note = db.execute("SELECT note FROM checkpoint WHERE size = 10").fetchone()[0]
    signature = note.rpartition(" ")[2]
    (other,) = db.execute("SELECT note FROM checkpoint WHERE size = 30").fetchone()
    db.execute("UPDATE checkpoint SET note = ? WHERE size = 10", (note.replace(signature, other.rpartition(" ")[2]),))
    assert found(await report_of(path)) == [("I1", "checkpoint 10", "its signature is forged")]


async def test_a_checkpoint_that_another_key_signed(path: Path, db: sqlite3.Connection, head: Note) -> None:
    reseal(db, OTHER_KEY, sizes=[10])
    other = key_id(head.origin, OTHER_KEY.public).hex()
    assert found(await report_of(path)) == [("I1", "checkpoint 10", f"it is signed by another key, {other}")]
    assert found(await report_of(path, keys=[KEY.public, OTHER_KEY.public])) == []  # after a rotation


async def test_a_key_that_is_not_the_ledgers(path: Path, head: Note) -> None:
    report = await report_of(path, keys=[OTHER_KEY.public], head=head)
    says = f"it is signed by another key, {key_id(head.origin, KEY.public).hex()}"
    assert found(report) == [
        ("I1", "checkpoint 20", says),
        ("I1", f"checkpoint {head.size}", says),
        ("I1", "head", says),
        ("I1", "checkpoints", "nothing of the ledger is signed by the key that was given"),
    ]


async def test_a_forged_checkpoint_over_more_than_there_is(path: Path, db: sqlite3.Connection, head: Note) -> None:
    note = str(Note(head.origin, 2**20, b"\0" * 32))
    db.execute("INSERT INTO checkpoint VALUES (?, ?, ?, 0.0, ?)", (2**20, 2**20, "00" * 32, note))
    says = f"it is over {2**20} records, and the log has {head.size}"
    assert found(await report_of(path)) == [("I1", f"checkpoint {2**20}", says)]


async def test_a_head_that_is_not_signed(path: Path, head: Note) -> None:
    bare = Note(head.origin, head.size, head.root)
    assert found(await report_of(path, head=bare)) == [("I1", "head", "it is not signed by any of the keys")]
    assert found(await report_of(path, head=bare, keys=[])) == []
