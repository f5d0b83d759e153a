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
PLAN = {
    "objective": "the CSV export reads back as what went in",
    "success_evidence": ["tests", "commit"],
    "steps": ["see the tests fail", "quote cells with a comma", "run the tests", "commit"],
    "expected_cost": {"calls": 6, "mutations": 3},
    "assumptions": [
        {"says": "cells with a comma are all that breaks", "evidence": "tests", "field": "verdict", "equals": "pass"}
    ],
}
REVISED = {**PLAN, "steps": ["let the csv module write", "run the tests", "commit"], "assumptions": []}
COMMIT = {"repo_path": ".", "message": "Quote what needs quotes in the CSV export"}
SERVERS = {"fs__edit_file", "git__git_commit", "runner__run_tests"}
"""A tool of each: `npx` may take a while to fetch its server."""


class Agent:
    """What it is told, it prints; what it must not do, it does not do twice."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ready(self) -> None:
        """Every server is there."""
        while not {tool.name for tool in (await self._client.list_tools()).tools} >= SERVERS:  # noqa: ASYNC110 - elsewhere
            await anyio.sleep(0.5)

    async def ask(self, tool: str, arguments: Mapping[str, Any] = {}) -> dict[str, Any]:
        """What one call came to, as the tool or the gateway tells it; it is printed in short."""
        result = await self._client.call_tool(tool, dict(arguments))
        record = (result.meta or {}).get("counterfoil/record", {})
        told: dict[str, Any] = result.structured_content or {}
        if result.is_error and "outcome" in told:  # the gateway's own object
            say(tool, f"{told['outcome']}: {told['reason']}")
        else:
            over = record.get("stopped")
            say(tool, f"{over['outcome'] if over else 'passed'}, phase {record['phase']}")
        return told

    async def own(self, tool: str, arguments: Mapping[str, Any] = {}) -> dict[str, Any]:
        """What a tool of the gateway's own answers."""
        result = await self._client.call_tool(tool, dict(arguments))
        told: dict[str, Any] = result.structured_content or {}
        if result.is_error:
            sys.exit(f"{tool}: {told}")
        return told

    async def edit(self, before: str, after: str) -> None:
        """The file has been changed, if the gateway let it."""
        await self.ask("fs__edit_file", {"path": "export.py", "edits": [{"oldText": before, "newText": after}]})

    async def plan(self, plan: Mapping[str, Any]) -> None:
        """The plan is recorded. It grants nothing."""
        told = await self.own("gateway__plan", plan)
        say("gateway__plan", f"revision {told['revision']}, assumptions that are looked after: {told['assumptions']}")

    async def note(self, says: str, event: str) -> None:
        """A hypothesis is recorded, with what it rests on. It counts until the tests speak anew."""
        rests = {"about": "export.py", "sources": [event], "confidence": 0.8, "until": {"evidence": "tests"}}
        await self.own("gateway__note", {"says": says, **rests})
        say("gateway__note", says)

    async def status(self) -> None:
        """Where the run stands has been asked, and is printed."""
        told = await self.own("gateway__status")
        say("gateway__status", f"phase {told['phase']['name']}, eligible: {listed(told['eligible'], 'transition')}")
        for failure in told.get("failures", ()):
            say("", f"failure: {failure['says']}")
        for wrong in told.get("plan", {}).get("invalidated", ()):
            say("", f"the plan is wrong: {wrong['assumed']}")
        say("", f"hypotheses: {listed(told.get('hypotheses', ()), 'says') or 'none'}")

    async def finish(self, says: str) -> bool:
        """Whether the run is a verified success. It is said that it is done; evidence decides."""
        told = await self.own("gateway__finish", {"says": says})
        say("gateway__finish", f"{told.get('outcome') or 'not finished'}: {told['reason']}")
        for missing in told.get("missing", ()):
            say("", f"missing: {missing['what']}: {missing['says']}")
        return told.get("outcome") == "verified_success"


def say(tool: str, what: str) -> None:
    """One line."""
    print(f"{tool:<24} {what}")


def listed(parts: list[dict[str, Any]], name: str) -> str:
    """One field of each."""
    return ", ".join(part[name] for part in parts)


async def repair(url: str) -> bool:
    """Whether the run has ended as a verified success."""
    with anyio.fail_after(180):
        async with Client(url) as client:
            agent = Agent(client)
            await agent.ready()

            # scoped
            await agent.plan(PLAN)
            await agent.ask("fs__read_text_file", {"path": "export.py"})
            await agent.ask("runner__run_tests")

            # inspected
            await agent.edit(BUG, HASTY)

            # changed
            await agent.ask("git__git_commit", COMMIT)  # "surely this is it" - no tests have said so
            failed = await agent.ask("runner__run_tests")  # and they say no

            # failed_check: what the plan assumed is not so
            await agent.status()
            await agent.ask("fs__read_text_file", {"path": "test_export.py"})
            await agent.note("a quote within a cell must be doubled", failed["evidence"][0]["event"])
            await agent.plan(REVISED)
            await agent.edit(HASTY, SOUND)

            # changed
            await agent.status()
            await agent.ask("runner__run_tests")

            # verified: the note was about the failure, and is gone with it
            await agent.status()
            await agent.finish("The tests pass, so it is done.")  # not yet: nothing of it is in git
            await agent.ask("git__git_add", {"repo_path": ".", "files": ["export.py"]})
            await agent.ask("git__git_commit", COMMIT)

            # committed
            return await agent.finish("The repair is committed, and the tests passed on it.")


def main() -> None:
    """The agent has done what it could."""
    match sys.argv[1:]:
        case [url]:
            sys.exit(0 if anyio.run(repair, url) else 1)
        case _:
            sys.exit("usage: agent.py http://127.0.0.1:8321/runs/TOKEN/mcp")


if __name__ == "__main__":
    main()
