"""Every invariant can fail: for each there are histories, true ones with one thing changed, in which it is broken."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import anyio
import pytest

from gateway.kernel.reduce import fold
from gateway.kernel.registry import pin, pinned_part
from gateway.model.events import Charge, Event, RunStopped
from gateway.model.record import Record, encode, link
from gateway.model.run import Run
from tests.crash.every import new_memory
from tests.crash.ground import BOSS, policy
from tests.crash.history import Effect, History
from tests.crash.invariants import INVARIANTS, violations
from tests.crash.outside import definition
from tests.crash.stories import told

Change = Callable[[History], History]


@cache
def lived(tool: str, fault: str = "none") -> History:
    """A history in which nothing is wrong."""
    return anyio.run(_lived, tool, fault)


async def _lived(tool: str, fault: str) -> History:
    return (await told(new_memory(), tool, fault))[0]


def at(history: History, kind: str, nth: int = 0) -> int:
    """Where the nth record of that kind stands."""
    return [place for place, (record, _) in enumerate(history.records) if record.event.kind == kind][nth]


def event_at(history: History, kind: str, nth: int = 0) -> Any:
    return history.records[at(history, kind, nth)][0].event


def with_records(history: History, records: Sequence[Record]) -> History:
    """The history with these records in place of its own, whose places in their run are as they now stand."""
    moved = [one.model_copy(update={"seq": number}) for number, one in enumerate(records, 1)]
    return replace(history, records=[(one, encode(one)) for one in moved], times=[one.at.timestamp() for one in moved])


def without(kind: str, nth: int = 0) -> Change:
    """One record less."""

    def change(history: History) -> History:
        records = [record for record, _ in history.records]
        del records[at(history, kind, nth)]
        return with_records(history, records)

    return change


def changed(kind: str, nth: int = 0, **fields: Any) -> Change:
    """One event that says something else."""

    def change(history: History) -> History:
        records = [record for record, _ in history.records]
        place = at(history, kind, nth)
        other = records[place].event.model_copy(update=fields)
        records[place] = records[place].model_copy(update={"event": other})
        return with_records(history, records)

    return change


def once_more(kind: str, nth: int = 0, *, after: str | None = None, **fields: Any) -> Change:
    """The event a second time, changed by `fields`: right after the first, or after the last of another kind."""

    def change(history: History) -> History:
        place = at(history, kind, nth)
        record = history.records[place][0]
        where = place if after is None else at(history, after, -1)
        return put(history, where + 1, record.event.model_copy(update=fields))

    return change


def put(history: History, place: int, event: Event) -> History:
    records = [record for record, _ in history.records]
    records.insert(place, records[0].model_copy(update={"event": event, "at": records[place - 1].at}))
    return with_records(history, records)


def with_first(what: str, **fields: Any) -> Change:
    """The first of `received`, `answered`, `replies` and so on is another one."""

    def change(history: History) -> History:
        first, *more = getattr(history, what)
        other: dict[str, Any] = {what: [replace(first, **fields), *more]}
        return replace(history, **other)

    return change


def doubled(what: str) -> Change:
    """The first of them came twice."""

    def change(history: History) -> History:
        twice: dict[str, Any] = {what: [getattr(history, what)[0], *getattr(history, what)]}
        return replace(history, **twice)

    return change


def stopped_before_the_last_intent(history: History) -> History:
    over = RunStopped(outcome="human_escalation", reason="a person goes on")  # type: ignore[arg-type]  # validated
    return put(history, at(history, "intent.recorded", -1), over)


def under(**fields: Any) -> Change:
    """The policy that everything cites is another one."""
    return lambda history: replace(history, policies=dict.fromkeys(history.policies, policy(**fields)))


def effect_of_the_first_intent(history: History) -> History:
    attempt = event_at(history, "intent.recorded").attempt
    return replace(history, effects=[Effect(1, attempt, "write"), *history.effects])


def late_times(history: History) -> History:
    return replace(history, times=[seconds + 121 for seconds in history.times])


def one_level_up(history: History) -> History:
    return replace(history, levels={key: level + 1 for key, level in history.levels.items()})


def another_view(history: History) -> History:
    return replace(history, views=[whole(history)._replace(phase="broken")])


def whole(history: History) -> Run:
    """What a gateway takes the run to be."""
    return fold([(record, link(body)) for record, body in history.records], Run("run_1"))


def an_erased_fact(history: History) -> History:
    first = next(iter(history.payloads))
    return replace(history, payloads={**history.payloads, first: b"said canary-5f2c9e aloud"})


OTHER = definition("write", 2)
WRITE, ASKED, PROVEN, REFUSED, LOST = (
    ("write", "none"),
    ("approved", "none"),
    ("finish", "none"),
    ("write", "refused"),
    ("write", "dropped after it was done"),
)

BROKEN: Sequence[tuple[str, str, tuple[str, str], Change]] = [
    ("I1", "a record is gone", WRITE, lambda it: replace(it, records=[*it.records[:1], *it.records[2:]])),
    ("I1", "the end is gone", WRITE, lambda it: replace(it, records=it.records[:-1])),
    ("I2", "two intents have one key", WRITE, once_more("intent.recorded", attempt="run_1.99")),
    ("I2", "an attempt is intended twice", WRITE, once_more("intent.recorded")),
    ("I3", "nobody intended it", WRITE, with_first("received", attempt=None)),
    ("I3", "it was sent before its intent was durable", WRITE, with_first("received", intended=False)),
    ("I4", "it was sent twice", WRITE, doubled("received")),
    ("I4", "it happened twice", WRITE, doubled("effects")),
    ("I4", "an equal one was sent while it hung", WRITE, once_more("intent.recorded", attempt="run_1.99")),
    ("I5", "success without a receipt", WRITE, without("receipt.recorded")),
    ("I5", "another result than is recorded", WRITE, with_first("replies", payload="c1:another")),
    ("I5", "success before the receipt", WRITE, with_first("replies", place=2)),
    ("I5", "success that its verifier did not pass", PROVEN, changed("evidence.recorded", verdict="fail")),
    ("I6", "the result of other arguments", WRITE, with_first("replies", arguments="c1:another")),
    ("I7", "what was not sent had an effect", REFUSED, effect_of_the_first_intent),
    ("I7", "a client was told otherwise", WRITE, with_first("replies", executed=False)),
    ("I8", "it is listed nowhere", LOST, lambda it: replace(it, records=it.records[:3], tracked=[])),
    ("I9", "two receipts", WRITE, once_more("receipt.recorded")),
    ("I9", "a receipt of nobody", WRITE, changed("receipt.recorded", attempt="run_1.99")),
    ("I10", "its server never answered that", WRITE, lambda it: replace(it, answered=it.answered[1:])),
    (
        "I10",
        "a probe proved what did not happen",
        REFUSED,
        changed("receipt.recorded", source="probe", attempt="run_1.2"),
    ),
    ("I10", "an answer against its schema counts as valid", WRITE, with_first("answered", valid=False)),
    ("I11", "a level is not the sum", WRITE, one_level_up),
    ("I11", "a limit is passed", WRITE, under(budgets={"calls": 1})),
    ("I11", "what is charged is not what is reserved", WRITE, changed("intent.recorded", charge=Charge(calls=99))),
    ("I12", "an approval is used twice", ASKED, once_more("intent.recorded", attempt="run_1.99")),
    ("I12", "an approval is not used at all", ASKED, changed("intent.recorded", approval=None)),
    ("I13", "it was for other arguments", ASKED, changed("intent.recorded", arguments="c1:another")),
    ("I13", "it was for another definition", ASKED, changed("intent.recorded", definition="c1:another")),
    ("I13", "nobody said yes", ASKED, without("approval.decided")),
    ("I13", "somebody said no", ASKED, changed("approval.decided", decision="rejected")),
    ("I14", "its time was over", ASKED, late_times),
    ("I15", "it was its own", ASKED, changed("run.opened", principal=BOSS)),
    ("I16", "a stopped run went on", WRITE, stopped_before_the_last_intent),
    ("I17", "it was not legal in that phase", PROVEN, changed("intent.recorded", phase="broken")),
    ("I17", "whoever asked may not", ASKED, under(grants=[])),
    ("I17", "no transition names it", WRITE, changed("intent.recorded", transition="ask")),
    (
        "I17",
        "it is not as it is pinned",
        WRITE,
        under(pins={"write": {"digest": pin(OTHER), "definition": pinned_part(OTHER)}}),
    ),
    ("I18", "a gateway sees another state", WRITE, another_view),
    ("I18", "it cannot be reduced", WRITE, without("intent.recorded")),
    ("I19", "success without evidence", PROVEN, without("evidence.recorded")),
    ("I19", "success by old evidence", PROVEN, once_more("intent.recorded", after="evidence.recorded")),
    ("I20", "a canary stands in a payload", WRITE, an_erased_fact),
    ("I21", "it never ended", WRITE, without("receipt.recorded")),
    ("I21", "somebody still waits", WRITE, lambda it: replace(it, unanswered=["write"])),
    ("I22", "it was sent with another number", WRITE, with_first("received", arguments={"tool": "write", "ref": 1.0})),
    ("I22", "it was sent under another key", ("keyed", "none"), with_first("received", key="run_1.99")),
]


@pytest.mark.parametrize(
    ("number", "base", "change"),
    [(one, base, how) for one, _, base, how in BROKEN],
    ids=[f"{number}: {what}" for number, what, *_ in BROKEN],
)
def test_each_invariant_is_broken_by_what_it_forbids(number: str, base: tuple[str, str], change: Change) -> None:
    true = lived(*base)
    assert violations(true) == []
    assert number in {one.invariant for one in violations(change(true))}


def test_each_invariant_is_shown_to_be_breakable() -> None:
    assert {number for number, *_ in BROKEN} == set(INVARIANTS)
