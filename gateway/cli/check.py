"""`counterfoil check`: are these policies right, and do they decide what their authors think?"""

from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.ledgers import console, fail
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import digest
from gateway.outbound.policy_files import PolicyProblems, load_folder, load_policy
from gateway.runtime.cases import mismatch
from gateway.runtime.policies import condition_trouble


def check(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="A policy, or a folder of them.")],
) -> None:
    """Validate policies and run their cases. Ends with 0 if all is right, 1 if a case fails, 2 if a file is wrong."""
    try:
        policies = (
            load_folder(path, condition_trouble)
            if path.is_dir()
            else {one.workflow: one for one in (load_policy(path, condition_trouble),)}
        )
    except PolicyProblems as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        fail(f"{len(error.problems)} mistakes; nothing was run", code=2)
    failed = 0
    for workflow, policy in policies.items():
        rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
        wrong = [(case.name, why) for case in policy.cases if (why := mismatch(rules, case)) is not None]
        for name, why in wrong:
            typer.echo(f"{workflow}: {name}: {why}", err=True)
        failed += len(wrong)
        right = len(policy.cases) - len(wrong)
        console.print(f"{workflow}: {right} of {len(policy.cases)} cases hold", highlight=False)
    if failed:
        fail(f"{failed} cases do not hold")
