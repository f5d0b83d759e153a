"""`counterfoil demo`: the product's argument, on real processes: a git server, gateways before it, and an agent."""

import asyncio
import importlib.util
import io
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from gateway.cli.ledgers import fail
from gateway.cli.runs import show

if TYPE_CHECKING:
    from gateway.cli.demo.stage import Stage
    from gateway.cli.demo.world import World

LIMIT_S = 120.0
"""For the whole play, which takes seconds: a machine that needs longer than this has other troubles."""
PACE_S = 0.2
"""One beat, for a reader at a terminal."""


def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the repository and the ledger where they are.")] = False,
    fast: Annotated[bool, typer.Option("--fast", help="Do not wait for a reader.")] = False,
) -> None:
    """Watch an agent be denied, disbelieved, held and stopped. No account, no network, a few seconds."""
    if importlib.util.find_spec("mcp_server_git") is None:
        fail("the demo needs a real git server: pip install mcp-server-git")
    if shutil.which("git") is None:
        fail("the demo needs the `git` command, and there is none on the PATH")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8 gets question marks, and the demo goes on
    console = Console(highlight=False)
    with _place(keep=keep) as root:
        _play(console, root, 0.0 if fast or not console.is_terminal else PACE_S)
        if keep:
            console.print(f" Kept: counterfoil runs --ledger sqlite:///{root}/ledger.db\n", soft_wrap=True)


def _play(console: Console, root: Path, pace_s: float) -> None:
    from gateway.cli.demo.stage import Stage  # noqa: PLC0415 - it and the rest bring `mcp`, which costs a second
    from gateway.cli.demo.world import World  # noqa: PLC0415

    stage, world = Stage(console, pace_s), World(root)
    stage.opens(
        "Counterfoil, a demo in six acts",
        "A real git server, the real gateway in front of it, and an agent in a hurry.",
        "After each act we ask git itself what is true.",
    )
    run = _acts(stage, world)
    console.print()
    console.rule(f"counterfoil show {run}", style="dim", align="left")
    show(run, ledger=world.ledger)
    console.print(f"\n All {stage.proven} claims were checked, and hold. Now put it before a server of your own:")
    console.print(" [cyan]counterfoil wrap -- npx -y @modelcontextprotocol/server-filesystem /some/dir[/]\n")


def _acts(stage: "Stage", world: "World") -> str:
    """The run in which the six acts were played; where they could not be, one message ends the command."""
    import anyio  # noqa: PLC0415 - as above
    from mcp.shared.exceptions import MCPError  # noqa: PLC0415

    from gateway.cli.demo.stage import Broken  # noqa: PLC0415
    from gateway.cli.demo.story import play  # noqa: PLC0415

    async def bounded() -> str:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - INVARIANT: anyio.run made one
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # as Ctrl-C: all of it is ended
        with anyio.fail_after(LIMIT_S):
            return await play(stage, world)

    run = trouble = ""
    try:
        run = anyio.run(bounded)
    except* asyncio.CancelledError:
        trouble = "the demo was stopped"
    except* Broken as broken:
        trouble = f"the demo claims that {_first(broken)}, and that is not so" + _last_words(world.log)
    except* TimeoutError:
        trouble = "the demo waited too long for one of its processes" + _last_words(world.log)
    except* (MCPError, OSError, subprocess.SubprocessError) as others:
        trouble = f"one of the demo's processes failed: {_first(others)}" + _last_words(world.log)
    if trouble:
        fail(trouble)
    return run


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


def _last_words(log: Path) -> str:
    """What the processes behind the windows said at the end."""
    lines = log.read_text(errors="replace").splitlines()[-5:] if log.exists() else []
    return "".join(f"\n  {line}" for line in lines)


@contextmanager
def _place(*, keep: bool) -> Iterator[Path]:
    """A directory that is gone afterwards, however this ends, unless it is to be kept."""
    root = Path(tempfile.mkdtemp(prefix="counterfoil-demo-"))
    try:
        yield root
    finally:
        if not keep:
            shutil.rmtree(root, ignore_errors=True)
