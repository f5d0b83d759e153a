"""A failed postcondition is made up for: by the gateway's own call, judged and recorded like any other."""

from dataclasses import replace
from typing import Any

import pytest

from gateway.model.events import Outcome
from gateway.model.tool import NotSent, ProtocolError, Silence
from gateway.runtime.undo import MISSING_S, MOST_S
from tests import world
from tests.runtime.house import outcome, refused
from tests.runtime.undoing import (
    ASKS,
    PAID,
    PAY,
    POLICY,
    REFUND,
    REFUNDED,
    answer,
    finds,
    kinds,
    says,
    sent,
    standing,
    swept,
    told,
    transitions,
    undoing,
    upstreams,
)


async def test_a_payment_that_was_not_made_right_is_refunded_in_the_same_call() -> None:
    async with undoing() as it:
        shown = await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID, REFUNDED]
        assert await kinds(it) == [
            "run.opened",
            "intent.recorded",
            "receipt.recorded",
            "evidence.recorded",
            "compensation.owed",
            "intent.recorded",
            "receipt.recorded",
            "outcome.delivered",
        ]
        assert shown.refusal is not None
        assert shown.refusal.outcome is Outcome.VERIFICATION_FAILED
        assert [one.model_dump() for one in shown.refusal.undone or ()] == [
            {"attempt": "run_1.2", "state": "undone", "tool": "refund", "by": "run_1.6", "says": "`refund` undid it"}
        ]
        assert shown.refusal.next.endswith("and `refund` undid it. Find out why before you make a new call.")


async def test_what_undoes_a_call_is_recorded_as_that_with_a_key_of_its_own() -> None:
    async with undoing() as it:
        await it.call("pay", {"amount": 5})
        intent = (await it.ledger.read("run_1"))[5][0].event
        assert (intent.compensates, intent.key.source, intent.key.value) == ("run_1.2", "undo", "run_1.2")
        owed = (await it.ledger.read("run_1"))[4][0].event
        assert owed.because == (4,)


@pytest.mark.parametrize(
    "checked", [answer(paid=True), answer(other=1), Silence("slow"), world.ok(isError=True)], ids=str
)
async def test_only_a_failure_undoes(checked: Any) -> None:
    async with undoing() as it:
        it.upstreams.will("check", checked)
        await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID]
        run = await it.book.state_of("run_1")
        assert (len(run.set_aside), len(run.undo), run.spent.mutations) == (0, 0, 1)


async def test_a_payment_that_was_refused_or_never_sent_is_not_refunded() -> None:
    async with undoing() as it:
        it.upstreams.will("pay", NotSent("down"), world.ok(isError=True), ProtocolError({"code": -1, "message": "no"}))
        for amount in (1, 2, 3):
            await it.call("pay", {"amount": amount})
        assert sent(it, "refund") == []
        run = await it.book.state_of("run_1")
        assert (len(run.set_aside), len(run.undo), run.spent.mutations) == (0, 0, 2)


async def test_a_payment_that_is_found_only_later_is_refunded_then() -> None:
    async with undoing() as it:
        it.upstreams.will("pay", Silence("slow"))
        assert outcome(await it.call("pay", {"amount": 5})) == "timeout_unknown"
        assert len((await it.book.state_of("run_1")).set_aside) == 1
        it.upstreams.sent[0].late(answer(id="p_1"))  # type: ignore[misc]
        await it.settle()
        assert sent(it) == [PAID, REFUNDED]


async def test_a_payment_that_was_said_not_to_have_happened_and_did_is_refunded_all_the_same() -> None:
    async with undoing() as it:
        it.upstreams.will("pay", Silence("slow"))
        await it.call("pay", {"amount": 5})
        await finds(it, "run_1.2", happened=False)
        assert not (await it.book.state_of("run_1")).set_aside
        it.upstreams.sent[0].late(answer(id="p_1"))  # type: ignore[misc]
        await it.settle()
        assert sent(it) == [PAID, REFUNDED]


# --- a person first -------------------------------------------------------------------------------------------------


async def test_where_policy_asks_a_person_the_refund_waits_for_the_answer() -> None:
    async with undoing(**ASKS) as it:
        shown = await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID]
        assert shown.refusal is not None
        assert shown.refusal.approval is not None
        assert [(one.state, one.says) for one in shown.refusal.undone or ()] == [
            ("waits", "a person must agree to `refund` first")
        ]
        assert "a person must agree to `refund`" in shown.refusal.next
        before = len(await kinds(it))
        assert await swept(it) == 0
        assert len(await kinds(it)) == before, "a wait that is known is not recorded again"
        await says(it, approve=True)
        assert await swept(it) == 1
        assert sent(it) == [PAID, REFUNDED]
        assert (await told(it)).undone[0].state == "undone"  # type: ignore[index]


async def test_a_refund_that_a_person_rejects_is_theirs_to_make() -> None:
    async with undoing(**ASKS) as it:
        await it.call("pay", {"amount": 5})
        await says(it, approve=False)
        assert await swept(it) == 1
        assert sent(it) == [PAID]
        undone = (await told(it)).undone
        assert [(one.state, one.says) for one in undone or ()] == [
            ("failed", "a person must undo it: `local:boss` rejected this action: so")
        ]
        assert "Tell the user that a person must undo it" in (await told(it)).next


async def test_a_question_about_a_refund_that_nobody_answers_is_asked_again() -> None:
    async with undoing(**ASKS) as it:
        await it.call("pay", {"amount": 5})
        it.clock.tell(86_400)
        await swept(it)
        assert (await kinds(it)).count("approval.requested") == 2
        await says(it, approve=True)
        await swept(it)
        assert sent(it) == [PAID, REFUNDED]


# --- what keeps it from being made ----------------------------------------------------------------------------------


def undone_by(**changes: Any) -> dict[str, Any]:
    """The policy's transitions, with another compensation."""
    return {"transitions": transitions(compensation={**REFUND, **changes})}


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            undone_by(arguments_from={"payment": "result.structuredContent.number"}),
            (
                "with what to call `refund` cannot be told: its argument `payment`: "
                "`result.structuredContent.number` is missing"
            ),
        ),
        (undone_by(tool="read"), "`read` only reads, and undoes nothing"),
        (
            {"transitions": transitions({"name": "refund", "tools": ["refund"], "from": ["doubt"]})},
            "`refund` is not legal in phase `open`; it is in `doubt`",
        ),
        (
            {"transitions": transitions({"name": "refund", "tools": ["refund"], "authority": ["money"]})},
            "`local:user` lacks the authority `money`",
        ),
        (
            {"forbid": [{"name": "never", "tools": ["refund"], "reason": "no refunds", "final": True}]},
            "no refunds",
        ),
        ({"transitions": [PAY]}, "no transition of this policy allows `refund`, a write tool"),
    ],
)  # fmt: skip
async def test_what_cannot_be_undone_is_handed_to_a_person(fields: dict[str, Any], reason: str) -> None:
    async with undoing(**fields) as it:
        shown = await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID]
        assert shown.refusal is not None
        assert [(one.state, one.says) for one in shown.refusal.undone or ()] == [
            ("failed", f"a person must undo it: {reason}")
        ]
        run = await it.book.state_of("run_1")
        assert (len(run.owed), len(run.set_aside), run.stopped) == (0, 0, None), "nothing is held back any more"
        assert await swept(it) == 0
        assert sent(it) == [PAID]


@pytest.mark.parametrize("ended", [world.ok(isError=True), ProtocolError({"code": -1, "message": "no"})], ids=str)
async def test_a_refund_that_ends_with_an_error_is_not_made_again(ended: Any) -> None:
    async with undoing() as it:
        it.upstreams.will("refund", ended)
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert (shown.refusal.undone or ())[0].says == (
            "a person must undo it: `run_1.6`, which was to undo it, ended with an error"
        )
        assert await swept(it) == 0
        assert sent(it) == [PAID, REFUNDED]


async def test_a_refund_whose_result_breaks_its_schema_proves_nothing() -> None:
    async with undoing() as it:
        schema = {"type": "object", "required": ["refunded"], "properties": {"refunded": {"const": True}}}
        it.upstreams.offer(world.tool("refund", outputSchema=schema))
        it.upstreams.will("refund", answer(refunded="no"))
        await it.call("pay", {"amount": 5})
        assert (await standing(it, "run_1.2")).reason == (
            "`run_1.6`, which was to undo it, has a result that breaks its schema"
        )


async def test_a_tool_that_is_missing_is_waited_for_and_then_a_person_must() -> None:
    async with undoing() as it:
        refund = it.upstreams.tools.pop("refund")
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert (shown.refusal.undone or ())[0].state == "under_way"
        assert await swept(it) == 0
        it.upstreams.offer(refund)
        assert await swept(it) == 1
        assert sent(it) == [PAID, REFUNDED]
        del it.upstreams.tools["refund"]
        await it.call("pay", {"amount": 6})
        it.clock.tell(MISSING_S)
        assert await swept(it) == 1
        assert (await standing(it, "run_1.9")).reason == "no upstream offers a tool named `refund`"


async def test_a_server_that_is_down_is_waited_for_and_that_is_said_once() -> None:
    async with undoing() as it:
        healthy = it.upstreams.tools["refund"]
        it.upstreams.offer(replace(healthy, healthy=False, trouble="it is ill"))
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert [(one.state, one.says) for one in shown.refusal.undone or ()] == [
            ("waits", "`refund` waits: the upstream `fake` cannot be called: it is ill")
        ]
        for _ in range(3):
            assert await swept(it) == 0
        assert (await kinds(it)).count("proposal.denied") == 1
        it.upstreams.offer(healthy)
        assert await swept(it) == 1
        assert sent(it) == [PAID, REFUNDED]


async def test_a_refund_that_was_not_sent_is_sent_by_a_later_sweep() -> None:
    async with undoing() as it:
        it.upstreams.will("refund", NotSent("refused"))
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        (undone,) = shown.refusal.undone or ()
        says = "`refund` could not be sent, and is tried again"
        assert (undone.state, undone.by, undone.says) == ("waits", None, says)
        assert (await standing(it, "run_1.2")).state == "owed"
        assert await swept(it) == 1
        assert sent(it) == [PAID, REFUNDED, REFUNDED]


@pytest.mark.parametrize("rule", [{"retry": "never"}, {"retry": "unsent"}, {"max_attempts": 1}])
async def test_a_refund_that_was_not_sent_is_no_repetition(rule: dict[str, Any]) -> None:
    async with undoing(transitions=transitions({"name": "refund", "tools": ["refund"], **rule})) as it:
        it.upstreams.will("refund", NotSent("refused"), NotSent("refused"))
        await it.call("pay", {"amount": 5})
        for _ in range(6):
            await it.recovery.sweep()
            it.clock.tell(16)
        assert sent(it) == [PAID, REFUNDED, REFUNDED, REFUNDED]
        assert (await standing(it, "run_1.2")).state == "undone"


@pytest.mark.parametrize("rule", [{"retry": "never"}, {"max_attempts": 1}])
async def test_a_refund_that_policy_lets_nobody_make_twice_is_not_made_twice(rule: dict[str, Any]) -> None:
    tools = {**POLICY["tools"], "refund": {"effect": "write", "cost": 0.5}}
    ruled = transitions({"name": "refund", "tools": ["refund"], **rule})
    async with undoing(tools=tools, transitions=ruled) as it:
        await it.call("refund", {"payment": "p_1", "amount": 5})
        await it.call("pay", {"amount": 5})
        assert sent(it) == [REFUNDED, PAID]
        assert (await standing(it, "run_1.5")).state == "failed"


async def test_a_refund_that_cannot_be_sent_is_tried_less_and_less_often() -> None:
    made = upstreams()
    made.always = {**made.always, "refund": NotSent("refused")}
    async with undoing(upstreams=made) as it:
        await it.call("pay", {"amount": 5})
        for _ in range(3600 // 15):
            await it.recovery.sweep()
            it.clock.tell(15)
        tries = len(sent(it, "refund"))
        assert 10 <= tries <= 20
        made.always = {**made.always, "refund": answer(refunded=True)}
        it.clock.tell(MOST_S)
        assert await it.recovery.sweep() == 1


@pytest.mark.parametrize("happened", [True, False])
async def test_a_refund_of_which_nothing_is_known_is_settled_by_a_person(*, happened: bool) -> None:
    async with undoing() as it:
        it.upstreams.will("refund", Silence("slow"))
        shown = await it.call("pay", {"amount": 5})
        assert shown.refusal is not None
        assert (shown.refusal.undone or ())[0].says == (
            "whether `refund` undid it is not known; a person must settle `run_1.6`"
        )
        assert await swept(it) == 0, "it is never sent again by itself"
        assert refused(await it.call("write")) == ("held", "write")
        await finds(it, "run_1.6", happened=happened)
        says = "`refund` undid it" if happened else "`refund` was sent and did not happen; it is made again"
        assert ((await told(it)).undone or ())[0].says == says
        assert await swept(it) == (0 if happened else 1)
        assert sent(it, "pay", "refund") == [PAID, REFUNDED] + ([] if happened else [REFUNDED])
        assert (await standing(it, "run_1.2")).state == "undone"


async def test_a_late_answer_of_a_refund_is_its_end() -> None:
    async with undoing() as it:
        it.upstreams.will("refund", Silence("slow"))
        await it.call("pay", {"amount": 5})
        it.upstreams.sent[-1].late(answer(refunded=True))  # type: ignore[misc]
        await it.settle()
        assert (await standing(it, "run_1.2")).state == "undone"


async def test_a_refund_that_was_made_before_is_not_made_again() -> None:
    async with undoing() as it:
        await it.call("refund", {"payment": "p_1", "amount": 5})
        await it.call("pay", {"amount": 5})
        assert sent(it) == [REFUNDED, PAID]
        assert "an equal call, `run_1.2`, was made before" in (await standing(it, "run_1.5")).reason


# --- a refund that is itself verified -------------------------------------------------------------------------------

CHECKED: dict[str, Any] = {
    "transitions": transitions(
        {"name": "refund", "tools": ["refund"], "verify": "back", "compensation": {"tool": "pay"}}
    ),
    "verifiers": POLICY["verifiers"]
    | {"back": {"probe": {"tool": "read"}, "pass": ["result.structuredContent.back == true"]}},
}


@pytest.mark.parametrize(
    ("found", "state"), [(answer(back=True), "undone"), (answer(back=False), "failed"), (Silence("slow"), "failed")]
)
async def test_a_refund_may_have_to_be_proven_and_is_never_undone_itself(found: Any, state: str) -> None:
    async with undoing(**CHECKED) as it:
        it.upstreams.will("read", found)
        await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID, REFUNDED]
        undone = await standing(it, "run_1.2")
        assert undone.state == state
        assert state == "undone" or undone.reason.startswith("`run_1.6` was to undo it, but `back` ")
