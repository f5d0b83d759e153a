"""Which texts a ledger takes: the same for every kind, whatever the database under it could store."""

import pytest

from gateway.model.canonical import Digest
from gateway.model.record import GENESIS
from gateway.ports import Append, Ledger
from tests.ledger.making import Line, attempt, posting

BODY = b"body"


@pytest.mark.parametrize("odd", ["a\0b", "\0", "a\ud800"])
async def test_a_text_that_not_every_ledger_can_store_is_refused_by_all_and_found_by_none(
    ledger: Ledger, odd: str
) -> None:
    line = Line("run_1")
    for step in (
        Append(odd, (0, GENESIS), ()),
        Line("run_1").tracking(attempt(odd)),
        Line("run_1").tracking(attempt("att_1", hold=odd)),
        Line("run_1").tracking(attempt("att_1", owner=odd)),
        Line("run_1").tracking(attempt("att_1", state=odd)),
        Line("run_1").tracking(untrack=[odd]),
        Line("run_1").paying({Digest(odd): BODY}),
        Line("run_1").step(postings=[posting(odd, 1)]),
        Line("run_1").step(postings=[posting("a", 1, unit=odd)]),
    ):
        with pytest.raises(ValueError):  # noqa: PT011 - the message is for the developer
            await ledger.append(step)
    await ledger.append(line.step())
    assert await ledger.read(odd) == []
    assert await ledger.payload(Digest(odd)) is None
    assert await ledger.levels([odd]) == {}
    assert await ledger.find([odd]) == []
    assert await ledger.tracked(states=[odd]) == []
    assert await ledger.erased([Digest(odd)]) == {}
    assert len(await ledger.log()) == 1
