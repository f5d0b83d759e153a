"""A real gateway before a real liar and a real witness, and what the command line tells of it afterwards."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio.to_thread
from typer.testing import CliRunner

from gateway.cli.commands import app
from tests.cli.agents import Process, counterfoil, ledger_of
from tests.conftest import SERVERS
from tests.lies.ground import policy
from tests.servers.lying_server import World

PUT, LOOK = "liar__put", "witness__look"


@dataclass
class Shop:
    """A folder with all that a gateway needs."""

    folder: Path
    world: World

    @property
    def config(self) -> Path:
        """Of the gateway."""
        return self.folder / "gateway.yaml"

    def reached(self) -> int:
        """How many calls came to a server."""
        log = self.folder / "world.calls"
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        return sum("tool" in line for line in lines)

    async def told(self, *words: str) -> Any:
        """What the command says of the ledger, as JSON."""
        shown = await anyio.to_thread.run_sync(
            partial(CliRunner().invoke, app, [*words, "--json", *ledger_of(self.folder)])
        )
        assert shown.exit_code == 0, shown.output
        return json.loads(shown.output)

    async def events(self, run: str = "last") -> list[dict[str, Any]]:
        """All events of the run, as `show` has them."""
        return [record["event"] for record in await self.told("show", run)]


def shop(folder: Path, policies: Mapping[str, Mapping[str, Any]], **places: Any) -> Shop:
    """The files of a gateway with these policies, by workflow; the first is the default."""
    it = Shop(folder, World(folder / "world"))
    (folder / "policies").mkdir()
    for name, text in policies.items():
        (folder / "policies" / f"{name}.yaml").write_text(json.dumps({**text, "workflow": name}))
    liar = [str(SERVERS / "lying_server.py"), str(it.world.folder)]
    config = {
        "listen": {"host": "127.0.0.1", "port": 0},
        "ledger": f"sqlite:///{folder / 'ledger.db'}",
        "policies": "policies",
        "workflow": next(iter(policies)),
        "mcpServers": {
            "liar": {"command": sys.executable, "args": liar},
            "witness": {"command": sys.executable, "args": [*liar, "--witness"]},
        },
        "places": {
            "shop": {"folder": str(it.world.folder)},
            "orders": {"database": f"sqlite:///{it.world.database}"},
            **places,
        },
    }
    it.config.write_text(json.dumps(config))
    return it


def believing(kind: str, **more: Any) -> dict[str, Any]:
    """As `policy`, by the names that tools have behind `serve`."""
    return policy(kind, PUT, LOOK, **more)


@asynccontextmanager
async def window(it: Shop) -> AsyncIterator[Process]:
    """An agent at the gateway, over stdio."""
    async with counterfoil("serve", "--stdio", "--config", str(it.config)) as process:
        yield process
