"""`docs/approvals.md` tells the truth: its policy loads, its commands and paths exist, and nothing is left out."""

import re
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.inbound.console.api import TABLE
from gateway.inbound.console.api.problems import STATUS
from gateway.model.policy import ApprovalRule
from gateway.model.review import Check, Settlement

PAGE = (Path(__file__).parents[2] / "docs" / "approvals.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_policy_of_the_page_uses_every_field_that_does_not_exclude_another(tmp_path: Path) -> None:
    [asks] = blocks("yaml")
    whole = f"""
workflow: refunds
tools: {{bank__refund: {{effect: write}}, bank__order: {{effect: read}}}}
verifiers:
  order_state: {{probe: {{tool: bank__order}}, pass: ["result.isError == false"]}}
{asks}"""
    (tmp_path / "refunds.yaml").write_text(whole)
    done = CliRunner().invoke(app, ["check", str(tmp_path / "refunds.yaml")])
    assert done.exit_code == 0, done.output
    used = set(re.findall(r"^      (\w+):", asks, re.MULTILINE))
    assert ApprovalRule.model_fields.keys() - used == {"role", "quorum", "self_review", "caller"}


def test_the_table_of_fields_has_each_of_them() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert listed == list(ApprovalRule.model_fields)


COMMANDS = sorted({line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()})


@pytest.mark.parametrize("line", [line for line in COMMANDS if line.startswith("counterfoil ")])
def test_every_command_and_option_exists(line: str) -> None:
    words = re.sub(r'"[^"]*"', "x", line).split()[1:]
    group = words[: 2 if words[0] in {"approvals", "reviewer"} else 1]
    told = CliRunner().invoke(app, [*group, "--help"], env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert told.exit_code == 0, told.output
    for option in (word for word in words if word.startswith("-")):
        assert option in told.output


def test_every_path_of_the_api_is_told_and_no_other() -> None:
    told = set(re.findall(r"`(GET|POST) (/[^`]*)`", PAGE)) - {("GET", "/openapi.json")}
    assert told == {(one.method, one.path) for one in TABLE}


def test_every_check_and_every_answer_is_told() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE))
    assert set(get_args(Check)) - {"unknown", "tenant"} <= named
    assert {one.replace("_", "-") for one in get_args(Settlement)} <= set(re.findall(r"`--([a-z-]+)`", PAGE))
    assert STATUS.keys() - {"tenant"} <= named
