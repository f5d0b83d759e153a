"""A scripted agent that repairs the repository. It is hasty, and the gateway does not take its word for anything.

    python agent.py http://127.0.0.1:8321/runs/TOKEN/mcp

Exits with 0 only if the gateway says that the run is a verified success.
"""

import sys
from collections.abc import Mapping
from typing import Any

import anyio
from mcp import Client

BUG = """\
    return "".join(",".join(str(cell) for cell in row) + "\\n" for row in rows)
"""
HASTY = """\
    quoted = [[f'"{cell}"' if "," in str(cell) else str(cell) for cell in row] for row in rows]
    return "".join(",".join(row) + "\\n" for row in quoted)
"""
SOUND = """\
    import csv, io

    text = io.StringIO()
    csv.writer(text, lineterminator="\\n").writerows(rows)
    return text.getvalue()
"""
COMMIT = {"repo_path": ".", "message": "Quote what needs quotes in the CSV export"}


class Agent:
    """What it is told, it prints; what it must not do, it does not do twice."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.outcome = ""
        """The gateway's last word: `passed`, or the outcome of its typed object."""

    async def ask(self, tool: str, arguments: Mapping[str, Any] = {}) -> None:
        """One call has been made, and what came of it is printed in short."""
        result = await self._client.call_tool(tool, dict(arguments))
        record = (result.meta or {}).get("counterfoil/record", {})
        told = result.structured_content or {}
        if result.is_error and "outcome" in told:  # the gateway's own object
            self.outcome = told["outcome"]
            print(f"{tool:<24} {self.outcome}: {told['reason']}")
            return
        over = record.get("stopped")
        self.outcome = over["outcome"] if over else "passed"
        print(f"{tool:<24} {self.outcome}, phase {record['phase']}")

    async def edit(self, before: str, after: str) -> None:
        """The file has been changed, if the gateway let it."""
        await self.ask("fs__edit_file", {"path": "export.py", "edits": [{"oldText": before, "newText": after}]})


async def repair(url: str) -> bool:
    """Whether the run has ended as a verified success."""
    with anyio.fail_after(120):
        async with Client(url) as client:
            agent = Agent(client)
            await agent.ask("fs__read_text_file", {"path": "export.py"})
            await agent.ask("runner__run_tests")
            await agent.ask("git__git_commit", COMMIT)  # "done!" - but nothing is, and the phase says so

            await agent.edit(BUG, HASTY)
            await agent.ask("git__git_commit", COMMIT)  # "surely this is it" - no tests have said so
            await agent.ask("runner__run_tests")  # and they say no

            await agent.edit(HASTY, SOUND)
            await agent.ask("runner__run_tests")  # yes: now there is evidence
            await agent.ask("git__git_add", {"repo_path": ".", "files": ["export.py"]})
            await agent.ask("git__git_commit", COMMIT)

            await agent.edit(SOUND, SOUND)  # a last touch? The run is over, and stays so.
            return agent.outcome == "verified_success"


def main() -> None:
    """The agent has done what it could."""
    match sys.argv[1:]:
        case [url]:
            sys.exit(0 if anyio.run(repair, url) else 1)
        case _:
            sys.exit("usage: agent.py http://127.0.0.1:8321/runs/TOKEN/mcp")


if __name__ == "__main__":
    main()
