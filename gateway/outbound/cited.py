"""Which digests a ledger cites and which it stores, on disk: what is compared may be larger than the memory."""

import sqlite3
from collections.abc import Iterable, Iterator


class CitedOnDisk:
    """In a file that SQLite makes, keeps to itself and removes [sqlite.org/inmemorydb.html, temporary databases]."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute("PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE wanted (digest TEXT PRIMARY KEY, place TEXT NOT NULL) WITHOUT ROWID")
        self._db.execute("CREATE TABLE other (digest TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("CREATE TABLE stored (digest TEXT PRIMARY KEY) WITHOUT ROWID")
        self._db.execute("BEGIN")

    def cite(self, digests: Iterable[tuple[str, str]], others: Iterable[str]) -> None:
        """As `Cited.cite`."""
        self._db.executemany("INSERT OR IGNORE INTO wanted VALUES (?, ?)", digests)
        self._db.executemany("INSERT OR IGNORE INTO other VALUES (?)", ((one,) for one in others))

    def stored(self, digests: Iterable[str]) -> None:
        """As `Cited.stored`."""
        self._db.executemany("INSERT OR IGNORE INTO stored VALUES (?)", ((one,) for one in digests))

    def missing(self) -> Iterator[tuple[str, str]]:
        """As `Cited.missing`."""
        yield from self._db.execute(
            "SELECT digest, place FROM wanted WHERE digest NOT IN (SELECT digest FROM stored) ORDER BY digest"
        )

    def uncited(self) -> int:
        """As `Cited.uncited`."""
        (count,) = self._db.execute(
            "SELECT count(*) FROM stored WHERE digest NOT IN (SELECT digest FROM wanted) "
            "AND digest NOT IN (SELECT digest FROM other)"
        ).fetchone()
        return int(count)

    def close(self) -> None:
        """As `Cited.close`; the file is gone."""
        self._db.close()
