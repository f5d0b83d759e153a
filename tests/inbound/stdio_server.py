"""The stdio door before a fake gate, as a process. Writes what the gate saw to the file that is named, line by line."""

import asyncio
import json
import os
import sys
from dataclasses import replace
from typing import Any

import anyio

from gateway.inbound.mcp import serve_stdio
from gateway.model.answer import Shown
from gateway.model.proposal import Proposal
from gateway.outbound.ids import id_maker
from tests.inbound.fake_gate import REFUSAL, Answers, FakeGate, FakeTools, Held, ToldClock, answering, echo

BIG = "x" * 3_000_000


class Noting(FakeGate):
    """Tells the test, through a file, what happens."""

    def delivered(self, shown: Shown) -> None:
        note("delivered", [shown.run, shown.attempt])

    async def open_run(self, **run: Any) -> str:
        note("opened", {"origin": run["origin"], "principal": run["principal"].id, "client": run["attribution"]})
        return str(run["run"])


async def noisy(proposal: Proposal) -> Shown:
    """Everything that a careless library might do to stdout, and a child that inherits it."""
    print("printed")  # noqa: T201 - that is the case
    sys.stdout.flush()
    os.write(1, b"written\n")
    os.system("echo from a child; cat")  # noqa: ASYNC221, S605
    return Shown(proposal.run, result={"content": [{"type": "text", "text": "quiet"}]})


async def seen(proposal: Proposal) -> Shown:
    note("proposed", {"arguments": repr(dict(proposal.arguments)), "key": proposal.key and proposal.key.value})
    return Shown(proposal.run, result={"content": [], "structuredContent": dict(proposal.arguments)})


async def big(proposal: Proposal) -> Shown:
    return Shown(proposal.run, attempt="big", result={"content": [{"type": "text", "text": BIG}]})


def note(what: str, detail: Any) -> None:
    with open(sys.argv[1], "a") as log:  # noqa: PTH123
        log.write(json.dumps([what, detail]) + "\n")


class Slow(Held):
    """Notes that it began, and ends when `go` is called."""

    async def __call__(self, proposal: Proposal) -> Shown:
        note("began", proposal.run)
        shown = await super().__call__(proposal)
        note("finished", proposal.run)
        return replace(shown, attempt="slow")

    async def go(self, proposal: Proposal) -> Shown:
        """Let it end."""
        self.gate.set()
        self.gate = asyncio.Event()
        return await echo(proposal)


async def main() -> None:
    print("before the door opens", end="")  # noqa: T201 - the same
    slow = Slow()
    scripts: dict[str, Answers] = {"noisy": noisy, "seen": seen, "big": big, "slow": slow, "go": slow.go}
    gate = Noting(answers={**scripts, "pay": answering(refusal=REFUSAL)})
    clock = ToldClock()
    await serve_stdio(gate=gate, tools=FakeTools(), make_id=id_maker(clock.now), clock=clock, version="9.9")
    note("ended", None)


if __name__ == "__main__":
    anyio.run(main)
