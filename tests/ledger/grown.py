"""Ledgers that have grown: as many events as one likes, valid and chained, in a fraction of the time that making takes.

A real gateway makes one write; its records are the pattern of all others, which go into the file as rows.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from gateway.model.record import GENESIS
from gateway.outbound.ledger import MemoryLedger, open_sqlite
from gateway.runtime.leases import NOBODYS
from tests.runtime.house import house

CALL = 3
"""Events of one write: its intent, its receipt, its delivery."""

BATCH = 20_000
"""Events of one transaction."""


def events_of(calls: int) -> int:
    """How many events a run of so many writes has."""
    return 1 + CALL * calls


class Row(NamedTuple):
    """An event as it stands in the file."""

    run: str
    seq: int
    kind: str
    link: str
    body: bytes


class Pattern(NamedTuple):
    """What every run of a grown ledger is like."""

    records: tuple[tuple[str, bytes], ...]
    """Kind and body of the opening, the intent, the receipt and the delivery; what differs is a field to be filled."""
    payloads: Mapping[str, bytes]
    """Of the policy, the tool's definition, the arguments and the result, by digest."""
    arguments: str
    """Digest of the arguments, which differs from write to write."""

    def rows(self, run: str, calls: int, *, open_last: bool = False) -> Iterator[Row]:
        """The rows of a run of so many writes, each with arguments of its own; the last may have no receipt."""
        previous = GENESIS
        for seq in range(1, 1 + events_of(calls) - (CALL - 1) * open_last):
            attempt = 2 + (seq - 2) // CALL * CALL
            kind, body = self.records[0 if seq == 1 else 1 + seq - attempt]
            varied = self.varied(run, attempt)
            made = body % {b"run": run.encode(), b"n": seq, b"a": attempt, b"v": varied, b"p": previous.encode()}
            previous = sha256(made).hexdigest()
            yield Row(run, seq, kind, previous, made)

    @staticmethod
    def varied(run: str, attempt: int) -> bytes:
        """What stands in a digest of the arguments of one write, for the pattern's own."""
        return sha256(f"{run}.{attempt}".encode()).hexdigest().encode()


async def pattern(salt: bytes) -> Pattern:
    """That of a ledger with this salt, as the house's gateway makes it."""
    ledger = MemoryLedger(salt)
    async with house(ledger) as it:
        await it.call("write", {"path": "src/deep/in/a/folder/of/files.txt", "text": "x" * 200})
        stored = await ledger.read("run_1")
    intent = stored[1][0].event
    assert [record.event.kind for record, _ in stored] == [
        "run.opened", "intent.recorded", "receipt.recorded", "outcome.delivered",
    ]  # fmt: skip
    assert intent.kind == "intent.recorded"
    fields = {
        b"%": b"%%",
        b"run_1.2": b"%(run)b.%(a)d",
        b"run_1": b"%(run)b",
        intent.arguments.removeprefix("c1:").encode(): b"%(v)b",
        str(intent.hold).removeprefix("c1:").encode(): b"%(v)b",
    }
    made = []
    for record, body in stored:
        varied, own = (
            body,
            {
                b'"seq":%d,' % record.seq: b'"seq":%(n)d,',
                b'"previous":"%b"' % record.previous.encode(): b'"previous":"%(p)b"',
            },
        )
        for before, after in (fields | own).items():
            varied = varied.replace(before, after)
        made.append((record.event.kind, varied))
    payloads = {str(digest): body for digest, body in ledger._payloads.items()}
    return Pattern(tuple(made), payloads, intent.arguments)


async def grow(path: Path, runs: int, calls: int, *, opened: int = 0, prefix: str = "run") -> None:
    """A ledger with so many runs of so many writes each; of the first `opened` of them the last write is open still.

    Those were left by a gateway that is gone, so that their leases have run out.
    """
    ledger = await open_sqlite(path)
    like = await pattern(ledger.salt)
    await ledger.close()
    db = sqlite3.connect(path, isolation_level=None)
    for setting in ("synchronous = OFF", "cache_size = -262144", "wal_autocheckpoint = 20000"):
        db.execute(f"PRAGMA {setting}")
    _fill(db, like, [f"{prefix}_{number:022}" for number in range(runs)], calls, opened)
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()


def _fill(db: sqlite3.Connection, like: Pattern, runs: list[str], calls: int, opened: int) -> None:
    db.execute("BEGIN")
    db.executemany("INSERT OR IGNORE INTO payload (digest, body) VALUES (?, ?)", like.payloads.items())
    since = 0
    for number, run in enumerate(runs):
        rows = list(like.rows(run, calls, open_last=number < opened))
        db.executemany("INSERT INTO event (run, seq, kind, link, body) VALUES (?, ?, ?, ?, ?)", rows)
        intents = [row.seq for row in rows if row.kind == "intent.recorded"]
        said = [("c1:" + like.varied(run, seq).decode(), like.payloads[like.arguments]) for seq in intents]
        db.executemany("INSERT INTO payload (digest, body) VALUES (?, ?)", said)
        if number < opened:
            left = f"{run}.{intents[-1]}", run, "open", said[-1][0], "gw_gone", NOBODYS
            db.execute(
                "INSERT INTO attempt (attempt, run, state, hold, owner, lease_until) VALUES (?, ?, ?, ?, ?, ?)", left
            )
        since += len(rows)
        if since >= BATCH:
            db.execute("COMMIT")
            db.execute("BEGIN")
            since = 0
    db.execute("COMMIT")
