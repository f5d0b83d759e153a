"""What happened, told in one sentence: every kind of event is relevant or routine, and none is forgotten."""

import pytest

from gateway.kernel.reduce import fold
from gateway.kernel.sentences import MAX_CHARS, MAX_NEWS, RELEVANCE, sentence, since
from gateway.model.record import Record, decode, link
from gateway.model.run import Run
from tests import world
from tests.test_traces import TRACES, bodies


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_every_kind_has_a_sentence_or_is_counted(path: object) -> None:
    stored = bodies(path)  # type: ignore[arg-type]  # of `TRACES`
    records = [decode(body) for body in stored]
    run = fold(zip(records, map(link, stored), strict=True), Run(records[0].run))
    told = since(run, records)
    listed = [sentence(run, record) for record in records]
    assert told.more + len(told.events) == sum(one is not None for one in listed)
    assert sum(told.routine.values()) == sum(one is None for one in listed)
    order = [RELEVANCE.index(one.about) for one in told.events]
    assert order == sorted(order)
    assert all(0 < len(one.says) <= MAX_CHARS and "\n" not in one.says for one in told.events)


def test_of_equal_relevance_the_newest_come_first_and_are_so_many() -> None:
    run = world.opened(world.rules())
    event = {"kind": "run.migrated", "source": "c1:a", "target": "c1:b"}
    records = [
        Record.model_validate(
            {"run": "run_1", "seq": seq, "at": "2027-01-15T08:00:00Z", "previous": "", "event": event}
        )
        for seq in range(2, 2 + MAX_NEWS + 3)
    ]
    told = since(run, records)
    assert (told.events[0].event, len(told.events), told.more) == (f"run_1#{MAX_NEWS + 4}", MAX_NEWS, 3)
