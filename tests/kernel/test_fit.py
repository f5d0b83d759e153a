"""Expressions are checked against the schemas of the tools that they are about, as far as these are known."""

from typing import Any

import pytest

from gateway.kernel.fit import known_tools, misfits
from gateway.model.canonical import digest
from gateway.model.policy import Policy
from gateway.model.tool import Tool
from tests import world

PAY = {"type": "object", "properties": {"amount": {"type": "number"}, "to": {"type": "string"}}, "required": ["to"]}
ANSWER = {"type": "object", "properties": {"state": {"type": "string"}}, "additionalProperties": False}


def tool(name: str, schema: dict[str, Any], output: dict[str, Any] | None = None) -> Tool:
    return Tool(name, "s", name, {"name": name, "inputSchema": schema, "outputSchema": output})


def found(policy: Policy, *tools: Tool) -> list[str]:
    return [f"{'.'.join(map(str, one.place))}:{one.column}: {one.message}" for one in misfits(policy, tools)]


ROWS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a misspelled argument": (
        {"transitions": [{"name": "pay", "tools": ["pay"], "when": ["args.amuont > 3"]}]},
        ["transitions.0.when.0:6: the tool `pay` takes no argument `amuont` (did you mean `amount`?)"],
    ),
    "a right one": ({"transitions": [{"name": "pay", "tools": ["pay"], "when": ["args.amount > 3.5"]}]}, []),
    "a pattern fits if one of its tools does": (
        {"transitions": [{"name": "any", "tools": ["*"], "when": ["args.amount > 3"]}]},
        [],
    ),
    "a pattern none of whose tools fits": (
        {"forbid": [{"name": "f", "tools": ["*"], "when": ["args.sum > 3"]}]},
        ["forbid.0.when.0:6: the tool `pay` takes no argument `sum`"],
    ),
    "tools of other effects do not count": (
        {"transitions": [{"name": "r", "tools": ["*"], "effect": ["read"], "when": ["args.amount > 3"]}]},
        ["transitions.0.when.0:6: the tool `look` takes no argument `amount`"],
    ),
    "an unknown tool may take anything": (
        {"transitions": [{"name": "x", "tools": ["other"], "when": ["args.amuont > 3"]}]},
        [],
    ),
    "evidence of a verifier that there is not": (
        {"transitions": [{"name": "x", "tools": ["other"], "when": ['evidence.tests.verdict == "pass"']}]},
        ["transitions.0.when.0:10: no verifier is named `tests`; there are `paid`"],
    ),
    "an account that there is not": (
        {"transitions": [{"name": "x", "tools": ["other"], "when": ["accounts.dialy.calls > 1"]}]},
        ["transitions.0.when.0:10: no account is named `dialy` (did you mean `daily`?)"],
    ),
    "a constant that there is not": (
        {"transitions": [{"name": "x", "tools": ["other"], "when": ["args.to in values.freinds"]}]},
        ["transitions.0.when.0:19: the policy has no value named `freinds` (did you mean `friends`?)"],
    ),
    "a constant of another type": (
        {"transitions": [{"name": "x", "tools": ["pay"], "approval": {"when": ["args.to > values.most"]}}]},
        ["transitions.0.approval.when.0:9: `>` cannot take a string and an integer"],
    ),
    "the answer of a probe": (
        {"verifiers": {"paid": {"probe": {"tool": "look"}, "pass": ['result.structuredContent.stat == "paid"']}}},
        ["verifiers.paid.pass.0:26: the result of the tool `look` has no field `stat` (did you mean `state`?)"],
    ),
    "the arguments of what is verified": (
        {
            "verifiers": {
                "paid": {"probe": {"tool": "look", "arguments_from": {"id": "args.tu"}}, "pass": ["result.isError"]}
            },
            "transitions": [{"name": "pay", "tools": ["pay"], "verify": "paid"}],
        },
        ["verifiers.paid.probe.arguments_from.id:6: the tool `pay` takes no argument `tu`"],
    ),
}


@pytest.mark.parametrize(("fields", "told"), ROWS.values(), ids=ROWS)
def test_what_does_not_fit_is_told_in_its_place(fields: dict[str, Any], told: list[str]) -> None:
    base: dict[str, Any] = {
        "verifiers": {"paid": {"probe": {"tool": "look"}, "pass": ["result.isError == false"]}},
        "accounts": {"daily": {}},
        "values": {"friends": ["ann"], "most": 5},
        "tools": {"look": {"effect": "read"}},
    }
    tools = (tool("pay", PAY), tool("look", {"type": "object", "properties": {"id": {}}}, ANSWER))
    assert [one.partition("; there")[0] for one in found(world.policy(**(base | fields)), *tools)] == [
        one.partition("; there")[0] for one in told
    ]


def test_what_the_policy_itself_tells_of_tools_is_known_without_any_server() -> None:
    look = {"name": "look", "inputSchema": PAY}
    policy = world.policy(
        tools={"pay": {"input": PAY}, "any*": {"input": PAY}},
        pins={"look": {"digest": digest(look, b""), "definition": look}},
        transitions=[{"name": "x", "tools": ["pay", "look"], "when": ["args.amuont > 3"]}],
    )
    assert [one.name for one in known_tools(policy)] == ["pay", "look"]
    assert len(found(policy, *known_tools(policy))) == 1
