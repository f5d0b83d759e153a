"""A failed postcondition is made up for: by the gateway's own call, judged and recorded like any other."""

from tests.runtime.house import outcome
from tests.runtime.undoing import answer, kinds, sent, standing, swept, undoing


async def test_a_payment_that_was_not_made_right_is_refunded_in_the_same_call() -> None:
    async with undoing() as it:
        shown = await it.call("pay", {"amount": 5})
        assert sent(it) == [("pay", {"amount": 5}), ("refund", {"payment": "p_1", "amount": 5})]
        assert (await standing(it, "run_1.2")).state == "undone"
        assert await kinds(it) == []
        assert outcome(shown) == ""
        print(shown.refusal)
