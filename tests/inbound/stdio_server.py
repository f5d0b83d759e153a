"""The stdio door before a fake relay, as a process. Writes what the relay saw to the file that is named."""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from typing import Any

import anyio

from gateway.inbound.mcp import serve_stdio
from gateway.inbound.mcp.envelope import params_of
from gateway.inbound.mcp.exchange import Exchange, Session
from gateway.model.answer import Shown
from gateway.model.canonical import JsonObject
from tests.inbound.fake_relay import FakeRelay, Script, echo, tell, text

BIG = "x" * 3_000_000


class Noting(FakeRelay):
    """Tells the test, through a file, what happens."""

    def delivered(self, shown: Shown) -> None:
        note("delivered", shown.attempt)

    def closed(self, session: Session) -> None:
        super().closed(session)
        note("closed", [session.principal.id, session.version, len(session.flights)])


async def noisy(_exchange: Exchange) -> JsonObject:
    """Everything that a careless library might do to stdout, and a child that inherits it."""
    print("printed")  # noqa: T201 - that is the case
    sys.stdout.flush()
    os.write(1, b"written\n")
    os.system("echo from a child; cat")  # noqa: ASYNC221, S605
    return text("quiet")


async def seen(exchange: Exchange) -> JsonObject:
    arguments = params_of(exchange.message).get("arguments") or {}
    note("proposed", repr(arguments))
    return {"content": [], "structuredContent": arguments}


async def big(_exchange: Exchange) -> JsonObject:
    return text(BIG)


async def chatty(exchange: Exchange) -> JsonObject:
    """More than anybody takes who does not read, and nothing that cannot be lost."""
    for number in range(10):
        tell(exchange, "notifications/message", {"number": number, "data": "y" * 1_000_000})
    note("said", None)
    return text("said")


async def broken(exchange: Exchange) -> JsonObject:
    if params_of(exchange.message).get("arguments"):
        exchange.line.send({"a": float("nan")})
        return {"content": [], "structuredContent": float("inf")}
    raise RuntimeError("a bug")


def note(what: str, detail: Any) -> None:
    with open(sys.argv[1], "a") as log:  # noqa: PTH123
        log.write(json.dumps([what, detail]) + "\n")


@dataclass
class Slow:
    """Notes that it began, and ends when `go` is called."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, exchange: Exchange) -> JsonObject:
        note("began", None)
        gate = self.gate
        exchange.withdrawal.then = lambda: note("withdrawn", exchange.withdrawal.said)
        await gate.wait()
        note("finished", None)
        return await echo(exchange)

    async def go(self, exchange: Exchange) -> JsonObject:
        """Let it end."""
        self.gate.set()
        self.gate = asyncio.Event()
        return await echo(exchange)


async def main() -> None:
    print("before the door opens", end="")  # noqa: T201 - the same
    slow = Slow()
    scripts: dict[str, Script] = {"noisy": noisy, "seen": seen, "big": big, "slow": slow, "go": slow.go}
    relay = Noting()
    relay.tools.update(scripts | {"chatty": chatty, "broken": broken})
    await serve_stdio(relay=relay, delivered=relay.delivered)
    note("ended", None)


if __name__ == "__main__":
    if "--uvloop" in sys.argv:
        import uvloop

        uvloop.run(main())
    else:
        anyio.run(main)
