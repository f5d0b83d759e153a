"""`counterfoil notify test`: whether the channels that the configuration names bring anything to anybody."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import fail
from gateway.model.notice import Notice
from gateway.outbound.clock import SystemClock
from gateway.outbound.ids import id_maker
from gateway.outbound.notices import Channel, installed, notifier_of
from gateway.ports import NotTaken
from gateway.settings import load_settings

app = typer.Typer(no_args_is_help=True, help="Tell people that something waits for them.")


@app.callback()
def _root() -> None: ...


@app.command("test")
def try_out(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="gateway.yaml")],
    channel: Annotated[str | None, typer.Argument(metavar="CHANNEL", help="One of them; all where not said.")] = None,
) -> None:
    """Send a test message, once, and tell what came of it. No ledger is touched."""
    try:
        channels = installed(load_settings(config, only=[("notify",)]).channels)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)
    chosen = [one for one in channels if channel in {None, one.name}]
    if not chosen:
        named = ", ".join(f"`{one.name}`" for one in channels) or "none"
        fail(f"no channel is named `{channel}`; there are: {named}" if channel else "`notify` names no channel", code=2)
    came = asyncio.run(send_test(chosen))
    for one, said in zip(chosen, came, strict=True):
        typer.echo(f"{one.name}: {'delivered' if said is None else f'NOT DELIVERED: {said.reason}'}")
    if any(said is not None for said in came):
        raise typer.Exit(1)


async def send_test(channels: Sequence[Channel]) -> Sequence[NotTaken | None]:
    """What came of a test message by each."""
    clock = SystemClock()
    make_id = id_maker(clock.now)
    text = "It works: questions that wait for a person will be told of here. Nothing waits because of this message."
    told = Notice(id=make_id("test"), kind="test", title="A test message of Counterfoil", body=text)
    return await asyncio.gather(*(notifier_of(one, clock.now).send(told) for one in channels))
