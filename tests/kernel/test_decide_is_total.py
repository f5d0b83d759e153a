"""Any policy, any state, any arguments, any world: a verdict, which can be stored and from which the run goes on."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.kernel.reduce import fold, reduce
from gateway.kernel.stop import stop
from gateway.model.events import IntentRecorded
from gateway.model.principal import Principal
from gateway.model.proposal import Proposal
from gateway.model.record import Record, decode, encode, link, utc
from gateway.model.run import Run
from gateway.model.tool import Tool
from tests import world
from tests.kernel import made

MANY = made.MANY

ODD_TOOLS = st.sampled_from(
    [
        *made.TOOLS.values(),
        world.tool("pay", schema={"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}),
        world.tool("pay", schema={"$ref": "https://nowhere.test/"}),
        world.tool("pay", schema={"type": "object", "properties": {"n": {"pattern": "("}}}),
        Tool("pay", "fake", "pay", {"inputSchema": "none", "annotations": [1]}),
        Tool("pay", "fake", "pay", {}, healthy=False),
        Tool("pay", "fake", "pay", {}, healthy=False, trouble="no", withheld=True),
        Tool("p\u0430y", "fake", "p\u0430y", {"name": "p\u0430y", "inputSchema": {"properties": 1}}),
        None,
    ]
)


@st.composite
def worlds(draw: st.DrawFn) -> made.Seen:
    """Some world, with levels that nobody expects, and tools that no server should offer."""
    levels = draw(st.dictionaries(st.sampled_from(["calls", "tokens", "cost", "reviews"]), made.HUGE))
    odd = draw(ODD_TOOLS)
    tools = dict.fromkeys(made.NAMES, odd) if odd is not None else {}
    return replace(draw(made.seen()), levels=levels, tools=draw(st.sampled_from([made.TOOLS, tools])))


@st.composite
def asked(draw: st.DrawFn, run: Run) -> Proposal:
    """Some call, perhaps of somebody else, or the next round of an attempt."""
    proposed = draw(made.proposals(made.ARGUMENTS | made.HOSTILE))
    proposed = replace(proposed, tool=draw(st.sampled_from([*made.NAMES, "", "n\x00pe", "w" * 300])))
    if draw(st.booleans()) and run.attempts:
        attempt = draw(st.sampled_from(sorted(run.attempts.values(), key=lambda one: one.seq)))
        if draw(st.booleans()):
            proposed = replace(proposed, tool=attempt.intent.tool, arguments_digest=attempt.intent.arguments)
        return made.resuming(proposed, attempt)
    if draw(st.integers(0, 9)) == 0:
        return replace(proposed, principal=Principal(id="someone", tenant="other"))
    return proposed


@MANY
@given(data=st.data(), fields=made.policies())
def test_any_call_in_any_state_becomes_a_verdict_from_which_the_run_goes_on(
    data: st.DataObject, fields: dict[str, Any]
) -> None:
    rules = world.rules(**fields)
    life = data.draw(made.lives(rules))
    at = life.at + data.draw(st.sampled_from([0.0, 1.0, 2000.0, -5.0, 1e9]))
    run, told = life.run, data.draw(worlds())
    verdict = made.judge(run, data.draw(asked(run)), rules, told, at)
    record = Record(run=run.id, seq=run.version + 1, at=utc(at), previous=run.head, event=verdict)
    stored = encode(record)
    assert encode(decode(stored)) == stored
    after = reduce(run, record, link(stored))
    assert after == fold([(decode(stored), link(stored))], run)
    stopped = stop(after, rules, utc(at))
    if stopped is not None:
        assert after.origin != "default", "a shared run never stops"
        assert world.after(after, stopped).stopped == stopped
    if run.stopped is not None:
        assert verdict.kind in {"proposal.denied", "proposal.replayed", "proposal.held"}
    if isinstance(verdict, IntentRecorded):
        assert run.stopped is None, "nothing is intended in a run that is over"


@MANY
@given(data=st.data(), fields=made.policies())
def test_the_same_question_has_the_same_answer(data: st.DataObject, fields: dict[str, Any]) -> None:
    """Nothing that is kept of a tool or a principal changes what is decided."""
    rules, fresh = world.rules(**fields), world.rules(**fields)
    life = data.draw(made.lives(rules))
    proposed, told = data.draw(made.proposals()), data.draw(made.seen())
    first = made.judge(life.run, proposed, rules, told, life.at)
    assert made.judge(life.run, proposed, rules, told, life.at) == first
    assert made.judge(life.run, proposed, fresh, told, life.at) == first


ATOMS = st.sampled_from(
    [
        "args.gone > 1",
        "args.gone == 'a'",
        "args.gone.deep == 1",
        "size(args.gone) < 3",
        "args.gone in ['a', 'b']",
        "args.gone.startsWith('a')",
        "values.known.exists(one, one == args.gone)",
        "args['gone'] != 2",
    ]
)
MISSING = st.recursive(
    ATOMS,
    lambda inner: (
        inner.map(lambda one: f"!({one})")
        | st.tuples(inner, st.sampled_from(["&&", "||"]), inner).map(lambda parts: f"({' '.join(parts)})")
        | st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} ? {parts[1]} : {parts[2]})")
    ),
    max_leaves=5,
)


@settings(max_examples=40, deadline=None)
@given(expression=MISSING)
def test_what_cannot_be_judged_allows_nothing_forbids_and_asks_a_person(expression: str) -> None:
    places: dict[str, dict[str, Any]] = {
        "proposal.denied": {"transitions": [{"name": "t", "tools": ["*"], "when": [expression]}]},
        "proposal.denied again": {"forbid": [{"name": "f", "when": [expression]}]},
        "approval.requested": {"transitions": [{"name": "t", "tools": ["*"], "approval": {"when": [expression]}}]},
    }
    for kind, fields in places.items():
        rules = world.rules(**fields, values={"known": ["x"]})
        run = world.opened(rules)
        verdict = made.judge(run, world.proposal("pay", {"n": 1}), rules, made.Seen(), world.T0)
        assert verdict.kind == kind.removesuffix(" again")
