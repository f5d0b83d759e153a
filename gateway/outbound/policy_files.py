"""policies/*.yaml -> policies, or every problem of every file, each with its place.

What an expression means is not known here: whoever loads says how one is compiled (`CheckCondition`).
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

from gateway.model.flaws import EXPRESSIONS, Flaw, UnknownName, flaws, texts
from gateway.model.policy import MAX_EXPRESSION, NAME_PATTERN, Policy
from gateway.outbound.file_models import did_you_mean, read_as
from gateway.outbound.yaml_files import Document, Problem, Problems, compose, read

PolicyProblem: TypeAlias = Problem
CheckCondition: TypeAlias = Callable[[str, str], tuple[str, int, int] | None]
"""(expression, kind) -> what is wrong with it: message, line and column from 1; None if nothing is."""

STARTER = "starter.yaml"
"""The policy of `counterfoil wrap` without configuration; its one copy is in the package."""

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PATTERNS = {NAME_PATTERN: "a name (a letter, then letters, digits, `_`, `.` and `-`, at most 64 in all)"}


class PolicyProblems(Problems):
    """Policies that cannot be used. `problems` has each; the text is one line for each."""


def load_policy(path: Path, check_condition: CheckCondition) -> Policy:
    """The policy of one file.

    Raises: PolicyProblems, with all that is wrong with the file.
    """
    return _usable(lambda: read(path), check_condition)


def load_folder(path: Path, check_condition: CheckCondition) -> dict[str, Policy]:
    """The policies of all `*.yaml` files in a folder, by workflow.

    Raises: PolicyProblems, with all that is wrong with any of them, with two of one workflow, or with none at all.
    """
    found: dict[str, tuple[Path, Policy]] = {}
    problems: list[Problem] = []
    for file in _listed(path):
        try:
            policy = load_policy(file, check_condition)
        except PolicyProblems as error:
            problems += error.problems
            continue
        if policy.workflow in found:
            first = found[policy.workflow][0]
            problems.append(
                Problem(str(file), 1, 1, "workflow", f"`{policy.workflow}` is the workflow of `{first}` too")
            )
        else:
            found[policy.workflow] = (file, policy)
    if problems:
        raise PolicyProblems(problems)
    return {workflow: policy for workflow, (_, policy) in found.items()}


def starter_policy(check_condition: CheckCondition) -> Policy:
    """The policy that is used where nobody configured one.

    Raises: PolicyProblems, if the package is damaged.
    """
    text = files("gateway").joinpath(STARTER).read_text(encoding="utf-8")
    return _usable(lambda: compose(text, STARTER), check_condition)


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, for editors."""
    return {"$schema": SCHEMA_DIALECT, **Policy.model_json_schema(by_alias=True), "title": "Counterfoil policy"}


def _listed(folder: Path) -> list[Path]:
    try:
        listed = sorted(file for file in folder.iterdir() if not file.name.startswith("."))
    except OSError as error:
        reason = (error.strerror or "the system refuses").lower()
        raise PolicyProblems([Problem(str(folder), 1, 1, "", f"cannot be read: {reason}")]) from None
    unread = [
        Problem(str(file), 1, 1, "", "a policy's name ends in `.yaml`") for file in listed if file.suffix == ".yml"
    ]
    found = [file for file in listed if file.suffix == ".yaml"]
    if unread or not found:
        raise PolicyProblems(unread or [Problem(str(folder), 1, 1, "", "holds no policy (`*.yaml`)")])
    return found


def _usable(document: Callable[[], Document], check_condition: CheckCondition) -> Policy:
    try:
        policy, problems = judged(document(), check_condition)
    except Problems as error:
        raise PolicyProblems(list(error.problems)) from None
    if policy is None or problems:
        raise PolicyProblems(problems)
    return policy


def judged(document: Document, check_condition: CheckCondition) -> tuple[Policy | None, list[Problem]]:
    """The policy, and all that is wrong with it: its YAML, its keys and values, its names, its expressions."""
    policy, problems = read_as(document, Policy, _PATTERNS)
    problems += document.problems
    if isinstance(document.value, Mapping):
        problems += [_flaw(document, flaw) for flaw in flaws(document.value)]
        problems += _bad_conditions(document, check_condition)
    return policy, problems


def _flaw(document: Document, flaw: Flaw) -> Problem:
    message = flaw.message
    if isinstance(flaw, UnknownName):
        listed = ", ".join(f"`{name}`" for name in dict.fromkeys(flaw.known))
        others = f"; there are {listed}" if flaw.known else "; none is defined"
        message += did_you_mean(flaw.name, flaw.known) or others
    return document.problem(flaw.place, message, at_key=flaw.in_key)


def _bad_conditions(document: Document, check_condition: CheckCondition) -> Iterator[Problem]:
    for pattern, kind in EXPRESSIONS.items():
        for place, expression in texts(document.value, pattern):
            # Empty and endless ones are told by the model already.
            wrong = check_condition(expression, kind) if 0 < len(expression) <= MAX_EXPRESSION else None
            if wrong is not None:
                yield document.problem(place, wrong[0], within=(wrong[1], wrong[2]))
