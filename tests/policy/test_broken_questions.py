"""What is wrong with a question to people is told in its place, each mistake once."""

from pathlib import Path

import pytest

from gateway.outbound.policy_files import PolicyProblems, load_policy
from gateway.runtime.policies import condition_trouble

OWN = "the user of the asking client acts as the principal of the run: say `self_review: true` as well"
REUSE = "say how often (`times`) or for how long (`for_s`) a yes may be used"
SAME = "without `varies` all calls are the same: there is nothing to bound"
LATE = "`own` looks at the call's own result, which there is not before the call"
TWICE = "`stages` says who must agree: leave out"
POLICY = """workflow: w
verifiers: {{own: {{result: {{}}, pass: ['true']}}, it: {{file: {{place: a, path: b}}, pass: ['true']}}}}
transitions:
- name: a
  tools: ['*']
  approval: {}
"""


@pytest.mark.parametrize(
    ("approval", "says"),
    [
        ("{caller: true}", f"6:22: transitions.0.approval.caller: {OWN}"),
        ("{stages: [{role: x}], role: y}", f"6:41: transitions.0.approval.role: {TWICE} `role`"),
        ("{stages: [{}], quorum: 2}", f"6:36: transitions.0.approval.quorum: {TWICE} `quorum`"),
        ("{reuse: {varies: [n]}}", f"6:21: transitions.0.approval.reuse: {REUSE}"),
        ("{reuse: {times: 2, within: ['args.n < 2']}}", f"6:40: transitions.0.approval.reuse.within: {SAME}"),
        ("{unchanged: [own]}", f"6:26: transitions.0.approval.unchanged.0: {LATE}"),
        ("{unchanged: [other]}", "6:26: transitions.0.approval.unchanged.0: no verifier is named `other`"),
        ("{risk: grave}", "6:20: transitions.0.approval.risk: one of `low`, `medium`, `high`, `critical` is wanted"),
        ("{load: {decisions: 0}}", "6:32: transitions.0.approval.load.decisions: a number of at least 1 is wanted"),
    ],
)  # fmt: skip
def test_each_mistake_is_told_in_its_place(tmp_path: Path, approval: str, says: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(POLICY.format(approval))
    with pytest.raises(PolicyProblems) as caught:
        load_policy(path, condition_trouble)
    told = [str(one).removeprefix(f"{path}:") for one in caught.value.problems]
    assert len(told) == 1
    assert told[0].startswith(says), told[0]


def test_a_question_that_says_all_is_right(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    whole = """{reason: r, stages: [{role: a, quorum: 2}, {role: b}], risk: high, reasons: always, unchanged: it,
    self_review: true, caller: true, valid_s: 60, hold_s: 10, load: {decisions: 9, window: day},
    reuse: {times: 3, for_s: 60, varies: [n], within: ['args.n < 2']}}"""
    path.write_text(POLICY.format(whole))
    approval = load_policy(path, condition_trouble).transitions[0].approval
    assert approval is not None
    assert approval.reuse is not None
    assert (approval.unchanged, approval.reuse.varies) == (("it",), ("n",))
