"""What was found out once of a tool is asked of nothing but that tool, that phase and that principal."""

from dataclasses import replace

from gateway.kernel.rules import MAX_FOUND
from gateway.model.principal import Principal
from tests import world
from tests.kernel.test_decide import PHASED, TOOLS, WRITE, brief, judge


def test_what_was_found_of_a_tool_is_not_believed_of_its_next_definition() -> None:
    rules = world.rules()
    run, lax = world.opened(rules), world.tool("write")
    assert brief(judge(run, rules, WRITE, tool=lax)) == ("allowed", "any", 1, 1)
    strict = world.tool("write", schema={"type": "object", "required": ["p"]})
    assert brief(judge(run, rules, WRITE, tool=strict))[:3] == ("denied", "schema", "invalid_arguments")
    down = replace(lax, healthy=False, trouble="restarting")
    assert brief(judge(run, rules, WRITE, tool=down))[:3] == ("denied", "tool", "upstream_unavailable")
    assert brief(judge(run, rules, WRITE, tool=lax)) == ("allowed", "any", 1, 1)


def test_what_was_found_of_a_tool_holds_for_the_same_one_seen_by_another() -> None:
    rules, lax = world.rules(), world.tool("write")
    found = rules.ruled(lax)
    assert rules.ruled(replace(lax)) is found  # an object of its own, with the same definition
    assert rules.ruled(replace(lax, definition={**lax.definition})) is not found  # equal, but perhaps 1 for True


def test_what_was_found_for_one_principal_or_phase_is_not_believed_of_another() -> None:
    able = [{"principal": "local:user", "authority": ["w"]}]
    rules = world.rules(grants=able, transitions=[{"name": "w", "tools": ["write"], "authority": ["w"]}])
    assert brief(judge(world.opened(rules), rules, WRITE)) == ("allowed", "w", 1, 1)
    other = replace(WRITE, principal=Principal(id="local:other"))
    run = world.opened(rules)._replace(principal=other.principal)
    assert brief(judge(run, rules, other))[:2] == ("denied", "authority")
    rules = world.rules(**PHASED)
    for phase in [*rules.policy.phases, *rules.policy.phases]:
        run = world.opened(rules)._replace(phase=phase)
        assert judge(run, rules, WRITE) == judge(run, world.rules(**PHASED), WRITE)


def test_what_is_kept_of_a_tool_is_bounded_whoever_asks_for_it() -> None:
    rules = world.rules()
    run, other = world.opened(rules), [replace(WRITE, principal=Principal(id=f"local:{one}")) for one in range(600)]
    for proposed in other:
        assert brief(judge(run._replace(principal=proposed.principal), rules, proposed)) == ("allowed", "any", 1, 1)
    assert len(rules.ruled(TOOLS["write"])._found) <= MAX_FOUND
