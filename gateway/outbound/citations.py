"""Which records cite which payloads, on disk: a ledger may cite more than fits into memory."""

import sqlite3
from collections.abc import Callable, Generator, Iterable
from itertools import groupby

from gateway.model.citation import Citation, Cited

_ALL = """
SELECT cited.digest, cited.run, cited.seq, cited.at, cited.attempt, class.name,
    run.tenant, run.principal, run.stopped, run.last_at
FROM cited JOIN run ON run.run = cited.run LEFT JOIN class ON class.attempt = cited.attempt
WHERE cited.digest NOT IN (SELECT digest FROM needed) ORDER BY cited.digest
"""
_GONE = """
SELECT gone.run, gone.seq, gone.digest
FROM gone JOIN (SELECT digest, min(run) AS run FROM gone GROUP BY digest) AS first ON first.digest = gone.digest
ORDER BY first.run, gone.digest, gone.run, gone.seq
"""


class CitationsOnDisk:
    """`Citations` in a file that SQLite makes, keeps to itself and removes."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE cited (digest TEXT, run TEXT, seq INTEGER, at REAL, attempt TEXT)")
        self._db.execute("CREATE TABLE class (attempt TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID")
        self._db.execute(
            "CREATE TABLE run (run TEXT PRIMARY KEY, tenant TEXT, principal TEXT, stopped INTEGER, last_at REAL) "
            "WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE needed (digest TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("CREATE TABLE gone (run TEXT, seq INTEGER, digest TEXT)")
        self._db.execute("BEGIN")

    def opened(self, run: str, tenant: str, principal: str) -> None:
        """As `Citations.opened`."""
        self._db.execute("INSERT OR REPLACE INTO run VALUES (?, ?, ?, 0, 0)", (run, tenant, principal))

    def moved(self, run: str, at: float, *, stopped: bool) -> None:
        """As `Citations.moved`."""
        self._db.execute("UPDATE run SET last_at = ?, stopped = stopped OR ? WHERE run = ?", (at, stopped, run))

    def classified(self, attempt: str, data_class: str) -> None:
        """As `Citations.classified`."""
        self._db.execute("INSERT OR REPLACE INTO class VALUES (?, ?)", (attempt, data_class))

    def cite(self, found: Iterable[Cited]) -> None:
        """As `Citations.cite`."""
        self._db.executemany("INSERT INTO cited VALUES (?, ?, ?, ?, ?)", found)

    def need(self, digests: Iterable[str]) -> None:
        """As `Citations.need`."""
        self._db.executemany("INSERT OR IGNORE INTO needed VALUES (?)", ((one,) for one in digests))

    def settle(self, free: Callable[[Citation], bool]) -> None:
        """As `Citations.settle`."""
        rows = map(Citation._make, self._db.execute(_ALL))
        for _, group in groupby(rows, key=lambda one: one.digest):
            cited = list(group)
            if all(free(one) for one in cited):
                found = [(one.run, one.seq, one.digest) for one in cited]
                self._db.executemany("INSERT INTO gone VALUES (?, ?, ?)", found)

    def gone(self) -> Generator[tuple[str, int, str]]:
        """As `Citations.gone`."""
        yield from self._db.execute(_GONE)

    def close(self) -> None:
        """As `Citations.close`; the file is gone."""
        self._db.close()
