# mypy: ignore-errors
# ruff: noqa: ANN001, ANN201
"""MCP Inspector's command line: one process for each step. `mode` is its `--protocol-era`."""

import json
import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 60


def main():
    """All the steps, each over a connection of its own."""
    todo = json.loads(sys.argv[1])
    inspector = json.loads(os.environ["REAL_CLIENTS_INSPECTOR"])
    target = todo["target"]
    era = ["--protocol-era", todo["mode"]]
    before, after = ([target["url"]], []) if "url" in target else ([], ["--", *target["command"]])
    package = json.loads((Path(inspector[1]).parents[3] / "package.json").read_text())
    seen = {"package": f"{package['name']} {package['version']}", "steps": {}}
    wanted = {"list": (None, {}), **{name: step for name, step in todo["steps"].items() if name != "elicit"}}
    for name, (tool, arguments) in wanted.items():
        asked = ["--method", "tools/list"] if tool is None else ["--method", "tools/call", "--tool-name", tool]
        for key, value in arguments.items():
            asked += ["--tool-arg", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
        command = [*inspector, "--cli", *before, *era, *asked, *after]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        seen["steps"][name] = {"exit": done.returncode, "result": read(done.stdout)}
        if done.returncode not in {0, 5}:  # 5 is an error result, which is printed like any other
            seen["steps"][name]["raised"] = read(done.stderr)
    sys.stdout.write(json.dumps(seen) + "\n")


def read(text):
    """JSON where it is, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip()


main()
