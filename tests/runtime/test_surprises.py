"""What whoever starts a gateway is told of a policy that does less, or more, than they may think."""

from gateway.runtime.policies import surprises
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
