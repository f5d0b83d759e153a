"""What workflows share stands in files of its own: merged in order, judged as a whole, told where it stands."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli.commands import app
from gateway.model.canonical import digest_bytes
from gateway.model.policy import Policy
from gateway.outbound.ledger.memory import MemoryLedger
from gateway.outbound.policy_files import PolicyProblems, load_folder, load_placed, load_policy, shared_schema
from gateway.runtime.policies import Policies, condition_trouble, spelled

FLOW = """
workflow: w
include: [shared/registry.yaml, ../accounts.yaml]
grants: [{authority: [own]}]
tools: {own: {effect: read}, "fs__*": {effect: destructive}}
values: {limit: 5}
transitions: [{name: any, tools: ['*']}]
cases:
  - name: a case may name what a shared file defines
    given: {accounts: {team-day: {cost: 1}}}
    call: {tool: own}
    expect: {outcome: allowed, rule: accounts.team-day}
"""
REGISTRY = """
grants: [{principal: "local:*", authority: [shared]}]
tools: {"fs__read_*": {effect: read}, "fs__*": {effect: write}}
values: {currency: EUR}
"""
RELATIVE = "include.0: a path that starts from the folder of this file is wanted, with `/` between names"
EFFECT = "one of `read`, `write`, `destructive` is wanted"
HINT = "(did you mean `args.y`?)"
HAS = "what is included has `grants`, `tools`, `accounts`, `values`, `pins`"
ACCOUNTS = "accounts: {team-day: {limit: {cost: 1}}}\n"


def put(folder: Path, **files: str) -> Path:
    """The files, by names in which `__` stands for a slash; gives the folder of policies."""
    for name, text in files.items():
        file = folder / "policies" / f"{name.replace('__', '/')}.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return folder / "policies"


def loaded(folder: Path) -> Policy:
    return load_policy(folder / "w.yaml", condition_trouble)


def told(folder: Path) -> list[str]:
    """All that is wrong with the folder, as lines without its name."""
    with pytest.raises(PolicyProblems) as refused:
        load_folder(folder, condition_trouble)
    return str(refused.value).replace(f"{folder}/", "").split("\n")


def whole(tmp_path: Path, **changed: str) -> Path:
    (tmp_path / "accounts.yaml").write_text(ACCOUNTS)
    return put(tmp_path, **{"w": FLOW, "shared__registry": REGISTRY, **changed})


def test_a_workflow_has_its_own_entries_first_and_then_those_that_it_includes_in_turn(tmp_path: Path) -> None:
    policy = loaded(whole(tmp_path))
    assert list(policy.tools) == ["own", "fs__*", "fs__read_*"]
    assert policy.tools["fs__*"].effect == "destructive"  # its own word on a tool overrides the shared one
    assert [grant.authority for grant in policy.grants] == [("own",), ("shared",)]
    assert policy.values == {"limit": 5, "currency": "EUR"}
    assert policy.accounts["team-day"].limit.cost == 1
    assert policy.include == ("shared/registry.yaml", "../accounts.yaml")


async def test_what_a_run_is_judged_by_can_be_had_from_the_ledger_alone_in_its_order(tmp_path: Path) -> None:
    policy = loaded(whole(tmp_path))
    ledger = MemoryLedger()
    cited = digest_bytes(spelled(policy), ledger.salt)
    assert Policies(ledger, {"w": policy}, "w").in_force() == {"w": cited}
    again = Policy.model_validate_json(spelled(policy), strict=True)
    assert (again, list(again.tools)) == (policy, list(policy.tools))
    other = policy.model_copy(update={"tools": dict(reversed(policy.tools.items()))})
    assert spelled(other) != spelled(policy)


def test_a_folder_has_shared_files_beside_its_workflows(tmp_path: Path) -> None:
    folder = whole(tmp_path, registry=REGISTRY, empty="{}")
    assert list(load_folder(folder, condition_trouble)) == ["w"]
    assert load_placed(folder / "registry.yaml", condition_trouble) == []
    (one,) = load_placed(folder / "w.yaml", condition_trouble)
    (same,) = load_placed(folder, condition_trouble)
    assert one.policy == same.policy == loaded(folder)
    places = [("tools", "own"), ("tools", "fs__read_*"), ("accounts", "team-day", "limit"), ("grants", 1, "principal")]
    assert [str(one.whole.problem(place, "here")).replace(f"{folder}/", "") for place in places] == [
        "w.yaml:5:14: tools.own: here",
        "shared/registry.yaml:3:23: tools.fs__read_*: here",
        f"{tmp_path}/accounts.yaml:1:30: accounts.team-day.limit: here",
        "shared/registry.yaml:2:22: grants.0.principal: here",
    ]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("phases: {a: {}}\ntools: {}", [
            "x.yaml:1:1: the key `transitions` is missing", "x.yaml:1:1: the key `workflow` is missing",
        ]),
        ("wrokflow: w", [
            "x.yaml:1:1: the key `transitions` is missing", "x.yaml:1:1: the key `workflow` is missing",
            "x.yaml:1:1: wrokflow: no key `wrokflow` is known here (did you mean `workflow`?)",
        ]),
        ("tools: {a: {efect: read}}\ncases: []", [
            "x.yaml:1:1: the key `transitions` is missing", "x.yaml:1:1: the key `workflow` is missing",
            "x.yaml:1:13: tools.a.efect: no key `efect` is known here (did you mean `effect`?)",
        ]),
        ("tools: {a: {efect: read}}", [
            "x.yaml:1:13: tools.a.efect: no key `efect` is known here (did you mean `effect`?)",
        ]),
        ("include: [a.yaml]\ntools:\n  a: {failures: {conflict: [reslt.no == 1]}}\n  a: {}", [
            f"x.yaml:1:1: include: only a workflow has `include`; {HAS}",
            "x.yaml:3:29: tools.a.failures.conflict.0: nothing is named `reslt.no` here (did you mean `result.no`?)",
            "x.yaml:4:3: tools.a: the key `a` stands here twice, first in line 3",
        ]),
    ],
    ids=range(5),
)  # fmt: skip
def test_a_shared_file_is_judged_by_itself_and_a_workflow_without_its_name_is_no_shared_file(
    tmp_path: Path, text: str, lines: list[str]
) -> None:
    assert told(whole(tmp_path, x=text)) == lines


def test_a_folder_of_nothing_but_shared_files_is_no_folder_of_policies(tmp_path: Path) -> None:
    folder = put(tmp_path, registry=REGISTRY)
    assert told(folder) == [f"{folder}:1:1: holds files to be shared, and no policy that has a `workflow`"]


@pytest.mark.parametrize(
    ("include", "lines"),
    [
        ("/etc/registry.yaml", RELATIVE),
        ("~/registry.yaml", RELATIVE),
        (r"C:\registry.yaml", RELATIVE),
        ("registry.yml", "include.0: the name of an included file ends in `.yaml`"),
        ("missing.yaml", "include.0: there is no file `missing.yaml`"),
        ("w.yaml", "include.0: is a workflow; only a file without `workflow` can be included"),
        ("shared.yaml, ../policies/./shared.yaml", "include.1: is included twice"),
    ],
)  # fmt: skip
def test_what_cannot_be_included_is_told_where_it_is_named(tmp_path: Path, include: str, lines: str) -> None:
    flow = FLOW.replace("shared/registry.yaml, ../accounts.yaml", include)
    found = told(put(tmp_path, w=flow, shared="{}"))
    column = 11 if "include.0" in lines else 24
    # The cases of such a file are not judged: what they name may stand in what cannot be read.
    assert found[0] == f"w.yaml:3:{column}: {lines}"
    assert "include.1" in lines or len(found) == 1


def test_mistakes_of_an_included_file_are_told_there_and_once(tmp_path: Path) -> None:
    broken = 'tools:\n  a: {compensation: {tool: b, arguments_from: {x: "arg.y"}}}\n  b: {effect: wriet}\nphases: {}\n'
    folder = whole(tmp_path, shared__registry=broken, v=FLOW.replace("workflow: w", "workflow: v"))
    assert told(folder) == [
        f"shared/registry.yaml:2:52: tools.a.compensation.arguments_from.x: nothing is named `arg.y` here {HINT}",
        f"shared/registry.yaml:3:15: tools.b.effect: {EFFECT}, not `wriet` (did you mean `write`?)",
        f"shared/registry.yaml:4:1: phases: only a workflow has `phases`; {HAS}",
    ]
    put(tmp_path, shared__registry="- a")
    assert told(folder)[0].startswith("shared/registry.yaml:1:1: a mapping of keys to values is wanted, not a list")
    put(tmp_path, shared__registry="a: 'b' c")
    assert told(folder) == [
        "shared/registry.yaml:1:8: nothing may stand behind a closing quote; put quotes around the whole text"
    ]


def test_one_name_in_two_files_is_refused_unless_a_workflow_overrides_a_tool(tmp_path: Path) -> None:
    second = 'tools: {own: {}, "fs__read_*": {}}\naccounts: {team-day: {}}\nvalues: {limit: 6, currency: USD}\n'
    flow = FLOW.replace("../accounts.yaml", "../accounts.yaml, second.yaml")
    folder = whole(tmp_path, second=second, w=flow)
    assert told(folder) == [
        "second.yaml:1:18: tools.fs__read_*: `fs__read_*` stands in shared/registry.yaml:3:9 too",
        f"second.yaml:2:12: accounts.team-day: `team-day` stands in {tmp_path}/accounts.yaml:1:12 too",
        "second.yaml:3:20: values.currency: `currency` stands in shared/registry.yaml:4:10 too",
        "w.yaml:6:10: values.limit: `limit` stands in second.yaml:3:10 too",
    ]


def test_what_does_not_fit_together_is_judged_over_all_files(tmp_path: Path) -> None:
    flow = FLOW.replace("team-day: {cost", "team-dya: {cost")
    assert told(whole(tmp_path, w=flow)) == [
        "w.yaml:10:24: cases.0.given.accounts.team-dya: no account is named `team-dya` (did you mean `team-day`?)"
    ]


def test_an_expression_is_judged_by_the_schema_that_another_file_tells(tmp_path: Path) -> None:
    schema = "{type: object, properties: {amount: {type: integer}}, additionalProperties: false}"
    registry = (
        f"tools:\n  pay:\n    input: {schema}\n"
        "    compensation: {tool: back, arguments_from: {id: args.amuont}}\nvalues: {most: 5}\n"
    )
    flow = (
        "workflow: w\ninclude: [registry.yaml]\ntransitions:\n  - name: pay\n    tools: [pay]\n"
        "    when: [args.amount < values.mots, 'args.amuont < 5']\n"
    )
    wrong = "the tool `pay` takes no argument `amuont` (did you mean `amount`?)"
    assert told(put(tmp_path, w=flow, registry=registry)) == [
        f"registry.yaml:4:58: tools.pay.compensation.arguments_from.id: {wrong}",
        "w.yaml:6:33: transitions.0.when.0: the policy has no value named `mots` (did you mean `most`?)",
        f"w.yaml:6:45: transitions.0.when.1: {wrong}",
    ]


def test_a_whole_number_is_a_cost_and_a_text_is_none(tmp_path: Path) -> None:
    (tmp_path / "p.yaml").write_text(
        "workflow: w\ntools: {t: {cost: 1}}\nbudgets: {cost: 2}\n"
        "transitions: [{name: a, tools: [t], charge: {cost: 3}}]"
    )
    policy = load_policy(tmp_path / "p.yaml", condition_trouble)
    costs = (policy.tools["t"].cost, policy.budgets.cost, policy.transitions[0].charge.cost)
    assert json.dumps(costs) == "[1.0, 2.0, 3.0]"


def test_the_schema_of_shared_files_knows_what_workflows_share_and_no_more() -> None:
    printed = CliRunner().invoke(app, ["schema", "shared"])
    schema = json.loads(printed.output)
    assert schema == shared_schema()
    assert list(schema["properties"]) == ["grants", "tools", "accounts", "values", "pins"]
    assert schema["additionalProperties"] is False
