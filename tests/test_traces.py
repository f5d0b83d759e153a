"""Events are for ever: every ledger that was ever written loads, folds and is judged the same.

`tests/traces/*.jsonl` are runs as earlier versions stored them. They are never rewritten; a new kind or field
gets a new file. `python -m tests.test_traces LEDGER RUN` prints one.
"""

import asyncio
import sys
from pathlib import Path

import pytest

from gateway.kernel.reduce import fold
from gateway.model.events import Event
from gateway.model.record import decode, encode, link
from gateway.model.run import Run, RunState

TRACES = sorted((Path(__file__).parent / "traces").glob("*.jsonl"))


def bodies(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines()


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_stored_run_loads_byte_for_byte_and_folds(path: Path) -> None:
    records = [decode(body) for body in bodies(path)]
    assert [encode(record) for record in records] == bodies(path)
    run = fold(zip(records, map(link, bodies(path)), strict=True), Run(records[0].run))
    assert run.version == len(records)
    assert run.state is not RunState.UNOPENED


def test_every_kind_of_event_stands_in_some_trace() -> None:
    seen = {decode(body).event.kind for path in TRACES for body in bodies(path)}
    kinds = {kind.model_fields["kind"].default for kind in Event.__args__[0].__args__}
    assert seen == kinds


async def _print(ledger: str, run: str) -> None:
    from gateway.outbound.ledger import open_ledger  # noqa: PLC0415 - only this command needs it

    opened = await open_ledger(ledger)
    for _, body in await opened.read(run):
        sys.stdout.buffer.write(body + b"\n")
    await opened.close()


if __name__ == "__main__":
    asyncio.run(_print(*sys.argv[1:3]))
