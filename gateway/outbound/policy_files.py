"""policies/*.yaml -> policies, or every problem of every file, each with its place.

A workflow may `include` files that others share. What an expression means is not known here: whoever loads says
how one is compiled (`CheckCondition`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias

from gateway.model.flaws import EXPRESSIONS, FORMULAS, Flaw, Kind, Place, UnknownName, flaws, texts
from gateway.model.policy import (
    FILES_DIGEST_PATTERN,
    MAX_EXPRESSION,
    NAME_PATTERN,
    PARAMETER_PATTERN,
    AccountRule,
    Policy,
    Shared,
)
from gateway.outbound.file_models import did_you_mean, read_as
from gateway.outbound.included import Whole, included
from gateway.outbound.watched import Watched
from gateway.outbound.yaml_files import Document, Problem, Problems, compose

PolicyProblem: TypeAlias = Problem
Gives: TypeAlias = Literal["truth", "value"]
"""What an expression must give: a condition is true or false, a formula may be any value."""


class CheckCondition(Protocol):
    """How it is found out whether an expression is right."""

    def __call__(self, expression: str, kind: Kind, gives: Gives = "truth", /) -> tuple[str, int, int] | None:
        """What is wrong with it: message, line and column from 1; None if nothing is."""
        ...

    def misfits(self, policy: Policy) -> Iterable[tuple[Place, str, int, int]]:
        """Expressions that are right, and cannot be asked in this policy: place, message, line and column in it."""
        ...


STARTER = "starter.yaml"
"""The policy of `counterfoil wrap` without configuration; its one copy is in the package."""

SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_PER = AccountRule.model_json_schema()["properties"]["per"]["items"]["pattern"]
_PATTERNS: Mapping[str, str] = {
    NAME_PATTERN: "a name (a letter, then letters, digits, `_`, `.` and `-`, at most 64 in all)",
    FILES_DIGEST_PATTERN: "a digest of files, as `counterfoil pin --files` prints it,",
    PARAMETER_PATTERN: "a name of letters, digits and `_`",
    _PER: "`tenant`, `principal`, `tool`, `upstream`, `workflow` or an argument such as `args.to`",
}


class PolicyProblems(Problems):
    """Policies that cannot be used. `problems` has each; the text is one line for each."""


# --- what can be loaded ---------------------------------------------------------------------------------------------


class Loaded(NamedTuple):
    """A policy that can be used."""

    policy: Policy
    whole: Whole
    """Where its parts stand, in its own file and those that it includes."""


def load_policy(path: Path, check_condition: CheckCondition, watched: Watched | None = None) -> Policy:
    """The policy of one file, with what it includes.

    Raises: PolicyProblems, with all that is wrong with the file and those that it includes.
    """
    watched = watched or Watched(pipes=True)
    try:
        document = watched.read(path)
    except Problems as error:
        raise PolicyProblems(list(error.problems)) from None
    return _usable(document, watched, check_condition).policy


def load_folder(path: Path, check_condition: CheckCondition, watched: Watched | None = None) -> dict[str, Policy]:
    """The policies of all `*.yaml` files in a folder, by workflow; those that are shared are right too.

    Raises: PolicyProblems, with all that is wrong with any of them, with two of one workflow, or with none at all.
    """
    found = _folder(path, watched or Watched(pipes=True), check_condition)
    return {workflow: one.policy for workflow, one in found.items()}


def load_placed(path: Path, check_condition: CheckCondition, watched: Watched | None = None) -> list[Loaded]:
    """The policies at a path: those of a folder, that of a file, none of a shared file that is right.

    Raises: PolicyProblems, as `load_folder`.
    """
    watched = watched or Watched(pipes=True)
    if path.is_dir():
        return list(_folder(path, watched, check_condition).values())
    loaded, problems = _any(path, watched, check_condition)
    if problems:
        raise PolicyProblems(problems)
    return [] if loaded is None else [loaded]


def _folder(path: Path, watched: Watched, check_condition: CheckCondition) -> dict[str, Loaded]:
    found: dict[str, Loaded] = {}
    problems: list[Problem] = []
    for file in _listed(path, watched):
        loaded, wrong = _any(file, watched, check_condition)
        problems += wrong
        if loaded is None:
            continue
        workflow = loaded.policy.workflow
        if workflow in found:
            first = found[workflow].whole.file
            problems.append(Problem(str(file), 1, 1, "workflow", f"`{workflow}` is the workflow of `{first}` too"))
        else:
            found[workflow] = loaded
    if not found and not problems:
        problems.append(Problem(str(path), 1, 1, "", "holds files to be shared, and no policy that has a `workflow`"))
    if problems:
        raise PolicyProblems(problems)
    return found


def starter_policy(check_condition: CheckCondition) -> Policy:
    """The policy that is used where nobody configured one.

    Raises: PolicyProblems, if the package is damaged.
    """
    text = resources.files("gateway").joinpath(STARTER).read_text(encoding="utf-8")
    return _usable(compose(text, STARTER), Watched(), check_condition).policy


def policy_schema() -> dict[str, Any]:
    """The JSON Schema of a policy file, for editors."""
    return {"$schema": SCHEMA_DIALECT, **Policy.model_json_schema(by_alias=True), "title": "Counterfoil policy"}


def shared_schema() -> dict[str, Any]:
    """The JSON Schema of a file that workflows include, for editors."""
    title = "Counterfoil shared policy parts"
    return {"$schema": SCHEMA_DIALECT, **Shared.model_json_schema(by_alias=True), "title": title}


# --- one file -------------------------------------------------------------------------------------------------------

_OF_SHARED = frozenset(Shared.model_fields)
_OF_WORKFLOWS = frozenset(field.alias or name for name, field in Policy.model_fields.items()) - _OF_SHARED


def _listed(folder: Path, watched: Watched) -> list[Path]:
    try:
        listed = watched.listed(folder)
    except Problems as error:
        raise PolicyProblems(list(error.problems)) from None
    unread = [
        Problem(str(file), 1, 1, "", "a policy's name ends in `.yaml`") for file in listed if file.suffix == ".yml"
    ]
    if unread or not listed:
        raise PolicyProblems(unread or [Problem(str(folder), 1, 1, "", "holds no policy (`*.yaml`)")])
    return listed


def _any(path: Path, watched: Watched, check_condition: CheckCondition) -> tuple[Loaded | None, list[Problem]]:
    """The policy, None for a shared file, and all that is wrong."""
    try:
        document = watched.read(path)
    except Problems as error:
        return None, list(error.problems)
    if _is_shared(document.value):
        return None, _wrong_with_shared(document, check_condition)
    return _workflow(document, watched, check_condition)


def _usable(document: Document, watched: Watched, check_condition: CheckCondition) -> Loaded:
    """The policy. Raises: PolicyProblems."""
    loaded, problems = _workflow(document, watched, check_condition)
    if loaded is None or problems:
        raise PolicyProblems(problems)
    return loaded


def _is_shared(value: Any) -> bool:
    """Whether it is meant to be included; a file that has anything of a workflow is one, and lacks its name."""
    keys = set(value) if isinstance(value, Mapping) else None
    return keys is not None and not keys & (_OF_WORKFLOWS - {"include"}) and (not keys or bool(keys & _OF_SHARED))


def _workflow(
    document: Document, watched: Watched, check_condition: CheckCondition
) -> tuple[Loaded | None, list[Problem]]:
    shared, unread = included(document, watched)
    policy, problems = _judged(document, check_condition, None if unread else shared)
    problems += unread
    for one in shared:
        problems += _wrong_with_shared(one, check_condition)
    if problems:
        return None, problems
    whole = Whole(document, shared)
    if policy is None or shared:
        # INVARIANT: what is right in each file, and fits together, is a policy.
        policy = Policy.model_validate_json(json.dumps(whole.value), strict=True)
    found = check_condition.misfits(policy)
    problems = [whole.problem(place, told, within=(line, column)) for place, told, line, column in found]
    return Loaded(policy, whole), problems


def _judged(
    document: Document, check_condition: CheckCondition, shared: Sequence[Document] | None = ()
) -> tuple[Policy | None, list[Problem]]:
    """The workflow's own part, and all that is wrong with it: YAML, keys and values, names, expressions.

    `shared` are the files that it includes, which are judged elsewhere; None where they cannot be known. The part is
    None also where it is right, and only the whole is a policy.
    """
    policy, problems = read_as(document, Policy, _PATTERNS)
    problems += document.problems
    if not isinstance(document.value, Mapping):
        return policy, problems
    problems += _bad_expressions(document, check_condition)
    whole = Whole(document, [one for one in shared or () if isinstance(one.value, Mapping)])
    problems += whole.problems
    # What cases name may stand in a file that cannot be known.
    found = [flaw for flaw in flaws(whole.value) if shared is not None or flaw.place[0] != "cases"]
    problems += [_flaw(whole, flaw) for flaw in found]
    return policy, problems


def _wrong_with_shared(document: Document, check_condition: CheckCondition) -> list[Problem]:
    _, problems = read_as(document, Shared, _PATTERNS)
    problems = [*(one for one in problems if one.path not in _OF_WORKFLOWS), *document.problems]
    if isinstance(document.value, Mapping):
        strange = [key for key in document.value if key in _OF_WORKFLOWS]
        problems += [document.problem((key,), _NOT_SHARED.format(key), at_key=True) for key in strange]
        problems += _bad_expressions(document, check_condition)
    return problems


_NOT_SHARED = (
    f"only a workflow has `{{}}`; what is included has {', '.join(f'`{part}`' for part in Shared.model_fields)}"
)


LISTED = 12
"""Names that are listed where one is unknown and none is near: a policy's own come first, and a wall is not read."""


def _flaw(whole: Whole, flaw: Flaw) -> Problem:
    message = flaw.message
    if isinstance(flaw, UnknownName):
        known = list(dict.fromkeys(flaw.known))
        more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
        listed = ", ".join(f"`{name}`" for name in known[:LISTED]) + more
        others = f"; there are {listed}" if flaw.known else "; none is defined"
        message += did_you_mean(flaw.name, flaw.known) or others
    return whole.problem(flaw.place, message, at_key=flaw.in_key)


def _bad_expressions(document: Document, check_condition: CheckCondition) -> Iterator[Problem]:
    for place, expression, kind, gives in _expressions(document.value):
        # Empty and endless ones are told by the model already.
        wrong = check_condition(expression, kind, gives) if 0 < len(expression) <= MAX_EXPRESSION else None
        if wrong is not None:
            yield document.problem(place, wrong[0], within=(wrong[1], wrong[2]))


def _expressions(value: Mapping[str, Any]) -> Iterator[tuple[Place, str, Kind, Gives]]:
    both: tuple[tuple[Mapping[Place, Kind], Gives], ...] = ((EXPRESSIONS, "truth"), (FORMULAS, "value"))
    for patterns, gives in both:
        for pattern, kind in patterns.items():
            for place, expression in texts(value, pattern):
                yield place, expression, kind, gives
