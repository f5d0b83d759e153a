# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202
"""The Python SDK, 1.x."""

from contextlib import asynccontextmanager

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from report import ACCEPTED, Report, dumped, job, run


@asynccontextmanager
async def streams(target):
    """The two streams of either transport."""
    if "url" in target:
        async with streamable_http_client(target["url"]) as (incoming, outgoing, _):
            yield incoming, outgoing
    else:
        command = target["command"]
        async with stdio_client(StdioServerParameters(command=command[0], args=command[1:])) as both:
            yield both


async def main():
    """All the steps, over one session."""
    todo, report = job(), Report("mcp")

    async def elicit(_, params):
        report.note("asked", dumped(params))
        return types.ElicitResult(action="accept", content=ACCEPTED)

    async def log(params):
        report.note("logged", dumped(params))

    async def progress(done, total, message):
        report.note("progress", [done, total, message])

    with report.step("connect"):
        async with (
            streams(todo["target"]) as (incoming, outgoing),
            ClientSession(incoming, outgoing, elicitation_callback=elicit, logging_callback=log) as session,
        ):
            welcome = await session.initialize()
            report.seen["protocol"] = welcome.protocolVersion
            report.seen["server"] = dumped(welcome.serverInfo)
            report.seen["capabilities"] = dumped(welcome.capabilities)
            report.seen["instructions"] = welcome.instructions
            with report.step("list") as seen:
                seen["result"] = dumped(await session.list_tools())
            for name, (tool, arguments) in todo["steps"].items():
                with report.step(name) as seen:
                    seen["result"] = dumped(await session.call_tool(tool, arguments, progress_callback=progress))
    report.tell()


run(main)
