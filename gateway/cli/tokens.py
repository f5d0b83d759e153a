"""`counterfoil run open`: mints the signed token with which one agent works in one run."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import FileOption, LedgerOption, Where, config_option, fail, with_ledger
from gateway.model.principal import Parent, Principal
from gateway.outbound.clock import SystemClock
from gateway.outbound.ids import id_maker
from gateway.outbound.system_account import system_account
from gateway.settings import load_settings

MAX_HOURS = 720
_TO_OPEN = [("ledger",), ("policies",), ("workflow",), ("places",)]
"""What is used of the configuration, beside the key: so no secret of a server is needed."""
RUN = re.compile(r"run_[0-9a-zA-Z_-]{1,64}")

app = typer.Typer(no_args_is_help=True, help="Runs and who may work in them.")


@app.callback()
def _group() -> None: ...


@app.command("open")
def open_(
    workflow: Annotated[str, typer.Option("--workflow", "-w", help="The policy that the run begins under.")],
    config: Annotated[Path | None, typer.Option("--config", "-c", help="The gateway's own file, for its key.")] = None,
    principal: Annotated[str | None, typer.Option(help="Who acts; by default you.")] = None,
    tenant: Annotated[str, typer.Option(help="Their tenant.")] = "local",
    role: Annotated[list[str] | None, typer.Option(help="Roles that the principal has; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help="Scopes of the token; may be repeated.")] = None,
    parent: Annotated[str | None, typer.Option(help="The run that this one is opened from: it may do no more.")] = None,
    authority: Annotated[
        list[str] | None, typer.Option(help="What the parent passes on, at most; by default all it has. Repeatable.")
    ] = None,
    hours: Annotated[float, typer.Option(min=0.01, max=MAX_HOURS, help="How long the token is good for.")] = 24.0,
) -> None:
    """Print a token for a new run. Give it to the agent as the header `Counterfoil-Run`, or in the path."""
    from gateway.inbound.mcp.tokens import mint  # noqa: PLC0415
    from gateway.plan import plan_of  # noqa: PLC0415 - brings `mcp`, which costs a second
    from gateway.reviewing import run_key_of  # noqa: PLC0415

    try:
        key = run_key_of(config)
        plan = plan_of(load_settings(config, only=_TO_OPEN)) if config is not None else None
    except (OSError, ValueError) as error:
        fail(str(error))
    if plan is not None and workflow not in plan.policies:
        listed = ", ".join(f"`{name}`" for name in plan.policies)
        fail(f"no policy is for the workflow `{workflow}`; there are {listed}", code=2)
    if principal == "anonymous" or "" in {principal, tenant}:
        fail("whoever shows a token has a name and a tenant, and is not `anonymous`", code=2)
    run, now = id_maker(SystemClock().now)("run"), time.time()
    if authority and parent is None:
        fail("`--authority` says what a parent run passes on; name the run with `--parent`", code=2)
    if parent is not None:
        found = with_ledger(Where(config=config), lambda ledger: ledger.read(parent), reads_payloads=False)
        if not found:
            fail(f"no run `{parent}` is in the ledger; a run is there from its first call on", code=2)
    passed_on = Parent(parent, frozenset(authority) if authority else None) if parent is not None else None
    who = Principal(
        principal or f"local:{system_account()}", tenant, roles=frozenset(role or ()), scopes=frozenset(scope or ())
    )
    expires_at = now + hours * 3600
    token = mint(key, run=run, principal=who, workflow=workflow, expires_at=expires_at, now=now, parent=passed_on)
    until = datetime.fromtimestamp(expires_at, UTC).isoformat(timespec="seconds")
    typer.echo(f"run {run} for {who.id} under `{workflow}`, until {until}", err=True)
    typer.echo(f"`counterfoil run revoke {run}{config_option(config)}` revokes it", err=True)
    typer.echo(token)


@app.command()
def revoke(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run whose token lets nobody in any more.")],
    ledger: LedgerOption = None,
    config: FileOption = None,
) -> None:
    """Have every gateway of this ledger refuse the token of a run, and those of all runs that descend from it.

    It is in force within two seconds, for good, and needs no gateway that runs. What is under way ends by itself.
    """
    from gateway.inbound.mcp.revoked import name_of  # noqa: PLC0415 - brings `mcp`, which costs a second

    if not RUN.fullmatch(run):
        fail(f"`{run[:64]}` is no run: `counterfoil run open` says which one its token is for", code=2)
    # No token that was made by now is good for longer.
    until = time.time() + MAX_HOURS * 3600
    first = with_ledger(Where(ledger, config), lambda opened: opened.once(name_of(run), until), reads_payloads=False)
    typer.echo(f"the token of {run} is revoked" if first else f"the token of {run} was revoked before")
