"""The gateway as its own command starts it, over a ledger that tells how often it has committed.

    python -m tests.bench.metered DELAY_MS wrap …     as `counterfoil wrap …`

A line on stdin is answered by a line on stdout with the commits so far. With a delay, each commit of an SQLite ledger
waits for so long before it begins, as it would for a slower disk; a PostgreSQL server has a setting for that.
"""

import sqlite3
import sys
import time
from threading import Thread
from typing import Any

import gateway.app
from gateway.cli import main
from gateway.outbound.ledger import SqliteLedger, open_ledger, open_sqlite
from gateway.ports import Ledger

_opened: list[Any] = []
"""The ledger, once it is open."""


def slow(delay_s: float) -> type[sqlite3.Connection]:
    """Connections whose commits take that much longer."""

    class Slow(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                time.sleep(delay_s)
            return super().execute(sql, *values)

    return Slow


def metered(delay_s: float, arguments: list[str]) -> None:
    """The command ran to its end."""

    async def opened(url: str) -> Ledger:
        ledger: Ledger
        if delay_s:
            ledger = await open_sqlite(url.removeprefix("sqlite:///"), factory=slow(delay_s))
        else:
            ledger = await open_ledger(url)
        _opened.append(ledger)
        return ledger

    vars(gateway.app)["open_ledger"] = opened
    Thread(target=_tell, daemon=True).start()
    sys.argv = ["counterfoil", *arguments]
    main()


def _tell() -> None:
    for _ in sys.stdin:
        ledger: SqliteLedger = _opened[0]
        print(ledger.commits, flush=True)


if __name__ == "__main__":
    metered(float(sys.argv[1]) / 1e3, sys.argv[2:])
