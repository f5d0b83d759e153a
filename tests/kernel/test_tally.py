"""What a run cost, added up from its records: nothing twice, nothing forgotten, and each in its time."""

from datetime import timedelta
from pathlib import Path

import pytest

from gateway.kernel.reduce import fold
from gateway.kernel.tally import Tally
from gateway.kernel.weights import Load
from gateway.model.record import Record, decode, link
from gateway.model.run import Run
from tests.test_traces import TRACES, bodies


def tallied(records: list[Record], tally: Tally) -> Tally:
    for record in records:
        tally.add(record)
    return tally


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_what_was_ever_recorded_adds_up_to_what_its_budgets_say(path: Path) -> None:
    records = [decode(body) for body in bodies(path)]
    run = fold(zip(records, map(link, bodies(path)), strict=True), Run(records[0].run))
    aside = sum(one.charge.cost for one in run.set_aside.values())
    whole = tallied(records, Tally()).whole
    assert whole.cost == run.spent.cost - aside
    assert whole.reported == run.reported_tokens


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_time_and_what_is_beyond_it_add_up_to_the_whole(path: Path) -> None:
    records = [decode(body) for body in bodies(path)]
    middle = records[len(records) // 2].at + timedelta(microseconds=1)
    before = tallied(records, Tally(lambda at: at < middle)).whole
    before.take(tallied(records, Tally(lambda at: at >= middle)).whole)
    whole = tallied(records, Tally()).whole
    assert (before.cost, before.calls, before.result_bytes, before.looks, before.refusals) == (
        whole.cost,
        whole.calls,
        whole.result_bytes,
        whole.looks,
        whole.refusals,
    )


def test_a_definition_is_weighed_once_and_one_that_nobody_can_weigh_is_told() -> None:
    records = [decode(body) for body in bodies(TRACES[0])]
    tally, asked = Tally(), list[str]()
    for record in records:
        cited = tally.wanted(record.event)
        asked += [] if cited is None else [cited]
        tally.add(record, {} if cited is None or len(asked) == 1 else {cited: Load(100, 30)})
    assert len(asked) == len(set(asked)) > 1
    assert sum(one.definitions.size_bytes for one in tally.context.values()) == 100 * (len(asked) - 1)
    assert sum(one.unweighed for one in tally.context.values()) >= 1
