"""LEDGER PREFIX COUNT: migrates a copy of the ledger for each of its statements, and is killed before it by SIGKILL.

The last one dies after all of them. Prints how each ended.
"""

import os
import shutil
import signal
import sqlite3
import sys

from gateway.outbound.ledger import schema
from tests.ledger.dying import Dies


def die(path: str, number: int) -> None:
    Dies.killed = True
    db = sqlite3.connect(path, isolation_level=None, factory=Dies)
    db.dies_before(number)
    schema.migrate(db)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    ledger, prefix, count = sys.argv[1:4]
    for number in range(1, int(count) + 2):
        copy = shutil.copy(ledger, f"{prefix}-{number}.db")
        child = os.fork()
        if not child:
            die(copy, number)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))  # noqa: T201 - it is what the test reads
