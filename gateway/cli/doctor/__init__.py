"""`counterfoil doctor`: the installation looked over while it lives, and a call that must be denied."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from gateway.cli.doctor.findings import Finding, wrong
from gateway.cli.ledgers import console, fail
from gateway.cli.plain import visible

STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


def doctor(
    config: Annotated[Path | None, typer.Option("--config", "-c", metavar="FILE", help="gateway.yaml")] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="A gateway that runs: http://127.0.0.1:8321")
    ] = None,
    notify: Annotated[bool, typer.Option("--notify", help="Send a test message by each channel.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Plain JSON.")] = False,
) -> None:
    """Check the installation live, with a call that must be denied. Ends with 1 if anything is wrong, else with 0.

    It starts or asks the servers, stores a few records in the ledger (runs of its own) and sends no message without
    `--notify`. Run it as the account that the gateway runs as.
    """
    if config is None and url is None:
        fail("say which installation: `--config gateway.yaml`, `--url` of a gateway that runs, or both", code=2)
    found = asyncio.run(_all(config, url, notify=notify, told=None if as_json else _print))
    if as_json:
        typer.echo(json.dumps([asdict(one) for one in found]))
    count = {state: sum(one.state == state for one in found) for state in STYLES}
    if not as_json:
        console.print(f"{count['ok']} ok, {count['warning']} to know of, {count['wrong']} wrong")
    raise typer.Exit(1 if count["wrong"] else 0)


def _print(one: Finding) -> None:
    line = Text(f"{one.state:<8}", style=STYLES[one.state])
    line.append(f"{one.about}: ", style="bold")
    line.append(visible(one.says))
    console.print(line, soft_wrap=True)
    if one.do:
        console.print(Text(f"{'':<8}{visible(one.do)}"), soft_wrap=True)


async def _all(
    config: Path | None, url: str | None, *, notify: bool, told: Callable[[Finding], None] | None
) -> list[Finding]:
    found: list[Finding] = []
    async for one in _findings(config, url, notify=notify):
        found.append(one)
        if told is not None:
            told(one)
    return found


async def _findings(config: Path | None, url: str | None, *, notify: bool) -> AsyncIterator[Finding]:
    from gateway.cli.doctor import live, machine  # noqa: PLC0415 - bring much that other commands need not wait for
    from gateway.cli.doctor.remote import Remote  # noqa: PLC0415

    for one in machine.python_and_packages():
        yield one
    plan = None
    if config is not None:
        try:
            settings, plan = live.read(config)
        except (OSError, ValueError) as error:
            for line in str(error).splitlines():
                yield wrong("configuration", line, "a gateway would not start")
            return
        async for one in live.configured(config, settings, plan, notify=notify):
            yield one
    if url is not None:
        key = None if config is None else live.key_of(config)
        remote = Remote(url, key, None if plan is None else plan.default)
        for one in await asyncio.to_thread(lambda: list(remote.looked())):
            yield one
        if plan is not None and remote.denied:
            yield await live.recorded(plan, remote.run)
