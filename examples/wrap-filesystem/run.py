"""An agent works in a folder through `counterfoil wrap`: it reads at once, and writes when a person has agreed.

    python run.py FOLDER

FOLDER is made if there is none. `counterfoil` and `npx` must be on the PATH. The ledger becomes FOLDER's neighbour.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters

SERVER = ["npx", "-y", "@modelcontextprotocol/server-filesystem"]


async def work(folder: Path, ledger: str) -> None:
    """The agent has read, asked for a write, waited for a person's word, and written."""
    note, idea = folder / "note.txt", folder / "idea.txt"
    write = {"path": str(idea), "content": "Buy hazelnuts too.\n"}
    wrapped = ["wrap", "--ledger", ledger, "--", *SERVER, str(folder)]
    with anyio.fail_after(120):  # the first `npx` fetches the server
        async with Client(StdioServerParameters(command="counterfoil", args=wrapped)) as agent:
            for _ in range(200):
                if any(tool.name == "write_file" for tool in (await agent.list_tools()).tools):
                    break
                await anyio.sleep(0.5)
            await ask(agent, "list_directory", {"path": str(folder)})
            await ask(agent, "read_text_file", {"path": str(note)})
            held = await ask(agent, "write_file", write)
            print(f"           there is {'a' if idea.exists() else 'no'} file {idea.name}")

            # The person's side, in another terminal. It runs nothing: the agent has to ask again.
            approval = held["approval"]["id"]
            print(f"person     counterfoil approvals approve --yes {approval}")
            await anyio.run_process(["counterfoil", "approvals", "approve", "--yes", approval, "--ledger", ledger])

            await ask(agent, "write_file", write)
            print(f"           {idea.name}: {idea.read_text().strip()}")


async def ask(agent: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured answer to one call, printed in short."""
    print(f"agent      {tool} {Path(arguments['path']).name}")
    result = await agent.call_tool(tool, arguments)
    answer = result.structured_content or {}
    if result.is_error:
        print(f"gateway    {answer['outcome']}: {answer['reason']}")
    else:
        print("tool       " + "\n           ".join(str(answer["content"]).strip().splitlines()))
    return answer


def main() -> None:
    """The agent has worked in the folder, and the ledger tells how."""
    match sys.argv[1:]:
        case [name]:
            folder = Path(name).resolve()
        case _:
            sys.exit("usage: run.py FOLDER")
    folder.mkdir(exist_ok=True)
    (folder / "note.txt").write_text("Remember the milk.\n")
    ledger = f"sqlite:///{folder}.ledger.db"
    anyio.run(work, folder, ledger)
    subprocess.run(["counterfoil", "show", "last", "--ledger", ledger], check=True)  # noqa: S603, S607 - our own words


if __name__ == "__main__":
    main()
