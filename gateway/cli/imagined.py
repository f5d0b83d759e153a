"""What a command line says of a call, of a state and of a policy. Whatever makes no sense ends the command."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from gateway.cli.ledgers import fail
from gateway.cli.plain import counted
from gateway.kernel.registry import registered
from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import NotStrictJson, digest_bytes, parse
from gateway.model.events import Effect
from gateway.model.policy import Case, CaseCall, Expect, Given, Policy
from gateway.model.tool import Tool
from gateway.outbound.file_models import did_you_mean
from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.runtime.policies import condition_trouble, spelled

USAGE = 2
"""Exit code of a command that was told what makes no sense."""


def as_json_value(option: str, text: str) -> Any:
    """The value that the option gives.

    Raises: typer.Exit, told, as all below.
    """
    try:
        return parse(text)
    except NotStrictJson as error:
        fail(f"`{option}`: {error}", USAGE)


def _text(_option: str, text: str) -> Any:
    return text


def named(option: str, pairs: Sequence[str] | None, read: Callable[[str, str], Any] = _text) -> dict[str, Any] | None:
    """`NAME=VALUE`, each."""
    if not pairs:
        return None
    found = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign:
            fail(f"`{option}` takes NAME=VALUE, and `{pair}` has no `=`", USAGE)
        found[name] = read(option, value)
    return found


def levels(accounts: Sequence[str] | None) -> dict[str, dict[str, Any]] | None:
    """`NAME.UNIT=N`, each, by name; a name may have dots of its own."""
    found: dict[str, dict[str, Any]] = {}
    for place, level in (named("--account", accounts, as_json_value) or {}).items():
        name, _, unit = place.rpartition(".")
        found.setdefault(name, {})[unit] = level
    return found or None


def _read(option: str, path: Path) -> Any:
    try:
        return as_json_value(option, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"`{option}`: `{path}` cannot be read: {error}", USAGE)


def call_of(tool: str, args: str | None, args_file: Path | None) -> CaseCall:
    """The call that is asked about."""
    if args is not None and args_file is not None:
        fail("`--args` and `--args-file` say the same; give one of them", USAGE)
    arguments = as_json_value("--args", args) if args is not None else {}
    if args_file is not None:
        arguments = _read("--args-file", args_file)
    if not isinstance(arguments, dict):
        fail("the arguments of a call are a JSON object", USAGE)
    return CaseCall(tool=tool, arguments=arguments)


def definition_of(tool: str | None, schema: Path | None, annotations: str | None) -> dict[str, Any] | None:
    """The tool's definition, as far as it was said."""
    if schema is None and annotations is None:
        return None
    hints = as_json_value("--annotations", annotations) if annotations is not None else {}
    takes = _read("--schema", schema) if schema is not None else {"type": "object"}
    if not isinstance(hints, dict) or not isinstance(takes, dict):
        fail("a schema, and annotations, are JSON objects", USAGE)
    return {"name": (tool or "").rpartition("__")[2], "inputSchema": takes, "annotations": hints}


def policy_at(path: Path) -> Policy:
    """The policy of that file; what is wrong with it is told."""
    try:
        return load_policy(path, condition_trouble)
    except PolicyProblems as error:
        for problem in error.problems:
            typer.echo(str(problem), err=True)
        fail(f"{counted(len(error.problems), 'mistake')} in `{path}`; nothing was judged", USAGE)


def rules_of(policy: Policy, salt: bytes = b"") -> Rules:
    """The policy, ready to judge."""
    return compile_rules(policy, digest_bytes(spelled(policy), salt))


def case_of(policy: Policy, wanted: str) -> Case:
    """The policy's case of that name, or the only one whose name has it in it."""
    cases = {case.name: case for case in policy.cases}
    if wanted in cases:
        return cases[wanted]
    alike = [name for name in cases if wanted.casefold() in name.casefold()]
    if len(alike) == 1:
        return cases[alike[0]]
    listed = "".join(f"\n  {name}" for name in alike or cases) or " none"
    return fail(f"no case is named `{wanted}`; there are:{listed}", USAGE)


def imagined(call: CaseCall | None, state: dict[str, Any]) -> Case:
    """The call in this state, as a case."""
    try:
        return Case(
            name="as asked",
            given=Given.model_validate(state),
            call=call or CaseCall(tool=""),
            expect=Expect(outcome="allowed"),
        )
    except ValidationError as error:
        first = error.errors()[0]
        fail(f"`{'.'.join(str(step) for step in first['loc'])}`: {first['msg'].lower()}", USAGE)


def unknown_in(policy: Policy, case: Case) -> str | None:
    """A name that the state has and the policy has not; None where all are known."""
    given = case.given
    for what, named, known in (
        ("phase", [given.phase] if given.phase else [], policy.phases),
        ("account", given.accounts, {*policy.accounts, *policy.tools}),
        ("verifier", [*given.evidence, *given.scope, *given.stale, *given.probes], policy.verifiers),
    ):
        for name in named:
            if name not in known:
                return f"this policy has no {what} `{name}`{did_you_mean(name, tuple(known))}"
    unproven = next((name for name in (*given.stale, *given.scope) if name not in given.evidence), None)
    if unproven is not None:
        return f"`{unproven}` has proven nothing; say `--evidence {unproven}=pass` (or `=fail`) too"
    return None


def with_effect(policy: Policy, tool: str, effect: Effect) -> Policy:
    """The policy that says of this tool that it has this effect."""
    own_name = tool.rpartition("__")[2]
    known = registered(Tool(tool, "", own_name, {"name": own_name}), policy)
    rule = known.rule.model_copy(update={"effect": effect})
    return policy.model_copy(update={"tools": {**policy.tools, known.pattern or tool: rule}})
