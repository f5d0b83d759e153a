"""`counterfoil reviewer`: mints what a reviewer's programs and assistants show, and revokes what reviewers have."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

import typer

from gateway.cli import consents
from gateway.cli.ledgers import FileOption, LedgerOption, Where, config_option, fail, with_ledger
from gateway.ports import Ledger

app = typer.Typer(no_args_is_help=True, help="Reviewers, and what their programs show.")

_UNITS = {"m": 60, "h": 3600, "d": 86_400}
_LONGEST_S = 366 * 86_400
_CREDENTIAL = re.compile(r"[A-Za-z0-9_-]{22}")
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
    typer.echo(f"for {by.id} until {until}; {revoking(config, made.id)}", err=True)
    typer.echo(text)


def revoking(config: Path | None, name: str) -> str:
    """By which command the token or link with that id is revoked."""
    return f"`counterfoil reviewer revoke{config_option(config)} -- {name}` revokes it"


@app.command()
def revoke(
    credential: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Of one token or link, as the command says that made it.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--id", metavar="NAME", help="Instead: all that this reviewer has, sessions as well.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="The tenant of NAME; `local` where not said.")] = None,
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """Have every gateway of this ledger let in no more who shows that token or link, or a session that came of it.

    With --id nobody of that name is let in for a year, by whichever door, and what they connected at other providers
    is disconnected, as they could not do it any more; who is to come back needs another name.
    It is in force within two seconds, cannot be taken back, and needs no gateway that runs.
    """
    if (credential is None) == (name is None):
        fail("say either the id of a token or link, or whose all are to be revoked: `--id NAME`", code=2)
    from gateway.inbound.console.revoking import of_credential, of_reviewer  # noqa: PLC0415 - brings `mcp`: a second

    if credential is not None and not _CREDENTIAL.fullmatch(credential):
        fail(f"`{credential[:64]}` is no id of a token or link: 22 letters and digits, as its maker was told", code=2)
    at_home = tenant or "local"
    said = of_reviewer(at_home, name or "") if credential is None else of_credential(credential)

    async def revoked(opened: Ledger) -> tuple[bool, int]:
        # No token that was made by now is good for longer, and no session.
        first = await opened.once(said, time.time() + _LONGEST_S)
        # In this order: whoever connects an account at this moment looks afterwards whether they are let in still.
        return first, await consents.disconnected(opened, name, at_home) if name is not None else 0

    where = Where(ledger, config)
    first, connections = with_ledger(where, revoked, reads_payloads=False)
    what = f"all of `{name}` in the tenant `{at_home}`" if credential is None else credential
    at = f"at every gateway on {where.shown}"
    typer.echo(f"{what} is revoked {at}" if first else f"{what} was revoked before {at}")
    if connections:
        typer.echo(consents.told(connections).plain)
    if name is not None and tenant is None:
        # Nobody keeps a list of reviewers, so that the wrong tenant is no mistake that could be found.
        typer.echo(f"whoever is called `{name}` in another tenant is still let in: say `--tenant`", err=True)


def _seconds(told: str) -> float:
    found = re.fullmatch(r"([1-9][0-9]{0,6})([mhd])", told)
    seconds = int(found[1]) * _UNITS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_S:
        fail(f"`{told}` is no time up to 366d; for example `30d`, `12h` or `45m`", code=2)
    return seconds
