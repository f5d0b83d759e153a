"""The client that the suite starts: it puts the gateway in front of the suite's mock, and asks through it.

    python -m tests.conformance.client_driver [--direct] URL

What the mock sees are the requests of the gateway, so the gateway is the client under test. With `--direct` there is
none, and the answers are those of our own agent: what it passes then, it must pass through the gateway.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tests.conformance.agent import Agent, filled_in
from tests.conformance.stands import gateway

LIMIT_S = 25
"""The suite kills only the shell around us; so we end by ourselves, and the gateway with us."""


def list_only(agent: Agent) -> None:
    agent.tools()


def add(agent: Agent) -> None:
    agent.tools()
    agent.call("add_numbers", {"a": 2, "b": 3})


def call_all(agent: Agent) -> None:
    """Every tool that is listed, but for the gateway's own: it lists only those that may be called."""
    for tool in agent.tools():
        if not tool["name"].startswith("gateway__"):
            agent.call(tool["name"], dict.fromkeys(tool["inputSchema"].get("properties", {}), "x"))


def call_valid(agent: Agent) -> None:
    """Without the gateway it is our own business to drop the tools whose annotations are wrong."""
    from mcp.shared.inbound import find_invalid_x_mcp_header  # noqa: PLC0415 - costs a second, and only here

    for tool in agent.tools():
        if find_invalid_x_mcp_header(tool["inputSchema"]) is None:
            agent.call(tool["name"], dict.fromkeys(tool["inputSchema"].get("properties", {}), "x"))


def every_kind(agent: Agent) -> None:
    agent.tools()
    for tool in ("test_headers", "my-hyphenated-tool"):
        agent.call(tool)
    for resource in agent.request("resources/list")["resources"]:
        agent.request("resources/read", {"uri": resource["uri"]})
    for prompt in agent.request("prompts/list")["prompts"]:
        agent.request("prompts/get", {"name": prompt["name"]})


def told(agent: Agent) -> None:
    """The calls that the scenario tells us to make."""
    agent.tools()
    context: dict[str, Any] = json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])
    for call in context["toolCalls"]:
        agent.call(call["name"], call["arguments"])


def rounds(agent: Agent) -> None:
    agent.tools()
    asked = {tool: agent.call(tool) for tool in ("test_mrtr_echo_state", "test_mrtr_no_state")}
    agent.call("test_mrtr_unrelated")
    for tool, question in asked.items():
        answers = {key: filled_in(ask["params"]) for key, ask in question["inputRequests"].items()}
        state = {"requestState": question["requestState"]} if "requestState" in question else {}
        agent.call(tool, inputResponses=answers, **state)
    agent.call("test_mrtr_no_result_type")


def echo_schema(agent: Agent) -> None:
    schemas = {tool["name"]: tool["inputSchema"] for tool in agent.tools()}
    agent.call("json_schema_echo", {"schema": schemas["json_schema_2020_12_tool"]})


def call(tool: str) -> Callable[[Agent], None]:
    def drive(agent: Agent) -> None:
        agent.tools()
        agent.call(tool)

    return drive


SCENARIOS: dict[str, Callable[[Agent], None]] = {
    "initialize": list_only,
    "tools_call": add,
    "elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults"),
    "sse-retry": call("test_reconnection"),
    "request-metadata": list_only,
    "sep-2322-client-request-state": rounds,
    "http-standard-headers": every_kind,
    "http-custom-headers": told,
    "http-invalid-tool-headers": call_all,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
}

BY_ERA = {
    "2025": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}
"""The requirements of each revision without authorization, and preservation, which is not scored."""


def main() -> None:
    direct = "--direct" in sys.argv[1:]
    scenario, version = os.environ["MCP_CONFORMANCE_SCENARIO"], os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
    drive = call_valid if direct and scenario == "http-invalid-tool-headers" else SCENARIOS[scenario]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(f"not done within {LIMIT_S} s"))
    signal.alarm(LIMIT_S)
    mock = sys.argv[-1]
    with contextlib.nullcontext(mock) if direct else gateway([mock]) as url:
        agent = Agent(url, version)
        try:
            agent.start()
            drive(agent)
        finally:
            agent.end()


if __name__ == "__main__":
    main()
