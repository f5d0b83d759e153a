"""`counterfoil snippet`: what to paste into a client's configuration so that it reaches the gateway."""

import os
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from gateway.cli.init import NAMES, started_by
from gateway.cli.ledgers import fail
from gateway.outbound.clients.pointing import passed_on, reached, snippet, started
from gateway.outbound.clients.sheet import Unusable
from gateway.outbound.clients.table import client_named, this_machine
from gateway.outbound.clients.variables import variables_in
from gateway.outbound.yaml_files import Problems, read
from gateway.settings import DEFAULT_PORT


def snippet_(
    client: Annotated[str, typer.Argument(metavar="CLIENT", help=f"One of {NAMES}.")],
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Of a gateway that `counterfoil serve` runs.", show_default=False)
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The client starts a gateway of this file.")
    ] = None,
) -> None:
    """Print what to paste into a client's file; where it goes is said on standard error."""
    if url is not None and config is not None:
        fail("`--url` and `--config` exclude each other", code=2)
    if url is not None and not url.startswith(("http://", "https://")):
        fail(f"`{url[:64]}` is no address; it begins with `http://` or `https://`", code=2)
    if url is not None and urlsplit(url).path in ("", "/"):
        fail(f"`{url[:64]}` has no path; `counterfoil serve` is reached at `/mcp`", code=2)
    try:
        told = client_named(client)
        if url is None and told.address is None:
            config = config or Path("gateway.yaml")
        if config is None:
            entry = reached(told, url or f"http://127.0.0.1:{DEFAULT_PORT}/mcp")
        else:
            given = passed_on(told, variables_in(read(config).value), {})
            entry = started(told, started_by(config.absolute()), given)
        files = [path for path, _ in this_machine(os.environ, Path.cwd()).spots(told)]
    except (Unusable, Problems) as error:
        fail(str(error), code=2)
    found = snippet(told, entry, " or ".join(str(path) for path in files))
    for line in found.notes:
        typer.echo(f"counterfoil: {line}", err=True)
    typer.echo(found.text)
