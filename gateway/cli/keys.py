"""`counterfoil keys`: what agents show that come over and over again."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from gateway.cli.durations import duration
from gateway.cli.ledgers import fail
from gateway.model.canonical import dump
from gateway.outbound.agent_keys import ID_PATTERN, KeyEntry, load_keys, new_key
from gateway.outbound.yaml_files import Problems

app = typer.Typer(no_args_is_help=True, help="Keys of agents, of which gateway.yaml names the file.")


@app.callback()
def _group() -> None: ...


@app.command()
def new(
    principal: Annotated[str, typer.Option(help="Who acts with it.")],
    tenant: Annotated[str, typer.Option(help="Their tenant.")] = "local",
    role: Annotated[list[str] | None, typer.Option(help="A role that they have; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="A scope of the key; may be repeated.")] = None,
    lives: Annotated[
        float, typer.Option("--for", metavar="TIME", parser=duration, help="How long it is good for: 90d, 12h, 45m.")
    ] = "90d",  # type: ignore[assignment] # typer parses the default as it parses what is typed
    id_: Annotated[
        str | None,
        typer.Option("--id", metavar="NAME", help="What the key is called; by default the principal and today."),
    ] = None,
) -> None:
    """Print a new key, once, and the line that lets it in, for the file of keys.

    The key goes to standard output, the line to standard error. Two keys of one principal are good at the same time, so
    a key is rotated by adding the new one, giving it to the agent, and taking the old one out.
    """
    now = time.time()
    name = id_ or _named(principal, now)
    if not re.fullmatch(ID_PATTERN, name):
        fail(f"`{name}` is no name of a key: small letters, digits and `-` are wanted; say one with `--id`", 2)
    if principal == "anonymous":
        fail("whoever shows a key is not `anonymous`", 2)
    try:
        made = new_key(
            principal=principal,
            tenant=tenant,
            roles=tuple(role or ()),
            scopes=tuple(scope or ()),
            id_=name,
            expires=now + lives,
        )
    except ValidationError:
        fail("names of one to 256 characters are wanted", 2)
    typer.echo("the key is printed once and kept nowhere; this line lets it in, under `keys:` in the file:", err=True)
    typer.echo(f"  - {_line(made.entry)}", err=True)
    typer.echo(made.text)


@app.command("list")
def list_(file: Annotated[Path, typer.Argument(metavar="FILE", help="The file of keys.")]) -> None:
    """Show the keys in a file: whose they are, and until when."""
    try:
        keys = load_keys(file)
    except Problems as error:
        fail(str(error), 2)
    now = datetime.now(UTC)
    for one in keys.values():
        until = f"{'expired' if one.expires <= now else 'until'} {one.expires.isoformat(timespec='seconds')}"
        may = ", ".join([*(f"role {role}" for role in one.roles), *(f"scope {scope}" for scope in one.scopes)])
        typer.echo(f"{one.id}  {one.tenant}/{one.principal}  {until}{f'  {may}' if may else ''}")


def _named(principal: str, now: float) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", principal.lower()).strip("-")[:40].strip("-")
    return f"{words or 'key'}-{datetime.fromtimestamp(now, UTC):%Y%m%d}"


def _line(entry: KeyEntry) -> str:
    """The entry as one line of YAML."""
    said = entry.model_dump(mode="json", exclude_defaults=True)
    return "{" + ", ".join(f"{key}: {dump(value)}" for key, value in said.items()) + "}"
