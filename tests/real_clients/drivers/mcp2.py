# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""The Python SDK, 2.x, in either era: `mode` is `auto` or `legacy`."""

import warnings

from mcp import Client, types
from mcp.client.stdio import StdioServerParameters
from report import ACCEPTED, Report, dumped, job, run

warnings.simplefilter("ignore")


async def main():
    """All the steps, over one connection."""
    todo, report = job(), Report("mcp")
    target = todo["target"]
    command = target.get("command")
    there = target.get("url") or StdioServerParameters(command=command[0], args=command[1:])

    async def elicit(_, params):
        report.note("asked", dumped(params))
        return types.ElicitResult(action="accept", content=ACCEPTED)

    async def log(params):
        report.note("logged", dumped(params))

    async def progress(done, total, message):
        report.note("progress", [done, total, message])

    with report.step("connect"):
        async with Client(
            there, mode=todo["mode"], elicitation_callback=elicit, logging_callback=log, log_level="debug"
        ) as client:
            report.seen["protocol"] = client.protocol_version
            report.seen["server"] = dumped(client.server_info) if client.server_info else None
            report.seen["capabilities"] = dumped(client.server_capabilities)
            report.seen["instructions"] = client.instructions
            with report.step("list") as seen:
                seen["result"] = dumped(await client.list_tools())
            for name, (tool, arguments) in todo["steps"].items():
                with report.step(name) as seen:
                    seen["result"] = dumped(await client.call_tool(tool, arguments, progress_callback=progress))
    report.tell()


run(main)
