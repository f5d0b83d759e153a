"""What a command that looks at servers is told to look at, by the options of `serve` or the words of `wrap`."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gateway.cli.fronts import policy_at, spec_of
from gateway.cli.ledgers import fail
from gateway.settings import load_settings

if TYPE_CHECKING:
    from gateway.model.policy import Policy
    from gateway.outbound.upstream.looking import Seen
    from gateway.outbound.upstream.spec import Spec

_AFTER_DASHES = "counterfoil.after_dashes"
_SERVERS = [("upstreams",), ("mcpServers",), ("limits",)]
_POLICIES = [("policies",), ("workflow",), ("places",)]
"""What is used of a configuration; no secret elsewhere in it is needed."""

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="The servers of this gateway.yaml.")
]
PolicyOption = Annotated[
    Path | None, typer.Option("--policy", metavar="FILE", help="Judged by this policy.", show_default=False)
]
WorkflowOption = Annotated[
    str | None, typer.Option("--workflow", "-w", metavar="NAME", help="Which of the configuration's policies.")
]


class WithServer(TyperCommand):
    """A command whose line may end in `-- URL` or `-- COMMAND…`; what stands before the dashes is its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As in click, without what stands after the dashes."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[_AFTER_DASHES] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """With what may stand after the dashes."""
        return [*super().collect_usage_pieces(ctx), "[-- URL | COMMAND…]"]


@dataclass(frozen=True, slots=True)
class Servers:
    """Which servers, and how their tools are named."""

    specs: "Sequence[Spec]"
    prefix: bool


def servers(ctx: typer.Context, config: Path | None) -> Servers:
    """What the option or the words after the dashes name; ends the command where it is not one of the two."""
    from gateway.plan import specs_of  # noqa: PLC0415 - brings `mcp`, which costs a second

    target: list[str] = ctx.meta.get(_AFTER_DASHES, [])
    if bool(target) == (config is not None):
        fail("name the servers: either `--config gateway.yaml`, or `-- URL` or `-- COMMAND…` at the end", code=2)
    if config is None:
        return Servers([spec_of(target)], prefix=False)
    try:
        return Servers(specs_of(load_settings(config, only=_SERVERS)), prefix=True)
    except (OSError, ValueError) as error:
        fail(str(error), code=2)


def policy_of(config: Path | None, policy: Path | None, workflow: str | None) -> "Policy":
    """The policy that the options name, or the starter."""
    from gateway.plan import plan_of  # noqa: PLC0415 - brings `mcp`, which costs a second

    if workflow is not None and (config is None or policy is not None):
        fail("`--workflow` chooses among the policies of `--config`", code=2)
    if config is None or policy is not None:
        return policy_at(policy)[0]
    try:
        settings = load_settings(config, only=_POLICIES)
        plan = plan_of(replace(settings, workflow=workflow or settings.workflow))
    except (OSError, ValueError) as error:
        fail(str(error), code=2)
    return plan.policies[plan.default]


def look(told: Servers, known: Iterable[str] = ()) -> "Seen":
    """What the servers offer now."""
    from gateway.outbound.upstream.looking import seen  # noqa: PLC0415 - loaded by now

    log = logging.getLogger("counterfoil.upstream")
    level = log.level
    log.setLevel(logging.ERROR)  # their troubles are told by the command itself, each beside its server
    try:
        return asyncio.run(seen(told.specs, prefix=told.prefix, known=known))
    except ValueError as error:
        fail(str(error), code=2)
    finally:
        log.setLevel(level)
