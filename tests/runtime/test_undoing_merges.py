"""Effects that a merge was to take over for good are undone if it is rejected: the newest first, one after another."""

from typing import Any

from gateway.model.tool import NotSent, Silence
from tests import world
from tests.runtime.house import House, outcome, refused
from tests.runtime.undoing import POLICY, WAS_PAID, answer, finds, kinds, says, sent, standing, swept, undoing

ASKS = "args.ask == true"
BACK = {"tool": "refund", "arguments_from": {"payment": "args.n"}}
SAGA: dict[str, Any] = {
    "tools": POLICY["tools"] | {"refund": {"effect": "write"}},
    "transitions": [
        {"name": "branch", "tools": ["write"], "compensation": BACK},
        {"name": "merge", "tools": ["pay"], "merges": ["branch"], "verify": "paid", "approval": {"when": [ASKS]}},
        {"name": "any", "tools": ["refund", "read"]},
    ],
    "verifiers": {"paid": {"probe": {"tool": "check"}, "pass": [WAS_PAID]}},
}
MERGE = {"ask": False}
ASKED = {"ask": True}


def back(number: int) -> tuple[str, dict[str, Any]]:
    return ("refund", {"payment": number})


async def branches(it: House, *numbers: int) -> None:
    for number in numbers:
        assert outcome(await it.call("write", {"n": number})) == "result"


async def test_a_merge_that_is_not_proven_undoes_the_branches_the_newest_first() -> None:
    async with undoing(**SAGA) as it:
        await branches(it, 1, 2, 3)
        assert len((await it.book.state_of("run_1")).set_aside) == 3
        shown = await it.call("pay", MERGE)
        assert refused(shown) == ("verification_failed", "merge")
        assert sent(it, "refund") == [back(3), back(2), back(1)]
        assert len((await it.book.state_of("run_1")).set_aside) == 0


async def test_a_merge_that_is_proven_takes_them_over_for_good() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("check", answer(paid=True), answer(paid=False))
        await branches(it, 1, 2)
        await it.call("pay", MERGE)
        run = await it.book.state_of("run_1")
        assert (len(run.set_aside), len(run.undo), run.spent.mutations) == (0, 0, 3)
        await branches(it, 3)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == [back(3)], "what came before the first merge stays"


async def test_one_that_could_not_be_checked_decides_nothing() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("check", Silence("slow"))
        await branches(it, 1)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == []
        assert len((await it.book.state_of("run_1")).set_aside) == 1


async def test_a_merge_that_a_person_rejects_undoes_them_too_and_the_agent_is_told() -> None:
    async with undoing(**SAGA) as it:
        await branches(it, 1, 2)
        await it.call("pay", ASKED)
        await says(it, approve=False)
        assert await kinds(it) != []
        assert await swept(it) == 2
        assert sent(it, "refund", "pay") == [back(2), back(1)]
        shown = await it.call("pay", ASKED)
        assert refused(shown) == ("denied", "merge")
        assert shown.refusal is not None
        assert [(one.attempt, one.state) for one in shown.refusal.undone or ()] == [
            ("run_1.5", "undone"),
            ("run_1.2", "undone"),
        ]
        earlier = await it.engine.outcome("run_1.2", world.USER, world.PatientCaller())
        assert earlier.result is not None
        assert earlier.record is not None
        assert earlier.record["undone"]["says"] == "`refund` undid it"


async def test_one_that_cannot_be_undone_does_not_keep_the_others_from_it() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("refund", answer(refunded=True), world.ok(isError=True), answer(refunded=True))
        await branches(it, 1, 2, 3)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == [back(3), back(2), back(1)]
        states = [one.state for one in (await it.book.state_of("run_1")).undo.values()]
        assert sorted(states) == ["failed", "undone", "undone"]


async def test_while_the_newest_waits_the_older_ones_do() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("refund", NotSent("down"))
        await branches(it, 1, 2)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == [back(2)]
        assert refused(await it.call("write", {"n": 9})) == ("in_flight", "branch")
        assert await swept(it) == 2
        assert sent(it, "refund") == [back(2), back(2), back(1)]


async def test_branches_that_failed_or_never_were_need_no_undoing() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("write", world.ok(isError=True), NotSent("down"), Silence("slow"))
        for number in (1, 2, 3):
            await it.call("write", {"n": number})
        (unknown,) = (await it.book.state_of("run_1")).unsettled
        await finds(it, unknown, happened=False)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == []
        assert not (await it.book.state_of("run_1")).undo


async def test_a_branch_that_was_under_way_when_the_merge_was_rejected_is_undone_when_it_ends() -> None:
    async with undoing(**SAGA) as it:
        it.upstreams.will("write", Silence("slow"))
        await it.call("write", {"n": 1})
        await it.call("pay", MERGE)
        assert sent(it, "refund") == []
        it.upstreams.sent[0].late(answer())  # type: ignore[misc]
        await it.settle()
        assert sent(it, "refund") == [back(1)]
        assert (await standing(it, "run_1.2")).reason == "what would have taken its effect over was rejected"


async def test_a_branch_that_is_verified_itself_is_undone_at_once_where_that_fails() -> None:
    checked = [{**SAGA["transitions"][0], "verify": "paid"}, *SAGA["transitions"][1:]]
    async with undoing(**{**SAGA, "transitions": checked}) as it:
        it.upstreams.will("check", answer(paid=False), answer(paid=True), answer(paid=False))
        await it.call("write", {"n": 1})
        assert sent(it, "refund") == [back(1)]
        await it.call("write", {"n": 2})
        assert sent(it, "refund") == [back(1)]
        await it.call("pay", MERGE)
        assert sent(it, "refund") == [back(1), back(2)]


async def test_what_waits_for_a_merge_is_given_back_when_the_run_is_over() -> None:
    forbid = [{"name": "never", "tools": ["read"], "final": True}]
    shared = {"all": {"per": ["tenant"], "window": "ever", "limit": {"calls": 9}}}
    async with undoing(**SAGA, forbid=forbid, accounts=shared) as it:
        await branches(it, 1, 2)
        assert (await it.book.state_of("run_1")).spent.calls == 4
        assert refused(await it.call("read")) == ("policy_denied", "never")
        run = await it.book.state_of("run_1")
        assert (run.spent.calls, len(run.set_aside)) == (2, 0)


async def test_a_merge_may_be_undone_itself_and_comes_first() -> None:
    steps = [dict(one) for one in SAGA["transitions"]]
    steps[1]["compensation"] = {"tool": "refund", "arguments": {"payment": 0}}
    async with undoing(**{**SAGA, "transitions": steps}) as it:
        await branches(it, 1, 2)
        await it.call("pay", MERGE)
        assert sent(it, "refund") == [back(0), back(2), back(1)]
