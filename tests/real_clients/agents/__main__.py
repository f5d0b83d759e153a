"""Drive the real Claude Code, Codex and Gemini CLI through the gateway, and print what each told its model.

    python -m tests.real_clients.agents [--only NAME]… [--front http|stdio] [--direct | --diff]
                                        [--long SECONDS] [--record FOLDER]

No key, no account, no model: the endpoint is tests/real_clients/agents/models.py. The three come from npm into
`.real-clients/`, 900 MB, once. The server is tests/servers/clients_server.py, the policy is policy.yaml beside this
file, which denies `wipe`. `--long 70` adds a call that takes longer than a minute, and the same once more, as the
gateway asks of who is told that it is under way; `--direct` leaves the gateway out; `--diff` does both and says which
results differ; `--record` writes what each sent into FOLDER. It ends with 1 if an agent did not follow the script to
its end.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from tests.real_clients.agents.homes import AGENTS, PACKAGES, Agent, Target
from tests.real_clients.agents.models import Call, Model, serving
from tests.real_clients.agents.record import Request, impersonal, proxy
from tests.real_clients.drive import gateway, ours, wrapped
from tests.real_clients.table import OURS_ON_STDIO

POLICY = Path(__file__).with_name("policy.yaml")
SCRIPT: list[Call] = [
    ("echo", {"text": "grüß Gott 🌍"}),
    ("add", {"a": 1.5, "b": 2}),
    ("fail", {"reason": "it is closed"}),
    ("rpc_error", {}),
    ("ask", {}),
    ("wipe", {}),
]
LIMIT_S = 120
"""For an agent, beside what the long call takes."""


def main() -> int:
    """0 if each agent followed the script to its end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=[agent.name for agent in AGENTS])
    parser.add_argument("--front", choices=["http", "stdio"], default="http")
    parser.add_argument("--direct", action="store_true")
    parser.add_argument("--diff", action="store_true")
    parser.add_argument("--long", type=float, default=0, metavar="SECONDS")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    chosen = parser.parse_args()
    long: Call = ("long", {"seconds": chosen.long, "steps": 10})
    script = [*SCRIPT, *([long, long] if chosen.long else [])]
    agents = [agent for agent in AGENTS if not chosen.only or agent.name in chosen.only]
    followed = [asyncio.run(_drive(agent, script, chosen)) for agent in agents]
    return 0 if all(followed) else 1


async def _drive(agent: Agent, script: Sequence[Call], chosen: argparse.Namespace) -> bool:
    """Whether it came to the end of the script, each way."""
    ways = [True, False] if chosen.diff else [chosen.direct]
    models = [await _once(agent, script, chosen, direct=direct) for direct in ways]
    if chosen.diff and all(models):
        rows = zip(script, *(model.told for model in models if model), strict=True)
        for (tool, _), direct, through in rows:
            sys.stdout.write(f"{agent.name} {tool}: {'same' if direct == through else 'differs'}\n")
        sys.stdout.flush()
    return all(models)


async def _once(agent: Agent, script: Sequence[Call], chosen: argparse.Namespace, *, direct: bool) -> Model | None:
    """What the model was told, if the script was followed to its end."""
    model = Model(script)
    with tempfile.TemporaryDirectory(prefix="agent-") as folder:
        place = Path(folder)
        async with serving(model) as address, _target(chosen.front, place, direct=direct) as (target, seen):
            code, said = await _run(agent, place, address, target, LIMIT_S + 2 * chosen.long)
        requests = seen or _lines(place / "lines")
    followed = len(model.told) == len(script) and code == 0
    _tell(agent, model, requests, f"ended with {code}: {said[-2000:]}" if not followed else "")
    if chosen.record and followed:
        _write(chosen.record / f"{agent.name}-{chosen.front}.json", agent, chosen.front, requests)
    return model if followed else None


async def _run(agent: Agent, place: Path, address: str, target: Target, limit_s: float) -> tuple[int | None, str]:
    home, work = place / "home", place / "work"
    home.mkdir()
    work.mkdir()
    command, env = agent.start(home, address, target)
    process = await asyncio.create_subprocess_exec(
        *command,
        env=env,
        cwd=work,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        out, _ = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError:
        process.kill()
        out, _ = await process.communicate()
    return process.returncode, out.decode(errors="replace")


@contextlib.asynccontextmanager
async def _target(front: str, place: Path, *, direct: bool) -> AsyncIterator[tuple[Target, list[Request]]]:
    """What the agent is told to use, and the list in which its requests over HTTP gather."""
    policy = ("--policy", str(POLICY))
    seen: list[Request] = []
    if front == "stdio":
        command = OURS_ON_STDIO if direct else wrapped(OURS_ON_STDIO, place, *policy)
        recorder = [sys.executable, str(Path(__file__).with_name("record.py")), str(place / "lines"), "--"]
        yield {"command": [*recorder, *_anywhere(command)]}, seen
        return
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(ours())
        if not direct:
            url = stack.enter_context(gateway([url], place, *policy))
        async with proxy(url, seen) as recorded:
            yield {"url": recorded}, seen


def _anywhere(command: Sequence[str]) -> list[str]:
    """The command so that it runs in any folder: an agent starts its servers in its own."""
    root = str(Path(__file__).parents[3])
    return ["/usr/bin/env", "-C", root, *command]


def _lines(file: Path) -> list[Request]:
    text = file.read_text() if file.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def _tell(agent: Agent, model: Model, requests: Sequence[Request], trouble: str) -> None:
    told = [{"call": call[0], "told": told} for call, told in zip(model.script, model.told, strict=False)]
    whole: dict[str, Any] = {
        "agent": f"{agent.package} {PACKAGES[agent.package]}",
        "offered": model.offered,
        "told": told,
        "sent": [_named(request) for request in requests],
    }
    if trouble:
        whole |= {"trouble": trouble, "asked of the model": model.asked}
    sys.stdout.write(json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _named(request: Request) -> str:
    body = request.get("body", request)
    return str(body.get("method") or ("(an answer)" if "id" in body else request["method"]))


def _write(file: Path, agent: Agent, front: str, requests: Sequence[Request]) -> None:
    whole = {"client": f"{agent.package} {PACKAGES[agent.package]}", "transport": front, "requests": requests}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(impersonal(json.dumps(whole, indent=1, ensure_ascii=False)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
