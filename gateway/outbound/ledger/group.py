"""Many steps, one transaction, one fsync. A step that is refused takes nothing with it; a commit that fails, all."""

import random
import sqlite3
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from gateway.outbound.ledger import schema
from gateway.outbound.ledger.faults import busy, damaged, not_synced, unavailable
from gateway.outbound.ledger.file import LogCut, Watch
from gateway.outbound.ledger.jobs import Job
from gateway.ports import LedgerUnavailable

Work: TypeAlias = Callable[[sqlite3.Connection], Any]
"""What one step does within the transaction. What it raises refuses that step only."""

_POLL_S = 0.0005, 0.002
"""SQLite's own waiting backs off to 100 ms, and a busy neighbour then starves us.

Measured with two processes of 32 writers each: the longest append took 740 ms with it, 77 ms with this.
"""


class GroupCommit:
    """The transactions of one connection, in the thread that made it."""

    def __init__(self, db: sqlite3.Connection, path: Path, watch: Watch, busy_timeout_s: float) -> None:
        self.commits = 0
        """Transactions that were committed, each with at most one fsync."""
        self._db = db
        self._path = path
        self._watch = watch
        self._busy_timeout_s = busy_timeout_s
        self._broken: LedgerUnavailable | None = None
        db.execute("PRAGMA busy_timeout = 0")  # `_begin` waits instead

    def run(self, jobs: Sequence[Job[Work]]) -> None:
        """Every job has its result or its error, and what has a result is durable."""
        try:
            self._transact(jobs)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, each job's caller waits for a word
            failure = self._failure(error)
            for job in jobs:
                # One each: an exception that several tasks raise collects the tracebacks of all.
                job.error = LedgerUnavailable(*failure.args)
                job.error.__cause__ = error

    def _transact(self, jobs: Sequence[Job[Work]]) -> None:
        if self._broken is not None:
            raise self._broken
        try:
            self._begin()
            if not all(self._try(job) for job in jobs):
                self._db.execute("ROLLBACK")
                self._begin()
                for job in jobs:
                    self._apply(job)
            self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self.commits += 1
        self._watch.check()

    def _begin(self) -> None:
        """The write lock is ours, and the file is still of the version that this code was written for."""
        deadline = time.monotonic() + self._busy_timeout_s
        self._watch.check_before(self._db)
        while True:
            try:
                self._db.execute("BEGIN IMMEDIATE")
                break
            except sqlite3.OperationalError as error:
                if not busy(error) or time.monotonic() >= deadline:
                    raise
            time.sleep(random.uniform(*_POLL_S))  # noqa: S311 - so that two waiters do not keep step
        if schema.version(self._db) != schema.VERSION:
            raise LedgerUnavailable(
                f"the ledger `{self._path}` was migrated by a newer version: restart this gateway with that version"
            )

    def _try(self, job: Job[Work]) -> bool:
        """Whether the step is in the transaction whole, or refused before it wrote anything.

        Almost every step is. A savepoint for each would have SQLite copy every page before its first change, which
        is a fifth of the CPU of a group; so a step that leaves half of itself behind has its group begun again.
        """
        before = self._db.total_changes
        return self._done(job) or self._db.total_changes == before

    def _apply(self, job: Job[Work]) -> None:
        """The step is in the transaction whole or not at all."""
        job.result = job.error = None
        self._db.execute("SAVEPOINT step")
        if not self._done(job):
            self._db.execute("ROLLBACK TO step")
        self._db.execute("RELEASE step")

    def _done(self, job: Job[Work]) -> bool:
        """Whether the work came to its end; its error is handed on to the one who waits, unless it spoils all."""
        try:
            job.result = job.work(self._db)
        except Exception as error:
            if _spoils_all(error):
                raise
            job.error = error
            return False
        return True

    def _failure(self, error: Exception) -> LedgerUnavailable:
        if isinstance(error, LogCut):
            self.condemn(error)
        if isinstance(error, LedgerUnavailable):
            return error
        if not_synced(error):
            # The system may have dropped the pages and call the next fsync a success: trust nothing from here on.
            self._broken = LedgerUnavailable(
                f"the disk failed to store the ledger `{self._path}`: check the disk, then restart the gateway"
            )
            return self._broken
        try:
            self._watch.check()
        except LedgerUnavailable as gone:  # says more than the error that it led to
            return gone
        failure = unavailable(self._path, error)
        if damaged(error):
            self.condemn(failure)
        return failure

    def condemn(self, failure: LedgerUnavailable) -> None:
        """Nothing is written any more, for this reason; any thread may say so. A restart looks at the file anew."""
        self._broken = failure


def _spoils_all(error: Exception) -> bool:
    """Whether the error is the file's or the disk's, not the step's own."""
    return type(error) in {sqlite3.OperationalError, sqlite3.DatabaseError, sqlite3.InternalError}
