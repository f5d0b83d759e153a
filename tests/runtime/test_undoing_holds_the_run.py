"""While something is to be undone, the run changes nothing else and does not end; afterwards it does."""

from typing import Any

from gateway.model.tool import Silence
from tests.runtime.house import House, outcome, refused
from tests.runtime.undoing import (
    ASKS,
    PAID,
    POLICY,
    REFUNDED,
    answer,
    finds,
    kinds,
    says,
    sent,
    standing,
    swept,
    transitions,
    undoing,
)

# --- the run meanwhile ----------------------------------------------------------------------------------------------


async def test_nothing_else_is_changed_while_something_is_to_be_undone() -> None:
    async with undoing(**ASKS) as it:
        await it.call("pay", {"amount": 5})
        assert refused(await it.call("write")) == ("held", "write")
        assert outcome(await it.call("read")) == "result"
        await says(it, approve=True)
        await swept(it)
        assert outcome(await it.call("write")) == "result"


async def test_an_equal_payment_in_another_run_waits_until_the_first_is_undone() -> None:
    async with undoing(**ASKS) as it:
        await it.open("run_2")
        await it.call("pay", {"amount": 5}, deliver=False)
        other = await it.call("pay", {"amount": 5}, run="run_2")
        assert refused(other) == ("in_flight", "pay")
        assert other.refusal is not None
        assert other.refusal.reason == "an equal call of run `run_1` is being undone"


async def test_what_was_undone_may_be_done_anew_even_where_it_is_never_repeated() -> None:
    once = POLICY["tools"] | {"pay": {"effect": "write", "repeat": "replay"}}
    async with undoing(tools=once) as it:
        await it.call("pay", {"amount": 5})
        it.upstreams.will("check", answer(paid=True))
        assert outcome(await it.call("pay", {"amount": 5})) == "result"
        assert sent(it) == [PAID, REFUNDED, PAID]
        assert outcome(await it.call("pay", {"amount": 5})) == "result"
        assert sent(it) == [PAID, REFUNDED, PAID], "but what stands is not"


async def test_the_phase_that_the_failure_leads_to_is_the_one_in_which_it_is_undone() -> None:
    doubt = transitions({"name": "refund", "tools": ["refund"], "from": ["doubt"]}, on={"verification_failed": "doubt"})
    async with undoing(transitions=doubt) as it:
        await it.call("pay", {"amount": 5})
        assert sent(it) == [PAID, REFUNDED]
        assert (await it.book.state_of("run_1")).phase == "doubt"


# --- stops wait -----------------------------------------------------------------------------------------------------


async def stopped(it: House) -> str | None:
    over = (await it.book.fresh_state_of("run_1")).stopped
    return None if over is None else str(over.outcome)


async def test_a_phase_that_ends_the_run_waits_for_the_refund() -> None:
    ends: dict[str, Any] = {
        "phases": {"open": {}, "doubt": {"ends": "human_escalation"}},
        "transitions": transitions(ASKS["transitions"][1], on={"verification_failed": "doubt"}),
    }
    async with undoing(**ends) as it:
        await it.call("pay", {"amount": 5})
        assert await stopped(it) is None
        assert refused(await it.call("read")) == ("human_escalation", "phases.doubt"), "nothing else is begun"
        await says(it, approve=True)
        await swept(it)
        assert sent(it) == [PAID, REFUNDED]
        assert (await kinds(it))[-2:] == ["receipt.recorded", "run.stopped"]


async def test_a_final_denial_waits_for_the_verifier_and_for_what_it_makes_necessary() -> None:
    forbid = [{"name": "never", "tools": ["write"], "final": True}]
    async with undoing(forbid=forbid) as it:
        refusals: list[Any] = []

        async def meanwhile(_: Any) -> Any:
            refusals.append(refused(await it.call("write", deliver=False)))
            refusals.append(await stopped(it))
            refusals.append(refused(await it.call("read", deliver=False)))
            return answer(paid=False)

        it.upstreams.will("check", meanwhile)
        await it.call("pay", {"amount": 5})
        assert refusals == [("denied", "never"), None, ("policy_denied", "never")]
        assert sent(it) == [PAID, REFUNDED]
        assert await stopped(it) == "policy_denied"
        over = (await it.book.state_of("run_1")).stopped
        assert over is not None
        denied = [record.seq for record, _ in await it.ledger.read("run_1") if record.event.kind == "proposal.denied"]
        assert over.evidence == (denied[0],)


async def test_the_deadline_lets_what_is_owed_be_undone_and_nothing_else() -> None:
    async with undoing(**ASKS, stops={"deadline_s": 100}, budgets={"elapsed_s": 90}) as it:
        await it.call("pay", {"amount": 5})
        it.clock.tell(200)
        assert refused(await it.call("read")) == ("deadline_missed", "stops.deadline_s")
        assert await stopped(it) is None
        await says(it, approve=True)
        await swept(it)
        assert sent(it) == [PAID, REFUNDED]
        assert await stopped(it) == "deadline_missed"


async def test_a_run_that_is_over_tells_what_a_person_must_undo() -> None:
    ends: dict[str, Any] = {
        "phases": {"open": {}, "doubt": {"ends": "human_escalation"}},
        "transitions": transitions({"name": "refund", "tools": ["write"]}, on={"verification_failed": "doubt"}),
    }
    async with undoing(**ends) as it:
        await it.call("pay", {"amount": 5})
        over = await it.call("read")
        assert refused(over) == ("human_escalation", "phases.doubt")
        assert over.refusal is not None
        assert [(one.attempt, one.state) for one in over.refusal.undone or ()] == [("run_1.2", "failed")]


async def test_evidence_that_comes_after_the_end_is_told_to_a_person() -> None:
    async with undoing(forbid=[{"name": "never", "tools": ["write"], "final": True}]) as it:
        it.upstreams.will("pay", Silence("slow"))
        await it.call("pay", {"amount": 5})
        await finds(it, "run_1.2", happened=False)
        await it.call("write")
        assert await stopped(it) == "policy_denied"
        it.upstreams.sent[0].late(answer(id="p_1"))  # type: ignore[misc]
        await it.settle()
        assert sent(it) == [PAID]
        assert (await standing(it, "run_1.2")).reason.endswith("; the run is over, and nothing is sent in it")
