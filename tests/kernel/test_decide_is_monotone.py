"""Less authority, lower limits, fuller accounts and one more rule that forbids never allow more.

What is compared is what passes *freely*: an intent that no person agreed to and of which nothing was waived.

What is not monotone, and by whose word:
- conditions that read `principal`: the policy itself says that more authority is less, `!('a' in principal.authority)`;
- a transition with `mode: observe` of its own: it lets pass, of whatever it names, what others would refuse;
- one more condition of a transition: it leaves the call to the next one, as in "above 100 a person, else nobody". Only
  of the last transition that names a tool it never allows more;
- accounts whose levels conditions read ("known recipients": the more was paid, the more passes).
"""

from dataclasses import replace
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.kernel.rules import Rules, compile_rules
from gateway.model.canonical import digest
from gateway.model.events import IntentRecorded, Verdict
from gateway.model.policy import UNITS
from gateway.model.run import Run
from tests import world
from tests.kernel import made

MANY = made.MANY
PLAIN = made.policies(made.PLAIN, ("enforce",))
"""Conditions of such policies read no principal and no account, and no rule has a mode other than its policy's."""


def compiled(fields: dict[str, Any]) -> Rules:
    """The policy under one digest, whatever is changed of it: what was approved stays approved."""
    return compile_rules(world.policy(**fields), digest("policy", world.SALT))


def free(verdict: Verdict) -> bool:
    """Whether it is sent, and nobody had to agree or look away."""
    return isinstance(verdict, IntentRecorded) and verdict.approval is None and not verdict.waived


def sent(verdict: Verdict) -> bool:
    """Whether it is sent without a person."""
    return isinstance(verdict, IntentRecorded) and verdict.approval is None


def no_more(less: Verdict, more: Verdict) -> None:
    """What passes with less passes with more."""
    assert not free(less) or free(more), (less, more)
    assert not sent(less) or sent(more), (less, more)


LAXER_LATER: dict[str, Any] = {
    "grants": made.GRANTS,
    "transitions": [{"name": "t0", "tools": ["*"], "authority": ["a"], "approval": {}}, {"name": "t1", "tools": ["*"]}],
}


def holding(run: Run, rules: Rules, told: made.Seen, at: float, held: frozenset[str]) -> Verdict:
    """The verdict about a payment by the user of the run with this authority."""
    proposed = world.proposal("pay", {"n": 2, "to": "x"}, principal=made.user(held))
    return made.judge(run, proposed, rules, told, at)


@MANY
@given(data=st.data(), fields=PLAIN)
@example(data=None, fields=LAXER_LATER)
def test_fewer_roles_grants_or_scopes_never_allow_more(data: Any, fields: dict[str, Any]) -> None:
    rules = compiled(fields)
    if data is None:
        life, told = made.Life(world.opened(rules)), made.Seen()
        few, many = frozenset[str](), frozenset({"a"})
    else:
        life, told = data.draw(made.lives(rules)), data.draw(made.seen())
        many = frozenset(data.draw(made.some(made.AUTHORITIES)))
        few = frozenset(data.draw(made.some(tuple(sorted(many))))) if many else many
    less = holding(life.run, rules, told, life.at, few)
    no_more(less, holding(life.run, rules, told, life.at, many))
    granted = [grant for grant in fields["grants"] if few.issuperset(grant["authority"])]
    no_more(holding(life.run, compiled(fields | {"grants": granted}), told, life.at, many), less)
    no_more(less, holding(life.run, compiled(fields | {"grants": granted}), told, life.at, many))


@st.composite
def ranked(draw: st.DrawFn) -> dict[str, Any]:
    """Policies about nothing but who may do what, and what else is asked of whom."""
    those = draw(made.transitions(made.PLAIN[:2], ()).filter(lambda those: len(those) > 1))
    kept = ("when", "preconditions", "approval", "charge", "retry", "max_attempts")
    return {
        "grants": made.GRANTS,
        "verifiers": {"t": made.VERIFIER, "u": made.VERIFIER},
        "budgets": draw(made.LIMITS),
        "transitions": [
            {"name": one["name"], "tools": ["*"], "authority": draw(made.some(made.AUTHORITIES))}
            | {name: one[name] for name in kept if name in one}
            for one in those
        ],
    }


EACH = [frozenset(those) for those in ((), "a", "b", "ab")]


@settings(made.MANY, max_examples=2 * made.EXAMPLES)
@given(data=st.data(), fields=ranked())
def test_of_any_two_principals_the_one_with_more_authority_may_no_less(
    data: st.DataObject, fields: dict[str, Any]
) -> None:
    rules = compiled(fields)
    life, told = data.draw(made.lives(rules, 2)), data.draw(made.seen())
    found = {held: holding(life.run, rules, told, life.at, held) for held in EACH}
    for few in EACH:
        for many in EACH:
            if few < many:
                no_more(found[few], found[many])


def test_a_transition_that_is_kept_back_keeps_back_those_that_ask_less_than_it() -> None:
    """Else whoever may do more by `s` would come to `t`, which is never repeated, and whoever may not to `u`."""
    those: list[dict[str, Any]] = [
        {"name": "r", "authority": ["a"], "preconditions": ["t"]},
        {"name": "s", "authority": ["b"], "charge": {"calls": 2}},
        {"name": "t", "preconditions": ["t"], "retry": "never"},
        {"name": "u", "preconditions": ["t"], "charge": {"calls": 2}},
    ]
    transitions = [one | {"tools": ["*"]} for one in those]
    rules = compiled({"grants": made.GRANTS, "verifiers": {"t": made.VERIFIER}, "transitions": transitions})
    life = made.Life(world.opened(rules))
    life.goes_on(holding(life.run, rules, made.Seen(), life.at, frozenset("a")))
    for kind in ("receipt.recorded", "outcome.delivered"):
        life.goes_on(made.happens(life.run.attempts["run_1.2"], kind, 0, life.at))
    found = {held: holding(life.run, rules, made.Seen(), life.at, held) for held in EACH}
    no_more(found[EACH[0]], found[frozenset("b")])


@MANY
@given(data=st.data(), fields=PLAIN)
def test_a_run_with_a_lower_ceiling_never_may_more(data: st.DataObject, fields: dict[str, Any]) -> None:
    rules = compiled(fields)
    life, told, proposed = data.draw(made.lives(rules)), data.draw(made.seen()), data.draw(made.proposals())
    ceiling = data.draw(st.none() | made.some(made.AUTHORITIES).map(frozenset))
    lower = frozenset(data.draw(made.some(tuple(sorted(made.AUTHORITIES if ceiling is None else ceiling or {"b"})))))
    lower = lower if ceiling is None else lower & ceiling
    more = made.judge(life.run._replace(delegated=ceiling), proposed, rules, told, life.at)
    no_more(made.judge(life.run._replace(delegated=lower), proposed, rules, told, life.at), more)


@MANY
@given(data=st.data(), fields=made.policies(), more=made.forbids(made.LOOSE, ("observe", "enforce")))
def test_one_more_rule_that_forbids_never_allows_more(
    data: st.DataObject, fields: dict[str, Any], more: dict[str, Any]
) -> None:
    rules = compiled(fields)
    life, told, proposed = data.draw(made.lives(rules)), data.draw(made.seen()), data.draw(made.proposals())
    place = data.draw(st.integers(0, len(fields["forbid"])))
    forbid = [*fields["forbid"][:place], more | {"name": "one-more"}, *fields["forbid"][place:]]
    stricter = compiled(fields | {"forbid": forbid})
    no_more(
        made.judge(life.run, proposed, stricter, told, life.at), made.judge(life.run, proposed, rules, told, life.at)
    )


@MANY
@given(data=st.data(), fields=made.policies(), condition=st.sampled_from(made.LOOSE))
def test_one_more_condition_of_the_last_transition_never_allows_more(
    data: st.DataObject, fields: dict[str, Any], condition: str
) -> None:
    rules = compiled(fields)
    life, told, proposed = data.draw(made.lives(rules)), data.draw(made.seen()), data.draw(made.proposals())
    *others, last = fields["transitions"]
    stricter = compiled(fields | {"transitions": [*others, last | {"when": [condition, *last.get("when", [])]}]})
    no_more(
        made.judge(life.run, proposed, stricter, told, life.at), made.judge(life.run, proposed, rules, told, life.at)
    )


def lowered(draw: Any, limits: dict[str, Any]) -> dict[str, Any]:
    """These limits or lower ones, and perhaps some that were none."""
    extra = draw(made.LIMITS)
    both = {unit: min(limits[unit], extra[unit]) for unit in limits if unit in extra}
    lower: dict[str, Any] = extra | limits | both
    return lower


@MANY
@given(data=st.data(), fields=PLAIN)
def test_lower_limits_and_fuller_accounts_never_allow_more(data: st.DataObject, fields: dict[str, Any]) -> None:
    rules = compiled(fields)
    life, told, proposed = data.draw(made.lives(rules)), data.draw(made.seen()), data.draw(made.proposals())
    more = made.judge(life.run, proposed, rules, told, life.at)
    lower = {
        name: one | {"limit": lowered(data.draw, one.get("limit", {}))} for name, one in fields["accounts"].items()
    }
    stricter = compiled(fields | {"budgets": lowered(data.draw, fields["budgets"]), "accounts": lower})
    no_more(made.judge(life.run, proposed, stricter, told, life.at), more)
    fuller = {unit: told.levels.get(unit, 0) + data.draw(st.integers(0, 3)) for unit in UNITS}
    no_more(made.judge(life.run, proposed, rules, replace(told, levels=fuller), life.at), more)
    if "run.calls" not in str(fields):
        dearer = life.run.spent.model_copy(update={"calls": life.run.spent.calls + 1, "cost": life.run.spent.cost + 9})
        no_more(made.judge(life.run._replace(spent=dearer), proposed, rules, told, life.at), more)


@MANY
@given(data=st.data(), fields=made.policies(modes=()))
def test_observe_waives_nothing_exactly_where_enforce_allows(data: st.DataObject, fields: dict[str, Any]) -> None:
    """The same call in the same state: what is recorded as "would have been refused" is what is refused."""
    enforcing, observing = compiled(fields | {"mode": "enforce"}), compiled(fields | {"mode": "observe"})
    life = data.draw(made.lives(data.draw(st.sampled_from([enforcing, observing]))))
    proposed, told = data.draw(made.proposals()), data.draw(made.seen())
    enforced = made.judge(life.run, proposed, enforcing, told, life.at)
    observed = made.judge(life.run, proposed, observing, told, life.at)
    if isinstance(enforced, IntentRecorded):
        assert isinstance(observed, IntentRecorded), "observe refuses what enforce allows"
        assert not observed.waived
        assert (observed.transition, observed.charge, observed.approval) == (
            enforced.transition, enforced.charge, enforced.approval,
        )  # fmt: skip
    elif isinstance(observed, IntentRecorded):
        assert observed.waived, "enforce refuses what observe lets pass without a word"
    reservations = {one.limit for one in observed.accounts} if isinstance(observed, IntentRecorded) else {None}
    assert reservations <= {None}, "who observes binds no account"
