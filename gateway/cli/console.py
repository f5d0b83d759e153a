"""`counterfoil console`: another link by which a reviewer comes in, once."""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import fail
from gateway.cli.reviewers import revoking
from gateway.model.review import NO_QUESTION, Reviewer
from gateway.settings import TO_REVIEW, load_settings


def console(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="The gateway's own file.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Where the gateway is, as browsers reach it; by default as the file says.")
    ] = None,
    reviewer: Annotated[str | None, typer.Option(metavar="NAME", help="Whom the link lets in; by default you.")] = None,
    tenant: Annotated[str, typer.Option(help="The tenant of NAME, and all that they see.")] = "local",
    role: Annotated[list[str] | None, typer.Option(help="A role that they have; may be repeated.")] = None,
    approval: Annotated[str | None, typer.Option(help="Only this question may be seen and decided.")] = None,
    connections: Annotated[
        bool, typer.Option("--connections", help="Only accounts of their own may be seen and connected.")
    ] = False,
    minutes: Annotated[float, typer.Option(min=1, max=7 * 24 * 60, help="How long the link is good for.")] = 15,
) -> None:
    """Print a link that lets one reviewer in, once. Whoever opens it first is that reviewer."""
    from gateway.inbound.console import local_reviewer  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.reviewing import links_of  # noqa: PLC0415 - the same

    if connections and approval is not None:
        fail("`--approval` and `--connections` exclude each other", code=2)
    try:
        links = links_of(config, url)
        local_roles = load_settings(config, only=TO_REVIEW).console.local_roles if config is not None else ()
    except (OSError, ValueError) as error:
        fail(str(error), code=2)
    if reviewer is None:
        by = local_reviewer((*local_roles, *(role or ())))
    else:
        by = Reviewer(tenant=tenant, id=reviewer, roles=frozenset(role or ()), via="link")
    link, name = links.made_for(by, NO_QUESTION if connections else approval, minutes * 60)
    typer.echo(f"for {by.id}, once, for {minutes:g} minutes", err=True)
    typer.echo(f"{revoking(config, name)}, and the session that comes of it", err=True)
    typer.echo(link)
