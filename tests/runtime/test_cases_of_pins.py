"""A case asks for a pinned tool as it is pinned, so that pinning breaks no case."""

from gateway.kernel.registry import pin
from gateway.kernel.rules import compile_rules
from gateway.model.canonical import Digest
from gateway.model.policy import Policy
from gateway.runtime.cases import mismatch
from tests import world

DEFINITION = {
    "name": "pay",
    "description": "Pays.",
    "inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]},
}
PAY = {"tool": "pay", "arguments": {"to": "anna"}}


def test_a_pinned_tool_is_as_it_is_pinned_unless_the_case_says_otherwise() -> None:
    own = {"tool": {"inputSchema": {"type": "object"}}}
    policy: Policy = world.policy(
        transitions=[{"name": "pay", "tools": ["pay"]}],
        pins={"pay": {"digest": pin(DEFINITION), "definition": DEFINITION}},
        cases=[
            {"name": "paid", "call": PAY, "expect": {"outcome": "allowed", "rule": "pay"}},
            {"name": "its schema", "call": {"tool": "pay"}, "expect": {"outcome": "invalid_arguments"}},
            {"name": "changed", "given": own, "call": PAY, "expect": {"outcome": "tool_withheld", "rule": "pin"}},
        ],
    )
    rules = compile_rules(policy, Digest("c1:x"))
    assert [mismatch(rules, case) for case in policy.cases] == [None, None, None]
