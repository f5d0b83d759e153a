"""An agent pays two orders through `counterfoil wrap`; the bank books the second one twice, and says that all is well.

    python run.py BOOK [SECONDS]

BOOK is the file in which the shop's server keeps its bookings; it must not be there yet. Every answer of the shop
takes SECONDS. `counterfoil` must be on the PATH. The ledger becomes BOOK's neighbour.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

HERE = Path(__file__).resolve().parent
POLICY = HERE / "policy.yaml"
SERVER = [sys.executable, str(HERE / "shop_server.py")]


async def work(book: Path, slow: list[str], ledger: str) -> None:
    """The agent has paid what it could, and was told of the rest."""
    wrapped = ["wrap", "--policy", str(POLICY), "--ledger", ledger, "--", *SERVER, str(book), *slow]
    with anyio.fail_after(60):
        gateway = StdioServerParameters(command="counterfoil", args=wrapped, env=dict(os.environ))
        async with Client(gateway) as agent:
            await ask(agent, "pay", {"order": "once-1", "amount": 1999})
            await ask(agent, "pay", {"order": "twice-2", "amount": 4900})
            await ask(agent, "pay", {"order": "once-3", "amount": 500})


async def ask(agent: Client, tool: str, arguments: dict[str, Any]) -> None:
    """One call and what came of it, printed in short."""
    print(f"agent      {tool} {arguments['order']}")
    result = await agent.call_tool(tool, arguments)
    answer = result.structured_content or {}
    if not result.is_error:
        print(f"tool       {answer['status']}")
        return
    print(f"gateway    {answer['outcome']}: {answer['reason']}")
    for undone in answer.get("undone", ()):
        print(f"           {undone['state']}: {undone['says']}")


def main() -> None:
    """The orders are paid or given back, and the ledger tells how."""
    match sys.argv[1:]:
        case [name, *slow] if len(slow) <= 1:
            book = Path(name).resolve()
        case _:
            sys.exit("usage: run.py BOOK [SECONDS]")
    if book.exists():
        sys.exit(f"{book} is there already; name a new file, or delete it and {book.name}.ledger.db")
    ledger = f"sqlite:///{book}.ledger.db"
    anyio.run(work, book, slow, ledger)
    subprocess.run(["counterfoil", "show", "last", "--ledger", ledger], check=True)  # noqa: S603, S607 - our own words


if __name__ == "__main__":
    main()
