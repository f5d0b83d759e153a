"""Every tool, every fault, every passage, and then every second death: `python -m tests.crash.every`.

Some twelve thousand first deaths take four minutes on one core; with `--twice`, the recovery of some of them dies at
each of its own passages too.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter

from gateway.outbound.ledger import MemoryLedger
from tests.crash.ground import TOOLS, Ground
from tests.crash.invariants import violations
from tests.crash.outside import FAULTS
from tests.crash.stories import told

SALT = b"\0" * 32


def new_memory() -> Ground:
    """A world over a ledger in memory."""
    return Ground.new(MemoryLedger(SALT))


async def enumerate_deaths(tools: list[str], *, twice: bool) -> int:
    """How many violations there were; each is printed with what it takes to see it again."""
    deaths, found = Counter[str](), 0
    for tool in tools:
        for fault in FAULTS:
            _, seen = await told(new_memory(), tool, fault)
            for first in range(len(seen[0])):
                pairs: list[tuple[int, ...]] = [(first,)]
                if twice:
                    _, both = await told(new_memory(), tool, fault, first)
                    pairs += [(first, second) for second in range(0, len(both[1]), 7)]
                for died in pairs:
                    history, _ = await told(new_memory(), tool, fault, *died)
                    deaths[tool] += len(died)
                    for one in violations(history):
                        found += 1
                        print(f"{one.invariant} {tool}, {fault}, died at {died}: {one.says}")
    print(f"deaths {deaths.total()}, violations {found}; {dict(deaths)}")
    return found


def main() -> None:
    """Print what was found; exit code 1 if anything was."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--tool", action="append", choices=list(TOOLS))
    asked.add_argument("--twice", action="store_true", help="the second gateway dies too, at every seventh passage")
    said = asked.parse_args()
    begun = time.monotonic()
    found = asyncio.run(enumerate_deaths(said.tool or list(TOOLS), twice=said.twice))
    print(f"{time.monotonic() - begun:.0f} s")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
