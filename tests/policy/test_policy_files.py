"""A policy file is a policy, or the whole list of what is wrong with it, each with its place and what was meant."""

from pathlib import Path
from typing import Any

import pytest

from gateway.model.flaws import EXPRESSIONS, FORMULAS
from gateway.model.policy import Policy, UnknownName
from gateway.outbound.policy_files import (
    PolicyProblems,
    load_folder,
    load_policy,
    policy_schema,
    starter_policy,
)
from gateway.runtime.policies import condition_trouble

HERE = Path(__file__).parent


def told(tmp_path: Path, text: str) -> list[str]:
    """All that is wrong with the policy, as lines without the folder."""
    file = tmp_path / "p.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(PolicyProblems) as refused:
        load_policy(file, condition_trouble)
    return str(refused.value).replace(f"{tmp_path}/", "").split("\n")


A_NAME = "a name (a letter, then letters, digits, `_`, `.` and `-`, at most 64 in all)"
SMALLEST = "workflow: w\ntransitions: [{name: any, tools: ['*']}]\n"


def test_the_smallest_policy_has_one_phase_and_denies_by_default(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(SMALLEST)
    policy = load_policy(file, condition_trouble)
    assert (policy.workflow, policy.initial, policy.mode, policy.annotations) == ("w", "open", "enforce", "tighten")


def test_a_tool_says_where_it_takes_our_key(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        SMALLEST + "tools: {pay: {repeat: replay, idempotency: {kind: key, key: {header: Idempotency-Key}}}}"
    )
    said = load_policy(file, condition_trouble).tools["pay"].idempotency
    assert said is not None
    assert said.key is not None
    assert said.key.header == "Idempotency-Key"


def test_every_mistake_of_a_file_is_told_in_its_place_with_what_was_meant() -> None:
    with pytest.raises(PolicyProblems) as refused:
        load_policy(HERE / "broken.yaml", condition_trouble)
    assert str(refused.value).replace(f"{HERE}/", "") + "\n" == (HERE / "broken.txt").read_text()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("- a", ["p.yaml:1:1: a mapping of keys to values is wanted, not a list"]),
        ("just text", ["p.yaml:1:1: a mapping of keys to values is wanted, not the text `just text`"]),
        (
            "wrokflow: w\n",
            [
                "p.yaml:1:1: the key `transitions` is missing",
                "p.yaml:1:1: the key `workflow` is missing",
                "p.yaml:1:1: wrokflow: no key `wrokflow` is known here (did you mean `workflow`?)",
            ],
        ),
        (SMALLEST + "phases: {}", ["p.yaml:3:9: phases: more entries are wanted: no fewer than 1"]),
        (SMALLEST + "phases: {a b: {}}", [
            f"p.yaml:3:10: phases.a b: {A_NAME} is wanted, not `a b`",
        ]),
        (SMALLEST + "success: {evidence: [tests]}", [
            "p.yaml:3:22: success.evidence.0: no verifier is named `tests`; none is defined",
        ]),
        (SMALLEST + "forbid: [{name: f, when: ['']}]", [
            "p.yaml:3:27: forbid.0.when.0: a longer text is wanted: no fewer characters than 1",
        ]),
        (SMALLEST + f"forbid: [{{name: f, when: ['{'x' * 4001}']}}]", [
            "p.yaml:3:27: forbid.0.when.0: a shorter text is wanted: no more characters than 4000",
        ]),
        (SMALLEST + "forbid: [{name: any}]\ncases: [{name: c, call: {tool: t}, expect: {outcome: allowed}}, "
         "{name: c, call: {tool: t}, expect: {outcome: allowed, rule: budgets.call}}]", [
            "p.yaml:3:17: forbid.0.name: another rule is named `any`",
            "p.yaml:4:72: cases.1.name: another case is named `c`",
            "p.yaml:4:125: cases.1.expect.rule: no rule is named `budgets.call` (did you mean `budgets.calls`?)",
        ]),
        (SMALLEST + "budgets: {calls: 9999999999999999999999, elapsed_s: 1, mutations: true}", [
            "p.yaml:3:67: budgets.mutations: a whole number is wanted, not `true`",
        ]),
        (SMALLEST.replace("tools", "tols"), [
            "p.yaml:2:15: transitions.0: the key `tools` is missing",
            "p.yaml:2:27: transitions.0.tols: no key `tols` is known here (did you mean `tools`?)",
        ]),
        (SMALLEST + "a: 'b' == c", [
            "p.yaml:3:8: nothing may stand behind a closing quote; put quotes around the whole text",
        ]),
        (SMALLEST + f"budgets: {{elapsed_s: {10**400}}}", [
            "p.yaml:3:22: budgets.elapsed_s: a number of at most 31622400 is wanted",
        ]),
        (SMALLEST + "mode: null", ["p.yaml:3:7: mode: one of `enforce`, `observe` is wanted, not nothing"]),
        (SMALLEST + "tools: {x: {idempotency: {kind: key, key: {header: a, meta: b}}}}", [
            "p.yaml:3:43: tools.x.idempotency.key: name exactly one of `argument`, `header` and `meta`",
        ]),
        (SMALLEST + "workflow: w", ["p.yaml:3:1: workflow: the key `workflow` stands here twice, first in line 1"]),
    ],
    ids=range(16),
)  # fmt: skip
def test_a_mistake_is_told_in_plain_words(tmp_path: Path, text: str, lines: list[str]) -> None:
    assert told(tmp_path, text) == lines


def test_a_folder_gives_its_policies_by_workflow(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(SMALLEST)
    (tmp_path / "two.yaml").write_text(SMALLEST.replace("workflow: w", "workflow: v"))
    (tmp_path / "README.md").write_text("not a policy")
    (tmp_path / ".hidden.yaml").write_text("not: one")
    assert list(load_folder(tmp_path, condition_trouble)) == ["w", "v"]


def test_a_folder_tells_what_is_wrong_with_all_of_its_files(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SMALLEST)
    (tmp_path / "b.yaml").write_text(SMALLEST + "mdoe: observe")
    (tmp_path / "c.yaml").write_text(SMALLEST)
    with pytest.raises(PolicyProblems) as refused:
        load_folder(tmp_path, condition_trouble)
    assert str(refused.value).replace(f"{tmp_path}/", "").split("\n") == [
        "b.yaml:3:1: mdoe: no key `mdoe` is known here (did you mean `mode`?)",
        "c.yaml:1:1: workflow: `w` is the workflow of `a.yaml` too",
    ]


@pytest.mark.parametrize(
    ("names", "line"),
    [
        ([], ": holds no policy (`*.yaml`)"),
        (["a.yaml", "b.yml"], "/b.yml:1:1: a policy's name ends in `.yaml`"),
        (None, ": cannot be read: no such file or directory"),
    ],
)
def test_a_folder_that_would_be_half_read_is_refused(tmp_path: Path, names: list[str] | None, line: str) -> None:
    folder = tmp_path / "policies"
    if names is not None:
        folder.mkdir()
        for name in names:
            (folder / name).write_text(SMALLEST)
    with pytest.raises(PolicyProblems) as refused:
        load_folder(folder, condition_trouble)
    assert str(refused.value) == (f"{folder}{line}" if line.startswith("/") else f"{folder}:1:1{line}")


def test_the_starter_policy_is_in_the_package() -> None:
    assert starter_policy(condition_trouble).workflow == "starter"


def test_every_place_of_an_expression_in_the_schema_is_compiled() -> None:
    """A new kind of expression must be named in `EXPRESSIONS` or `FORMULAS`, or it would be loaded unread."""
    found = {place for place, limit in limits(policy_schema(), policy_schema(), ()) if limit == 4000}
    assert found == {*EXPRESSIONS, *FORMULAS}


def limits(schema: dict[str, Any], at: Any, place: tuple[str, ...]) -> list[tuple[tuple[str, ...], int]]:
    """Every text in the schema that has a longest length, by place."""
    while "$ref" in at or "anyOf" in at:
        at = schema["$defs"][at["$ref"].rpartition("/")[2]] if "$ref" in at else at["anyOf"][0]
    below = [(key, part) for key, part in at.get("properties", {}).items()]
    below += [("*", part) for part in at.get("patternProperties", {}).values()]
    below += [("*", at[key]) for key in ("items", "additionalProperties") if isinstance(at.get(key), dict)]
    found = [one for key, part in below for one in limits(schema, part, (*place, key))]
    return found + ([(place, at["maxLength"])] if "maxLength" in at else [])


def test_a_policy_made_in_code_is_checked_for_names_too() -> None:
    with pytest.raises(ValueError, match="no phase is named `nowhere`") as refused:
        Policy.model_validate({"workflow": "w", "transitions": [{"name": "a", "tools": ["*"], "to": "nowhere"}]})
    (error,) = refused.value.errors()  # type: ignore[attr-defined]  # pydantic's ValidationError is a ValueError
    assert isinstance(error["ctx"]["error"], UnknownName)
