# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ARG001, ARG002, ANN003
"""LangGraph's agent with tools of langchain-mcp-adapters, and a model that follows a script."""

import warnings

warnings.simplefilter("ignore")

from langchain.agents import create_agent  # noqa: E402
from langchain_core.language_models import BaseChatModel  # noqa: E402
from langchain_core.messages import AIMessage  # noqa: E402
from langchain_core.outputs import ChatGeneration, ChatResult  # noqa: E402
from langchain_mcp_adapters.callbacks import Callbacks  # noqa: E402
from langchain_mcp_adapters.client import MultiServerMCPClient  # noqa: E402
from mcp.types import ElicitResult  # noqa: E402
from report import ACCEPTED, Report, dumped, job, run  # noqa: E402


class Scripted(BaseChatModel):
    """Asks for one tool, then is done."""

    tool: str
    arguments: dict

    @property
    def _llm_type(self):
        return "scripted"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, messages, stop=None, run_manager=None, **_):
        if messages[-1].type == "tool":
            said = AIMessage("done")
        else:
            said = AIMessage("", tool_calls=[{"name": self.tool, "args": self.arguments, "id": "call_1"}])
        return ChatResult(generations=[ChatGeneration(message=said)])


async def main():
    """All the steps; the adapters make a session of their own for each call."""
    todo, report = job(), Report("langchain-mcp-adapters")
    target = todo["target"]
    if "url" in target:
        there = {"transport": "http", "url": target["url"]}
    else:
        there = {"transport": "stdio", "command": target["command"][0], "args": target["command"][1:]}

    async def elicit(mcp_context, params, context):
        report.note("asked", dumped(params))
        return ElicitResult(action="accept", content=ACCEPTED)

    async def log(params, context):
        report.note("logged", dumped(params))

    async def progress(done, total, message, context):
        report.note("progress", [done, total, message])

    callbacks = Callbacks(on_elicitation=elicit, on_logging_message=log, on_progress=progress)
    tools = []
    with report.step("list") as seen:
        tools = await MultiServerMCPClient({"there": there}, callbacks=callbacks).get_tools()
        seen["result"] = [
            {"name": tool.name, "description": tool.description, "schema": tool.args_schema, "metadata": tool.metadata}
            for tool in tools
        ]
    for name, (tool, arguments) in todo["steps"].items():
        with report.step(name) as seen:
            agent = create_agent(Scripted(tool=tool, arguments=arguments), tools)
            end = await agent.ainvoke({"messages": [("user", "go")]})
            told = [message for message in end["messages"] if message.type == "tool"]
            seen["result"] = [
                {"status": message.status, "content": strip(message.content), "artifact": message.artifact}
                for message in told
            ]
    report.tell()


def strip(content):
    """Content blocks without the id that langchain draws for each."""
    if isinstance(content, str):
        return content
    return [{key: value for key, value in block.items() if key != "id"} for block in content]


run(main)
