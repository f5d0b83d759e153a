"""An agent works through a gateway that tells all to a tracing backend, and its denied call is found there again.

    python run.py FOLDER [--stay] [phoenix] [mlflow]

For each backend that is named: it is installed in FOLDER (once, some 850 MB) and started; a gateway with a real server
sends it its spans; a scripted agent is allowed, denied, verified, and told to wait for a person, who agrees; then the
denial is looked up in the backend by its attribute, and from there in the ledger. With none, only what Prometheus would
get from `/metrics` is stored, as FOLDER/metrics.txt; with `--stay`, a backend stays until Enter is pressed, for you to
look at its pages. Exits with 1 if a denial is not found. `counterfoil` and `npx` must be on the PATH.
"""

import os
import re
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import anyio
from backends import BACKENDS, Backend, found, up
from mcp import Client

HERE = Path(__file__).resolve().parent


@contextmanager
def gateway(env: Mapping[str, str]) -> Iterator[str]:
    """The address of a gateway; with the block it ends, and what it had to tell is sent."""
    command = ["counterfoil", "serve", "--config", str(HERE / "gateway.yaml")]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as it:
        try:
            url, heard = "", ""
            while it.stderr is not None and not url and (line := it.stderr.readline()):
                heard += line
                url = "".join(re.findall(r"listening at (http://\S+)/mcp", line))
            if not url:
                sys.exit(heard)
            yield url
        finally:
            it.terminate()
            _, rest = it.communicate(timeout=20)
            print("".join(f"gateway    {line}\n" for line in rest.splitlines() if "otel" in line), end="")


async def work(url: str, ledger: str) -> None:
    """One call for each thing that may become of one."""
    with anyio.fail_after(120):  # the first `npx` fetches the server
        async with Client(f"{url}/mcp") as agent:
            for _ in range(200):
                if any(tool.name == "fs__read_text_file" for tool in (await agent.list_tools()).tools):
                    break
                await anyio.sleep(0.5)
            else:
                sys.exit(
                    "the file server did not come up; does `npx -y @modelcontextprotocol/server-filesystem .` run?"
                )
            await ask(agent, "fs__read_text_file", {"path": "milk.txt"})
            await ask(agent, "fs__write_file", {"path": "idea.txt", "content": "Buy hazelnuts too.\n"})
            await ask(agent, "fs__read_text_file", {"path": ".env"})
            move = {"source": "milk.txt", "destination": "done.txt"}
            held = await ask(agent, "fs__move_file", move)
            approval = held["approval"]["id"]
            print(f"person     counterfoil approvals approve --yes {approval}", flush=True)
            await anyio.run_process(["counterfoil", "approvals", "approve", "--yes", approval, "--ledger", ledger])
            await ask(agent, "fs__move_file", move)


async def ask(agent: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The structured answer to one call, printed in short."""
    result = await agent.call_tool(tool, arguments)
    answer = result.structured_content or {}
    said = answer["outcome"] if result.is_error else "ok"
    print(f"agent      {tool} {next(iter(arguments.values()))}: {said}", flush=True)
    return answer


def observed(folder: Path, told_to: Mapping[str, str]) -> str:
    """The ledger of a gateway through which the agent has worked."""
    notes = Path(tempfile.mkdtemp(prefix="notes-", dir=folder))
    (notes / "milk.txt").write_text("Remember the milk.\n")
    (notes / ".env").write_text("TOKEN=hunter2\n")
    ledger = f"sqlite:///{notes}.ledger.db"
    settings = {"COUNTERFOIL_LEDGER": ledger, "RUN_TOKEN_KEY": secrets.token_hex(32), "NOTES": str(notes)}
    with gateway({**os.environ, **settings, **told_to}) as url:
        anyio.run(work, url, ledger)
        with urlopen(f"{url}/metrics", timeout=10) as figures:
            (folder / "metrics.txt").write_bytes(figures.read())
    return ledger


def look_up(backend: Backend, ledger: str) -> None:
    """The denial is found in the backend, and from there in the ledger."""
    print(f"{backend.name:<10} {backend.query('deny')}", flush=True)
    span = found(backend, "deny")
    rule, decision = (span.attributes[f"counterfoil.{key}"] for key in ("policy.rule.id", "decision.id"))
    run, _, step = decision.partition("#")
    print(f"{backend.name:<10} {span.name}: refused by {rule}, decision {decision}", flush=True)
    shown = ["counterfoil", "show", run, "--step", step, "--ledger", ledger]
    record = subprocess.run(shown, check=True, capture_output=True, text=True).stdout
    kind, reason = (re.search(rf'"{key}": "(.*?)"', record) for key in ("kind", "reason"))
    if kind is None or reason is None or kind[1] != "proposal.denied":
        sys.exit(f"the ledger says something else of {decision}: {record}")
    print(f"ledger     {' '.join(shown[:5])}: {kind[1]}, {reason[1]}", flush=True)


def main() -> None:
    """Each denial is found, or the exit is not 0."""
    kinds = {kind.name: kind for kind in BACKENDS}
    match sys.argv[1:]:
        case [name, *words] if set(words) <= {"--stay", *kinds}:
            folder = Path(name).resolve()
        case _:
            sys.exit("usage: run.py FOLDER [--stay] [phoenix] [mlflow]")
    folder.mkdir(exist_ok=True)
    wanted = [kinds[word] for word in words if word in kinds]
    if not wanted:
        observed(folder, {})
    for kind in wanted:
        with up(kind, folder) as backend:
            look_up(backend, observed(folder, backend.env()))
            if "--stay" in words:
                input(f"{backend.name:<10} {backend.page}: press Enter to end it ")
    print(f"figures    {folder / 'metrics.txt'}")


if __name__ == "__main__":
    main()
