"""`counterfoil check`: are these policies right, and do they decide what their authors think?"""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import console, fail
from gateway.cli.plain import counted
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import digest
from gateway.model.policy import Policy
from gateway.outbound.policy_files import PolicyProblem, PolicyProblems, load_folder, load_policy
from gateway.runtime.cases import mismatch
from gateway.runtime.policies import condition_trouble


def check(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH…", help="Policies, or folders of them.")],
) -> None:
    """Validate policies and run their cases. Ends with 0 if all is right, 1 if a case fails, 2 if a file is wrong."""
    policies: list[Policy] = []
    problems: list[PolicyProblem] = []
    for path in paths:
        try:
            found = (
                load_folder(path, condition_trouble).values()
                if path.is_dir()
                else [load_policy(path, condition_trouble)]
            )
        except PolicyProblems as error:
            problems += error.problems
        else:
            policies += found
    for problem in problems:
        typer.echo(str(problem), err=True)
    if problems:
        fail(f"{counted(len(problems), 'mistake')}; nothing was run", code=2)
    _run(policies)


def _run(policies: list[Policy]) -> None:
    failed = 0
    for policy in policies:
        workflow = policy.workflow
        rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
        wrong = [(case.name, why) for case in policy.cases if (why := mismatch(rules, case)) is not None]
        for name, why in wrong:
            typer.echo(f"{workflow}: {name}: {why}", err=True)
        failed += len(wrong)
        right = len(policy.cases) - len(wrong)
        console.print(f"{workflow}: {right} of {len(policy.cases)} cases hold", highlight=False)
    if failed:
        fail(f"{counted(failed, 'case')} failed")
