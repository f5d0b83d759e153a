"""`python -m tests.ledger.power_worker SHIM`: lives, one a line of JSON on stdin; each in a process of its own."""

import asyncio
import ctypes
import json
import os
import sqlite3
import sys
from pathlib import Path
from typing import Any

from gateway.outbound.ledger import open_sqlite
from gateway.ports import Answer, Dispatch, LedgerUnavailable
from tests import world
from tests.ledger.power import Life
from tests.runtime.house import House, house


def say(*words: object) -> None:
    """In one call, so that it is said whole or not at all; a cut takes nothing of it back."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Connection(sqlite3.Connection):
    """The writing connection of the life at hand."""

    life = Life()

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "PRAGMA synchronous = FULL":
            super().execute(f"PRAGMA wal_autocheckpoint = {Connection.life.pages}")
            if Connection.life.normal:
                sql = "PRAGMA synchronous = NORMAL"
        return super().execute(sql, *values)


async def work(it: House, run: str, calls: int) -> None:
    """One agent's calls, one after another."""
    for number in range(calls):
        name = f"{run}.{number}"
        try:
            await it.open(run)
            shown = await it.call("write", {"text": name}, run=run, deliver=False)
        except LedgerUnavailable as error:
            say("refused", name, error)
            continue
        if shown.refusal is None:
            say("answered", name)
            it.engine.delivered(shown)
            await it.settle()
        else:
            say("refused", name, shown.refusal.executed, shown.refusal.reason)


async def live(life: Life, folder: Path) -> None:
    """Two agents call at once; every effect is seen by the world before its answer comes."""
    Connection.life = life
    upstreams = world.ScriptedUpstreams()
    upstreams.offer(world.tool("write"))

    async def effect(dispatch: Dispatch) -> Answer:
        say("effect", dispatch.arguments["text"])
        await asyncio.sleep(0)
        return world.ok("x" * 500)

    upstreams.will("write", *[effect] * (2 * life.calls))
    ledger = await open_sqlite(folder / "ledger.db", factory=Connection)
    say("opened")
    try:
        async with house(ledger, upstreams=upstreams) as it:
            await asyncio.gather(work(it, "run_a", life.calls), work(it, "run_b", life.calls))
    finally:
        await ledger.close()
    say("closed")


def one(shim: ctypes.CDLL, job: dict[str, Any]) -> None:
    """A whole life, in a process of its own, which ends here."""
    folder = Path(job.pop("live"))
    image = job.pop("image")
    life = Life(**job)
    shim.power_arm(str(folder).encode(), image.encode(), ctypes.c_long(life.cut_at), ctypes.c_long(life.fail_at))
    try:
        asyncio.run(live(life, folder))
    except LedgerUnavailable as error:
        say("unavailable", error)
    passages, syncs = ctypes.c_long(), ctypes.c_long()
    shim.power_counts(ctypes.byref(passages), ctypes.byref(syncs))
    say("passages", passages.value)
    say("syncs", syncs.value)


def forked(shim: ctypes.CDLL, job: dict[str, Any]) -> dict[str, Any]:
    """What the world saw of one life."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(into, 1)
        code = 97
        try:
            one(shim, job)
            code = 0
        finally:
            os._exit(code)
    os.close(into)
    with os.fdopen(out) as lines:
        said = lines.read().splitlines()
    _, status = os.waitpid(child, 0)
    return {"code": os.waitstatus_to_exitcode(status), "said": said}


def main() -> None:
    shim = ctypes.CDLL(sys.argv[1])
    for line in sys.stdin:
        sys.stdout.write(json.dumps(forked(shim, json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
