"""`counterfoil check`: are these policies right, can they do what they say, and do they decide what is expected?"""

from collections.abc import Callable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Protocol

import typer
from rich.console import Console

from gateway.cli.ledgers import console
from gateway.cli.reports import Checked, Noted, Report, Spot, Tried, as_json, junit, sarif, text
from gateway.kernel.analysis import Found, findings
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import digest
from gateway.model.flaws import Place
from gateway.model.policy import Policy
from gateway.outbound.policy_files import PolicyProblem, PolicyProblems, load_placed
from gateway.runtime.cases import mismatch
from gateway.runtime.policies import condition_trouble


class Format(StrEnum):
    """How the report is spelled."""

    text = "text"
    json = "json"
    junit = "junit"
    sarif = "sarif"


_SPELLED: Mapping[Format, Callable[[Report], str]] = {Format.json: as_json, Format.junit: junit, Format.sarif: sarif}


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Policies, or folders of them.")],
    spelling: Annotated[Format, typer.Option("--format", help="For people, programs, CI or code scanning.")] = (
        Format.text
    ),
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Validate policies, find what they can never do, and run their cases.

    Ends with 0 if all is right, 1 if a case fails or an error is found, 2 if a file is wrong.
    """
    report = checked(paths, strict=strict)
    if spelling is Format.text:
        shown = Console(stderr=True) if report.problems else console  # nothing was checked: a complaint, no report
        for line in text(report):
            shown.print(line, soft_wrap=True, highlight=False, markup=False, emoji=False)
    else:
        typer.echo(_SPELLED[spelling](report))
    raise typer.Exit(report.exit_code)


def checked(paths: list[Path], *, strict: bool = False) -> Report:
    """All that is to be said of these files."""
    loaded: list[tuple[Policy, Placed]] = []
    problems: list[PolicyProblem] = []
    for path in paths:
        try:
            loaded += load_placed(path, condition_trouble)
        except PolicyProblems as error:
            problems += error.problems
    if problems:
        return Report(tuple(problems), strict=strict)
    return Report(policies=tuple(_checked(policy, placed) for policy, placed in loaded), strict=strict)


# --- where things stand ---------------------------------------------------------------------------------------------


class Placed(Protocol):
    """Whoever knows where the parts of a policy stand in its files."""

    def problem(self, place: Place, message: str, *, at_key: bool = False) -> PolicyProblem:
        """The message, with file, line and column of that place or of the nearest one around it."""
        ...


def _spot(placed: Placed, place: Place, *, in_key: bool = False) -> Spot:
    found = placed.problem(place, "", at_key=in_key)
    return Spot(found.file, found.line, found.column, found.path)


# --- one policy -----------------------------------------------------------------------------------------------------

_MEANT_FOR_OTHERS = frozenset(
    {"tool-shadowed", "tool-unnamed", "grant-unneeded", "account-idle", "account-unread", "value-unused"}
)
"""What one workflow does not use of a file that others share is no mistake."""


def _checked(policy: Policy, placed: Placed) -> Checked:
    own = _spot(placed, ()).file
    noted = (_noted(found, placed) for found in findings(policy))
    kept = [one for one in noted if one.at.file == own or one.code not in _MEANT_FOR_OTHERS]
    kept.sort(key=lambda one: (one.at.file != own, one.at.file, one.at.line, one.at.column, one.code))
    rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
    cases = tuple(
        Tried(case.name, _spot(placed, ("cases", at, "name")), mismatch(rules, case))
        for at, case in enumerate(policy.cases)
    )
    return Checked(policy.workflow, own, tuple(kept), cases)


def _noted(found: Found, placed: Placed) -> Noted:
    at = _spot(placed, found.place, in_key=found.in_key)
    related = tuple(_spot(placed, place) for place in found.related)
    return Noted(found.code, found.severity, found.message, found.advice, at, related)
