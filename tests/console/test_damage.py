"""One run that cannot be read hides no other from people, and keeps them from no answer."""

from dataclasses import replace

import pytest

from gateway.model.review import Answer, Refused
from gateway.outbound.ledger import MemoryLedger
from tests.console.office import office
from tests.console.reviewing import API, ASKS, ROOT_USER, reviewing
from tests.runtime.house import house

pytestmark = pytest.mark.anyio


async def damaged() -> tuple[MemoryLedger, dict[str, tuple[str, str]]]:
    """A ledger with a question in each of two runs, of which the second cannot be read; name and action of each."""
    ledger, asked = MemoryLedger(), dict[str, tuple[str, str]]()
    async with house(ledger, **ASKS) as it:
        await it.open("run_2")
        for run in ("run_1", "run_2"):
            await it.call("pay", {"amount": 5}, run=run)
            (one,) = (await it.book.state_of(run)).approvals.values()
            asked[run] = (one.id, one.action)
    kind, _, link, *place = ledger._runs["run_2"][0]
    ledger._runs["run_2"][0] = (kind, b"{", link, *place)  # type: ignore[assignment]
    return ledger, asked


async def test_a_batch_says_which_of_its_questions_cannot_be_read() -> None:
    ledger, asked = await damaged()
    async with reviewing(ledger=ledger) as at, at.as_(ROOT_USER) as client:
        assert (await client.get(f"{API}/approvals")).json()["total"] == 2
        answers = [
            {"approval": name, "action": action, "decision": "approved"}
            for name, action in (asked["run_2"], asked["run_1"], ("ap_0000000000000000", asked["run_1"][1]))
        ]
        came = await client.post(f"{API}/decisions", json={"answers": answers})
        assert came.status_code == 200
        problems = [one["problem"] and one["problem"]["check"] for one in came.json()["results"]]
        assert problems == ["damaged", "role", "unknown"], "each has its own"


async def test_a_link_for_one_question_is_not_told_that_another_is_damaged() -> None:
    ledger, asked = await damaged()
    only = replace(ROOT_USER, approval=asked["run_1"][0])
    async with reviewing(ledger=ledger) as at:
        answers = [Answer(*asked["run_2"], "approved")]
        (whole,) = await at.desk.decide_all(answers, ROOT_USER)
        (told,) = await at.desk.decide_all(answers, only)
        assert [one.check for one in (whole, told) if isinstance(one, Refused)] == ["damaged", "unknown"]


async def test_what_became_of_answers_is_shown_also_where_one_cannot_be_read() -> None:
    ledger, asked = await damaged()
    async with office(ledger=ledger) as at:
        visitor = await at.visitor()
        (good, _), (bad, _) = asked["run_1"], asked["run_2"]
        page = await visitor.read(f"/results?ok={good}&no={bad}.damaged&answered=approved")
        assert good in page
        assert "cannot be read" in page
