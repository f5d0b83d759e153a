"""All subcommands, under one name each."""

from importlib.metadata import version
from typing import Annotated

import typer

from gateway.cli import approvals, keys, notify, reviewers, tokens
from gateway.cli.check import check
from gateway.cli.console import console
from gateway.cli.cost import cost
from gateway.cli.demo import demo
from gateway.cli.diagram import diagram
from gateway.cli.doctor import doctor
from gateway.cli.explain import explain
from gateway.cli.export import export
from gateway.cli.fronts import serve, wrap
from gateway.cli.init import init
from gateway.cli.keygen import keygen
from gateway.cli.looking import WithServer
from gateway.cli.packets import packet
from gateway.cli.pin import pin
from gateway.cli.postmortem import postmortem
from gateway.cli.purge import purge
from gateway.cli.reconcile import reconcile
from gateway.cli.registry import registry
from gateway.cli.resolve import resolve
from gateway.cli.reviews import reviews
from gateway.cli.runs import runs, show
from gateway.cli.schema import schema
from gateway.cli.snippet import snippet_
from gateway.cli.stops import stop, stops
from gateway.cli.verify import verify

app = typer.Typer(
    name="counterfoil",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="The gateway that makes AI agents safe to run on real tools.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"counterfoil {version('counterfoil')}")
        raise typer.Exit


@app.callback()
def _root(
    _: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it and end.")] = False,
) -> None: ...


app.command(context_settings={"ignore_unknown_options": True})(wrap)
app.command()(serve)
app.command()(init)
app.command("snippet")(snippet_)
app.command()(demo)
app.command()(check)
app.command()(diagram)
app.command(cls=WithServer)(registry)
app.command(cls=WithServer)(pin)
app.command()(explain)
app.command()(runs)
app.command()(show)
app.command()(cost)
app.command()(postmortem)
app.command()(packet)
app.command()(reconcile)
app.command()(resolve)
app.command()(reviews)
app.command()(doctor)
app.command()(stop)
app.command()(stops)
app.command()(verify)
app.command()(export)
app.command()(purge)
app.command()(keygen)
app.command()(schema)
app.command()(console)
app.add_typer(approvals.app, name="approvals")
app.add_typer(notify.app, name="notify")
app.add_typer(reviewers.app, name="reviewer")
app.add_typer(tokens.app, name="run")
app.add_typer(keys.app, name="keys")
