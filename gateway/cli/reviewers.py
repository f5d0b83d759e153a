"""`counterfoil reviewer token`: mints what a reviewer's programs show to the API and to the operator's MCP server."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from gateway.cli.ledgers import fail

app = typer.Typer(no_args_is_help=True, help="Reviewers, and what their programs show.")

_UNITS = {"m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 366 * 86_400
_PROGRAM: Literal["reviewer"] = "reviewer"
_ASSISTANT: Literal["assistant"] = "assistant"


@app.callback()
def _group() -> None: ...


@app.command()
def token(
    name: Annotated[str, typer.Option("--id", metavar="NAME", help="The reviewer.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The gateway's own file.")
    ] = None,
    tenant: Annotated[str, typer.Option(help="Their tenant, and all that they see.")] = "local",
    role: Annotated[list[str] | None, typer.Option(help="A role that they have; may be repeated.")] = None,
    everywhere: Annotated[bool, typer.Option("--everywhere", help="They see all tenants.")] = False,
    for_assistant: Annotated[
        bool,
        typer.Option("--for-assistant", help="For their assistant: good for `/console/mcp` alone, which asks them."),
    ] = False,
    unattended: Annotated[
        bool,
        typer.Option("--unattended", help="With --for-assistant: decisions are taken without asking anybody."),
    ] = False,
    lives: Annotated[
        str, typer.Option("--for", metavar="TIME", help="How long it is good for: 30d, 12h, 45m.")
    ] = "30d",
) -> None:
    """Print a token for a reviewer's programs: `Authorization: Bearer …` at `/console`.

    Whoever holds it decides as that reviewer, and nobody is asked: never give it to an agent, or to an assistant.
    """
    if unattended and not for_assistant:
        fail("`--unattended` is about `--for-assistant`: any other token decides without asking anybody", code=2)
    from gateway.inbound.console import Keys, mint  # noqa: PLC0415
    from gateway.model.review import Reviewer  # noqa: PLC0415
    from gateway.reviewing import run_key_of  # noqa: PLC0415 - brings `mcp`, which costs a second

    lives_s = _seconds(lives)
    try:
        keys = Keys.of(run_key_of(config))
    except (OSError, ValueError) as error:
        fail(str(error), code=2)
    by = Reviewer(tenant=tenant, id=name, roles=frozenset(role or ()), via="token", everywhere=everywhere)
    key, use = (keys.assistants, _ASSISTANT) if for_assistant else (keys.tokens, _PROGRAM)
    text, made = mint(key, use, by, now=time.time(), lives_s=lives_s, unattended=unattended)
    until = datetime.fromtimestamp(made.expires_at, UTC).isoformat(timespec="seconds")
    typer.echo(f"for {by.id} until {until}; `console: {{revoked: [{made.id}]}}` in gateway.yaml revokes it", err=True)
    typer.echo(text)


def _seconds(told: str) -> float:
    found = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", told)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        fail(f"`{told}` is no time up to 366d; for example `30d`, `12h` or `45m`", code=2)
    return seconds
