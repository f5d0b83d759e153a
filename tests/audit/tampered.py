"""What somebody who can write the file of a ledger might do to it, and what verifying it then says."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio

from gateway.kernel.merkle import Tree
from gateway.model.note import Note, Signature, key_id, origin_of
from gateway.model.record import link
from gateway.outbound.ledger import open_sqlite
from gateway.outbound.seal_keys import SealKey
from gateway.runtime.audit import Report
from tests.audit.ledgers import found, verified


async def report_of(path: Path, **wanted: Any) -> Report:
    ledger = await open_sqlite(path)
    try:
        with anyio.fail_after(20):
            return await verified(ledger, **wanted)
    finally:
        await ledger.close()


async def where(path: Path, **wanted: Any) -> list[tuple[str, str]]:
    return [(number, place) for number, place, _ in found(await report_of(path, **wanted))]


def reseal(db: sqlite3.Connection, key: SealKey | None, sizes: list[int] | None = None) -> None:
    """The log as it is now has these checkpoints beside those that there are; all of it, where none are said."""
    rows = db.execute("SELECT position, link FROM event ORDER BY position").fetchall()
    origin = origin_of(db.execute("SELECT value FROM meta WHERE key = 'salt'").fetchone()[0])
    tree = Tree()
    for place, chained in rows:
        tree.add(bytes.fromhex(chained))
        if tree.size in (sizes or [len(rows)]):
            note = Note(origin, tree.size, tree.root)
            if key is not None:
                signature = Signature(origin, key_id(origin, key.public), key.sign(note.text.encode()))
                note = Note(origin, tree.size, tree.root, (signature,))
            peaks = " ".join(peak.hex() for peak in tree.peaks)
            row = tree.size, place, peaks, 0.0, str(note)
            db.execute("INSERT OR REPLACE INTO checkpoint (size, place, peaks, at, note) VALUES (?, ?, ?, ?, ?)", row)


def rechained(db: sqlite3.Connection, run: str, seq: int, change: Callable[[dict[str, Any]], None]) -> None:
    """That record says something else, and every later one of its run follows from it."""
    chained = None
    rows = db.execute("SELECT seq, body FROM event WHERE run = ? AND seq >= ? ORDER BY seq", (run, seq)).fetchall()
    for number, body in rows:
        record = json.loads(body)
        if number == seq:
            change(record["event"])
        if chained is not None:
            record["previous"] = chained
        spelled = json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
        chained = link(spelled)
        values = spelled, chained, run, number
        db.execute("UPDATE event SET body = ?, link = ? WHERE run = ? AND seq = ?", values)


def places(db: sqlite3.Connection, *records: tuple[str, int]) -> list[int]:
    sql = "SELECT position FROM event WHERE run = ? AND seq = ?"
    return [db.execute(sql, record).fetchone()[0] for record in records]
