"""Whoever can write the file changes what stands beside the log, or what the log says; each time it is told."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.outbound.ledger import open_sqlite
from tests.audit.ledgers import KEY, found, verified
from tests.audit.tampered import rechained, report_of, reseal

# --- what stands beside the log -------------------------------------------------------------------------------------


async def test_a_payload_that_was_changed(path: Path, db: sqlite3.Connection) -> None:
    (digest,) = db.execute("SELECT digest FROM payload WHERE body = ?", (b'{"n":9}',)).fetchone()
    db.execute("UPDATE payload SET body = ? WHERE digest = ?", (b'{"n":8}', digest))
    report = await report_of(path, judge=False)
    assert found(report) == [("I10", digest, "the stored payload is not the one of that digest")]


async def test_a_payload_that_is_gone_and_one_that_was_erased(path: Path, db: sqlite3.Connection) -> None:
    (digest,) = db.execute("SELECT digest FROM payload WHERE body = ?", (b'{"n":9}',)).fetchone()
    db.execute("DELETE FROM payload WHERE digest = ?", (digest,))
    assert found(await report_of(path)) == [("I10", "run_3#2", f"the payload {digest} that it cites is gone")]
    db.execute("INSERT INTO erased VALUES (?, 0.0)", (digest,))
    report = await report_of(path)
    assert (found(report), report.erased, report.not_judged) == ([], 1, 1)


async def test_a_payload_that_nothing_cites_is_noted(path: Path) -> None:
    ledger = await open_sqlite(path)
    from gateway.model.canonical import digest_bytes  # noqa: PLC0415

    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("INSERT INTO payload VALUES (?, ?)", (digest_bytes(b"{}", ledger.salt), b"{}"))
    report = await verified(ledger)
    assert (found(report), report.uncited) == ([], 1)
    await ledger.close()


async def test_the_level_of_an_account(path: Path, db: sqlite3.Connection) -> None:
    account, unit, level = db.execute("SELECT account, unit, level FROM accounts WHERE until IS NULL").fetchone()
    db.execute("UPDATE accounts SET level = level - 1 WHERE account = ? AND unit = ?", (account, unit))
    says = f"it stands at {level - 1} {unit}, and the log makes it {level}"
    assert found(await report_of(path)) == [("I11", f"account {account}", says)]
    db.execute("DELETE FROM accounts WHERE account = ? AND unit = ?", (account, unit))
    says = f"it stands at 0 {unit}, and the log makes it {level}"
    assert found(await report_of(path)) == [("I11", f"account {account}", says)]


@pytest.mark.parametrize(
    ("sql", "number", "says"),
    [
        (
            "DELETE FROM attempt WHERE attempt = 'run_3.2'",
            "I8",
            "the log has it as unknown, and it is not listed, so nobody would settle it",
        ),
        (
            "UPDATE attempt SET state = 'open' WHERE attempt = 'run_3.2'",
            "I18",
            "it is listed as open, and by the log it is unknown",
        ),
        (
            "UPDATE attempt SET hold = NULL WHERE attempt = 'run_3.2'",
            "I18",
            "it is listed with another hold or run, and by the log it is unknown",
        ),
        (
            "INSERT INTO attempt (attempt, run, state, owner, lease_until) VALUES ('run_3.1', 'run_3', 'open', '', 0)",
            "I18",
            "it is listed as open, and by the log it is settled",
        ),
    ],
)
async def test_the_list_of_what_is_not_settled(
    path: Path, db: sqlite3.Connection, sql: str, number: str, says: str
) -> None:
    db.execute(sql)
    name = "run_3.1" if "run_3.1" in sql else "run_3.2"
    assert found(await report_of(path)) == [(number, f"attempt {name}", says)]


async def test_a_record_that_lists_would_not_find(path: Path, db: sqlite3.Connection) -> None:
    db.execute("UPDATE event SET kind = 'x' WHERE kind = 'approval.requested'")
    where = [f"{run}#{seq}" for run, seq in db.execute("SELECT run, seq FROM event WHERE kind = 'x' ORDER BY position")]
    says = "it is filed as `x` and is `approval.requested`: lists go by that"
    assert where
    assert found(await report_of(path)) == [("I18", one, says) for one in where]


async def test_an_account_that_the_log_knows_nothing_of(path: Path, db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO accounts VALUES ('planted', 'calls', 5, NULL), ('past', 'calls', 5, 0.0)")
    says = "it stands at 5 calls, and the log has nothing of it"
    assert found(await report_of(path)) == [("I18", "account planted", says)]


async def test_an_account_that_would_be_forgotten_before_its_time(path: Path, db: sqlite3.Connection) -> None:
    account, unit = db.execute("SELECT account, unit FROM accounts WHERE until > 0 ORDER BY 1, 2").fetchone()
    db.execute("UPDATE accounts SET until = 1.0 WHERE account = ? AND unit = ?", (account, unit))
    says = f"it may be forgotten at another time than the log says of its {unit}"
    assert found(await report_of(path)) == [("I18", f"account {account}", says)]


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("DROP INDEX event_rare", ["the index `event_rare` is gone"]),
        ("DROP INDEX attempt_hold", ["the index `attempt_hold` is gone"]),
        (
            "DROP INDEX attempt_hold; CREATE INDEX attempt_hold ON attempt (hold)",
            ["the index `attempt_hold` is another one"],
        ),
        (
            "CREATE TRIGGER t AFTER INSERT ON event BEGIN DELETE FROM event WHERE position = new.position; END",
            ["there is a trigger, `t`"],
        ),
        ("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); CREATE VIEW v AS SELECT 1; ANALYZE", []),
    ],
)
async def test_what_the_file_is_made_of(path: Path, db: sqlite3.Connection, sql: str, says: list[str]) -> None:
    db.executescript(sql)
    assert found(await report_of(path)) == [("I18", "the store", one) for one in says]


# --- what was recorded, and means another thing ---------------------------------------------------------------------


def _elsewhere(event: dict[str, Any]) -> None:
    event["phase"] = "made"


async def test_an_intent_that_was_rewritten_is_no_longer_what_its_checks_allowed(
    path: Path, db: sqlite3.Connection
) -> None:
    rechained(db, "run_2", 2, _elsewhere)
    db.execute("DELETE FROM checkpoint")
    reseal(db, KEY)
    assert [(number, place) for number, place, _ in found(await report_of(path, judge=True))] == [
        ("I17", "run_2#2"),
        ("I17", "run_2#2"),
        ("I17", "run_2#2"),
    ]
