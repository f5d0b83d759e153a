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
