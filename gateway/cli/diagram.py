"""`counterfoil diagram`: the workflow of a policy as a picture."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import fail
from gateway.cli.mermaid import as_mermaid
from gateway.cli.plain import counted
from gateway.inbound.told.drawing import as_svg, drawing
from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.runtime.policies import condition_trouble


class Picture(StrEnum):
    """How it is drawn."""

    mermaid = "mermaid"
    svg = "svg"


def diagram(
    path: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy's file.")],
    picture: Annotated[Picture, typer.Option("--format", help="Mermaid text for a page, or an SVG.")] = Picture.mermaid,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Where to write it, instead of printing it.")] = None,
) -> None:
    """Draw a policy's workflow: its phases, what leads from one to another, and what is legal where."""
    try:
        policy = load_policy(path, condition_trouble)
    except PolicyProblems as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        fail(f"{counted(len(error.problems), 'mistake')}; nothing was drawn", code=2)
    drawn = as_svg(drawing(policy)) if picture is Picture.svg else as_mermaid(drawing(policy)) + "\n"
    if out is None:
        typer.echo(drawn, nl=False)
        return
    try:
        out.write_text(drawn, encoding="utf-8")
    except OSError as error:
        fail(f"`{out}` cannot be written: {(error.strerror or 'the system refuses').lower()}")
