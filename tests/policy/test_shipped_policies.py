"""The policies that ship are right, tested by their own cases, and complete in editors."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.kernel.rules import compile_rules
from gateway.kernel.schema import violations
from gateway.model.canonical import digest
from gateway.model.flaws import BUILT_IN_RULES, account_rule
from gateway.model.policy import Budgets, Policy
from gateway.outbound.policy_files import load_folder, policy_schema, shared_schema, starter_policy
from gateway.outbound.yaml_files import read
from gateway.runtime.cases import mismatch
from gateway.runtime.policies import condition_trouble

ROOT = Path(__file__).parent.parent.parent
STARTER = ROOT / "gateway" / "starter.yaml"
FILES = [STARTER, *sorted((ROOT / "policies").glob("*.yaml"))]
POLICIES = {"starter": starter_policy(condition_trouble), **load_folder(ROOT / "policies", condition_trouble)}


def test_the_policies_that_ship_are_these() -> None:
    packs = {
        "filesystem-workspace",
        "git-change",
        "kubernetes",
        "lethal-trifecta",
        "mail-and-chat",
        "payments",
        "shell",
        "sql-read-mostly",
    }
    assert set(POLICIES) == {"read-only", "repo-repair", "starter", "web-fetch"} | packs


@pytest.mark.parametrize("workflow", POLICIES)
def test_every_case_of_a_shipped_policy_comes_out_as_it_says(workflow: str) -> None:
    policy = POLICIES[workflow]
    rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
    wrong = {case.name: found for case in policy.cases if (found := mismatch(rules, case)) is not None}
    assert wrong == {}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_the_cases_of_a_shipped_policy_cite_every_rule_that_they_can(policy: Policy) -> None:
    cited = {case.expect.rule for case in policy.cases} - {None, *BUILT_IN_RULES}
    named = {rule.name for rule in policy.transitions} | {rule.name for rule in policy.forbid}
    assert cited - {account_rule(name) for name in policy.accounts} == named
    limits = {
        f"budgets.{name}"
        for name in set(Budgets.model_fields) - {"warn_at"}
        if getattr(policy.budgets, name) is not None
    }
    assert limits <= {case.expect.rule for case in policy.cases}


@pytest.mark.parametrize(("what", "schema"), [("policy", policy_schema), ("shared", shared_schema)])
def test_the_schemas_for_editors_are_current(what: str, schema: Callable[[], dict[str, Any]]) -> None:
    """If not: `counterfoil schema WHAT > policies/WHAT.schema.json`."""
    written = (ROOT / "policies" / f"{what}.schema.json").read_text()
    assert written == json.dumps(schema(), indent=2) + "\n"


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_a_shipped_policy_keeps_the_schema_that_its_first_line_names(file: Path) -> None:
    first = file.read_text().partition("\n")[0]
    modeline = "# yaml-language-server: $schema="
    assert first.startswith(modeline)
    schema = json.loads((file.parent / first.removeprefix(modeline)).read_text())
    assert violations(schema, read(file).value) == ()
