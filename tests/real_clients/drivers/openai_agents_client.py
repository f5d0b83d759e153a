# mypy: ignore-errors
# ruff: noqa: A002, ANN001, ANN003, ANN201, ANN204, ARG002, ANN002
"""An agent of openai-agents with a model that follows a script; what the model was told is what counts."""

import json
import warnings

warnings.simplefilter("ignore")

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled  # noqa: E402
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp  # noqa: E402
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText  # noqa: E402
from report import Report, dumped, job, run  # noqa: E402


class Scripted(Model):
    """Asks for one tool, then is done."""

    def __init__(self, tool, arguments):
        self.tool, self.arguments = tool, arguments
        self.told = None

    async def get_response(self, system_instructions, input, *_, **__):
        told = [item for item in input if isinstance(item, dict) and item.get("type") == "function_call_output"]
        if told:
            self.told = [item["output"] for item in told]
            text = ResponseOutputText(annotations=[], text="done", type="output_text")
            item = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        else:
            item = ResponseFunctionToolCall(
                arguments=json.dumps(self.arguments), call_id="call_1", name=self.tool, type="function_call"
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    async def stream_response(self, *_, **__):
        raise NotImplementedError
        yield


async def main():
    """All the steps, over one connection."""
    set_tracing_disabled(True)
    todo, report = job(), Report("openai-agents")
    target = todo["target"]
    if "url" in target:
        there = MCPServerStreamableHttp({"url": target["url"]})
    else:
        there = MCPServerStdio({"command": target["command"][0], "args": target["command"][1:]})
    with report.step("connect"):
        async with there as server:
            with report.step("list") as seen:
                seen["result"] = [dumped(tool) for tool in await server.list_tools()]
            for name, (tool, arguments) in todo["steps"].items():
                with report.step(name) as seen:
                    model = Scripted(tool, arguments)
                    agent = Agent(name="a", model=model, mcp_servers=[server])
                    await Runner.run(agent, "go")
                    seen["result"] = model.told
    report.tell()


run(main)
