"""What the packs for databases, the web, mail and payments say of themselves: in their cases, and on their pages."""

import re
from pathlib import Path

import pytest

from gateway.kernel.fit import misfits
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import digest
from gateway.model.flaws import account_rule
from gateway.model.policy import Budgets, Limits
from gateway.outbound.policy_files import load_policy
from gateway.runtime.cases import mismatch
from gateway.runtime.policies import condition_trouble
from tests.packs.real_tools import ARGUMENTS, tools_of

ROOT = Path(__file__).parents[2]
POLICIES = ROOT / "policies"

# --- their own cases ------------------------------------------------------------------------------------------------

PACKS = tuple(ARGUMENTS)


@pytest.mark.parametrize("name", PACKS)
def test_each_rule_of_a_pack_is_decided_by_its_cases_both_ways(name: str) -> None:
    policy = load_policy(POLICIES / f"{name}.yaml", condition_trouble)
    rules = compile_rules(policy, digest(policy.model_dump(mode="json", by_alias=True), b""))
    assert {case.name: found for case in policy.cases if (found := mismatch(rules, case)) is not None} == {}
    allowed = {case.expect.rule for case in policy.cases if case.expect.outcome == "allowed"}
    refused_ = {case.expect.rule for case in policy.cases if case.expect.outcome != "allowed"}
    assert {one.name for one in policy.transitions} <= allowed
    free = {one.name for one in policy.transitions if not (one.when or one.authority or one.approval)}
    assert {one.name for one in policy.transitions} - free - refused_ <= WIDENED
    assert {one.name for one in policy.forbid} <= refused_
    assert {account_rule(one) for one, about in policy.accounts.items() if about.limit != Limits()} <= refused_
    limits = {one for one in set(Budgets.model_fields) - {"warn_at"} if getattr(policy.budgets, one) is not None}
    assert {f"budgets.{one}" for one in limits} <= refused_


@pytest.mark.parametrize("name", PACKS)
def test_a_pack_asks_real_tools_only_for_arguments_that_they_have(name: str) -> None:
    policy = load_policy(POLICIES / f"{name}.yaml", condition_trouble)
    assert [(found.place, found.message) for found in misfits(policy, tools_of(name))] == []


WIDENED = {"listed-host"}
"""Transitions behind which a wider one comes for the same tools: what they do not allow, that one refuses."""


# --- their pages ----------------------------------------------------------------------------------------------------

PAGES = ROOT / "docs" / "packs"


@pytest.mark.parametrize("name", PACKS)
def test_the_page_of_a_pack_tells_each_value_and_how_it_is_run(name: str) -> None:
    policy = load_policy(POLICIES / f"{name}.yaml", condition_trouble)
    page = (PAGES / f"{name}.md").read_text()
    assert [value for value in policy.values if f"| `{value}`" not in page and f", `{value}` |" not in page] == []
    commands = re.findall(r"^counterfoil (\w+)", page, re.MULTILINE)
    assert set(commands) <= {"wrap", "serve", "run", "check"}
    assert commands
    assert f"({name}.md)" in (PAGES / "README.md").read_text()


def test_a_shared_file_is_included_as_the_page_says(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (PAGES / "README.md").read_text(), re.DOTALL)
    shared = next(block for block in blocks if block.startswith("# house.yaml"))
    naming = next(block for block in blocks if block.startswith("workflow: "))
    (tmp_path / "house.yaml").write_text(shared)
    own = "  domains: [example.com, mail.example.com]\n"
    text = (POLICIES / "mail-and-chat.yaml").read_text()
    assert own in text
    pack = tmp_path / "mail-and-chat.yaml"
    pack.write_text(text.replace("workflow: mail-and-chat\n", naming).replace(own, ""))
    policy = load_policy(pack, condition_trouble)
    assert policy.values["domains"] == ["example.com"]
    assert policy.accounts["of-the-day"].limit.calls == 5000
