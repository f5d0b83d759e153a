"""What whoever starts a gateway is told of a policy that does less, or more, than they may think."""

from gateway.runtime.policies import keyless, surprises
from tests import world


def test_a_policy_that_only_observes_or_names_no_offered_tool_says_so() -> None:
    policy = world.policy(transitions=[{"name": "r", "tools": ["read_*"]}])
    assert list(surprises(policy, {"read_file"}, default=True)) == []
    assert list(surprises(policy, {"fs__read_file", "fs__a"}, default=True)) == [
        "no transition names any tool that is offered, such as `fs__a`: every call is denied"
    ]
    assert list(surprises(policy, {"fs__read_file"}, default=False)) == []
    assert list(surprises(policy, set(), default=True)) == []
    observing = policy.model_copy(update={"mode": "observe"})
    assert list(surprises(observing, {"read_file"}, default=False)) == [
        "the mode is `observe`: what it would refuse is recorded, and passes"
    ]


def test_a_key_in_a_header_does_not_come_to_a_server_over_stdio_and_that_is_said() -> None:
    key = {"kind": "key", "key": {"header": "Idempotency-Key"}, "valid_s": 60}
    by_argument = {"kind": "key", "key": {"argument": "key"}, "valid_s": 60}
    policy = world.policy(
        tools={"send": {"idempotency": by_argument}, "s*": {"idempotency": key}, "p*": {"idempotency": key}}
    )
    said = (
        "goes into the header `Idempotency-Key`, which no server over stdio gets: a call whose outcome is unknown is "
    )
    assert list(keyless(policy, {"send", "other"})) == []
    assert list(keyless(policy, {"pay"})) == [f"the key of `pay` {said}not sent again"]
    assert list(keyless(policy, {"say", "pay", "put"})) == [f"the key of `pay` and 2 others {said}not sent again"]
