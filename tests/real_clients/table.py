"""Which clients there are, what each is made of, and what they are asked to do."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import real_servers

DRIVERS = Path(__file__).parent / "drivers"
NPM = {
    "@modelcontextprotocol/sdk": "1.32.2",
    "@modelcontextprotocol/client": "2.4.0",
    "@modelcontextprotocol/inspector": "2.12.0",
}
INSPECTOR = "@modelcontextprotocol/inspector"

Steps = Mapping[str, tuple[str, Mapping[str, Any]]]
Target = Mapping[str, Any]
"""`{"url": …}` or `{"command": […]}`."""


@dataclass(frozen=True)
class Client:
    """One client in one way of speaking."""

    name: str
    driver: str
    mode: str = ""
    requirements: Sequence[str] = ()
    """Of a venv of its own; none means the environment of these tests."""
    quick: bool = False
    """Installed and run in seconds: part of the tests."""
    waits: bool = False
    """It takes tasks, and waits for their end: so for the person whom a refused call here needs, who never comes."""

    def command(self, target: Target, steps: Steps) -> list[str]:
        """What to run; its last line on stdout is a JSON object.

        Raises: CannotInstall.
        """
        job = json.dumps({"target": dict(target), "mode": self.mode, "steps": steps})
        return [self._interpreter(), str(DRIVERS / self.driver), job]

    def env(self) -> dict[str, str]:
        """The environment of that command.

        Raises: CannotInstall.
        """
        npm = real_servers.npm_packages(NPM, cache=real_servers.VENVS) if self._npm() else None
        if npm is None:
            return dict(os.environ)
        launcher = npm / "node_modules" / INSPECTOR / "clients" / "launcher" / "build" / "index.js"
        inspector = json.dumps([str(real_servers.node()), str(launcher)])
        return {**os.environ, "REAL_CLIENTS_MODULES": str(npm), "REAL_CLIENTS_INSPECTOR": inspector}

    def _npm(self) -> bool:
        return self.driver.endswith(".mjs") or self.driver == "inspector.py"

    def _interpreter(self) -> str:
        if self.driver.endswith(".mjs"):
            return str(real_servers.node())
        return str(real_servers.venv(self.requirements) / "bin" / "python") if self.requirements else sys.executable


CLIENTS = [
    Client("mcp2-auto", "mcp2.py", "auto", quick=True),
    Client("mcp2-legacy", "mcp2.py", "legacy", quick=True),
    Client("mcp1", "mcp1.py", requirements=("mcp==1.30.0",), quick=True),
    Client("ts1", "ts1.mjs", quick=True),
    Client("ts2-legacy", "ts2.mjs", "legacy", quick=True),
    Client("ts2-auto", "ts2.mjs", "auto", quick=True),
    Client("inspector-legacy", "inspector.py", "legacy", quick=True),
    Client("inspector-modern", "inspector.py", "modern", quick=True, waits=True),
    Client("fastmcp", "fastmcp_client.py", requirements=("fastmcp==4.2.3",)),
    Client(
        "langchain",
        "langchain_client.py",
        requirements=("langchain-mcp-adapters==0.3.2", "langchain==1.5.2", "langgraph==1.2.24"),
    ),
    Client("openai-agents", "openai_agents_client.py", requirements=("openai-agents==0.24.0",)),
    Client("pydantic-ai", "pydantic_ai_client.py", requirements=("pydantic-ai-slim[mcp]==2.68.0",)),
]

OURS: Steps = {
    "call": ("echo", {"text": "grüß Gott 🌍"}),
    "typed": ("add", {"a": 1.5, "b": 2}),
    "error": ("fail", {"reason": "it is closed"}),
    "rpc_error": ("rpc_error", {}),
    "long": ("long", {"seconds": 2, "steps": 2}),
    "elicit": ("ask", {}),
    "log": ("log", {"line": "a line"}),
    "refused": ("wipe", {}),
}
"""For tests/servers/clients_server.py. The long call ends before openai-agents loses patience, which is after 5 s."""

EVERYTHING: Steps = {
    "call": ("echo", {"message": "grüß Gott 🌍"}),
    "typed": ("get-structured-content", {"location": "Chicago"}),
    "error": ("get-resource-reference", {"resourceType": "Text", "resourceId": -1}),
    "long": ("trigger-long-running-operation", {"duration": 2, "steps": 2}),
    "elicit": ("trigger-elicitation-request", {}),
}
"""For @modelcontextprotocol/server-everything."""

CONFORMANCE: Steps = {
    "call": ("test_simple_text", {}),
    "error": ("test_error_handling", {}),
    "rpc_error": ("test_missing_capability", {}),
    "long": ("test_tool_with_progress", {}),
    "elicit": ("test_elicitation", {"message": "Who are you?"}),
    "input_required": ("test_input_required_result_elicitation", {}),
    "log": ("test_tool_with_logging", {}),
}
"""For any server that the conformance suite is run against: it gives the tools their names. Elicitation is asked for in
the older era's way and in the newer's; each fails in the other era, and should fail alike."""

PROFILES = {"ours": OURS, "everything": EVERYTHING, "conformance": CONFORMANCE}
OURS_ON_STDIO = [sys.executable, str(Path(__file__).parent.parent / "servers" / "clients_server.py"), "--stdio"]
