# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201, ANN202, ARG001
"""An agent of pydantic-ai with a model that follows a script; what the model was told is what counts."""

import warnings

warnings.simplefilter("ignore")

from pydantic_ai import Agent  # noqa: E402
from pydantic_ai.mcp import MCPToolset  # noqa: E402
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart  # noqa: E402
from pydantic_ai.models.function import FunctionModel  # noqa: E402
from report import ACCEPTED, Report, job, run  # noqa: E402


async def main():
    """All the steps, over one connection."""
    todo, report = job(), Report("pydantic-ai-slim")
    target = todo["target"]

    async def elicit(message, response_type, params, context):
        report.note("asked", message)
        return ACCEPTED

    async def log(message):
        report.note("logged", message.model_dump(by_alias=True, exclude_none=True, mode="json"))

    async def progress(done, total, message):
        report.note("progress", [done, total, message])

    there = target.get("url") or {"mcpServers": {"there": stdio(target["command"])}}
    toolset = MCPToolset(there, elicitation_handler=elicit, log_handler=log, progress_handler=progress)
    with report.step("connect"):
        async with toolset:
            for name, (tool, arguments) in {"list": ("", {}), **todo["steps"]}.items():
                with report.step(name) as seen:
                    told = seen["result"] = []

                    def scripted(messages, info, told=told, tool=tool, arguments=arguments):
                        last = [
                            part for part in messages[-1].parts if part.part_kind in ("tool-return", "retry-prompt")
                        ]
                        told += [{"kind": part.part_kind, "content": part.content} for part in last]
                        if not tool:
                            told += [
                                [one.name, one.description, one.parameters_json_schema] for one in info.function_tools
                            ]
                        if last or not tool:
                            return ModelResponse(parts=[TextPart("done")])
                        return ModelResponse(parts=[ToolCallPart(tool, arguments, tool_call_id="call_1")])

                    await Agent(FunctionModel(scripted), toolsets=[toolset]).run("go")
    report.tell()


def stdio(command):
    """As a client's configuration writes it."""
    return {"command": command[0], "args": command[1:]}


run(main)
