# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ARG001
"""The client of fastmcp."""

import warnings

from fastmcp import Client
from fastmcp.client.transports import StdioTransport
from report import ACCEPTED, Report, dumped, job, run

warnings.simplefilter("ignore")


async def main():
    """All the steps, over one connection."""
    todo, report = job(), Report("fastmcp")
    target = todo["target"]
    command = target.get("command")

    async def elicit(message, response_type, params, context):
        report.note("asked", dumped(params))
        return ACCEPTED

    async def log(message):
        report.note("logged", dumped(message))

    async def progress(done, total, message):
        report.note("progress", [done, total, message])

    there = target.get("url") or StdioTransport(command[0], command[1:], keep_alive=False)
    with report.step("connect"):
        async with Client(there, elicitation_handler=elicit, log_handler=log, progress_handler=progress) as client:
            with report.step("list") as seen:
                seen["result"] = [dumped(tool) for tool in await client.list_tools()]
            for name, (tool, arguments) in todo["steps"].items():
                with report.step(name) as seen:
                    result = await client.call_tool(tool, arguments)
                    seen["result"] = {
                        "content": [dumped(block) for block in result.content],
                        "structured": result.structured_content,
                        "data": result.data,
                        "is_error": result.is_error,
                    }
    report.tell()


run(main)
