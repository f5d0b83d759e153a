"""Names that are said once, in a ledger's file."""

import sqlite3
import time

FORGET = 2
"""How many of those whose time is over go with each name that is said, so that they grow fewer."""

KEPT_S = 24 * 3600.0
"""For how long names are kept beyond their time: clocks of gateways differ, and by less than that."""

SAY = "INSERT INTO said (name, until) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
SAID = "SELECT 1 FROM said WHERE name = ?"
UNSAY = """
DELETE FROM said WHERE name IN (
    SELECT name FROM said INDEXED BY said_end WHERE until <= ? ORDER BY until LIMIT ?
)"""


def once(name: str, until: float, db: sqlite3.Connection) -> bool:
    """Whether the name is new."""
    db.execute(UNSAY, (time.time() - KEPT_S, FORGET))
    return db.execute(SAY, (name, until)).rowcount == 1
