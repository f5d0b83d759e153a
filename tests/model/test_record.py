"""A record has one spelling, whoever asks for it and how often."""

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gateway.model import spelling
from gateway.model.canonical import Digest, canonical
from gateway.model.events import (
    Charge,
    Effect,
    EvidenceRecorded,
    Finding,
    IntentRecorded,
    OutcomeDelivered,
    ReceiptRecorded,
    UsedKey,
)
from gateway.model.proposal import KeySource
from gateway.model.record import Record, TraceContext, decode, encode, utc
from gateway.model.spelling import MAX_KEPT, kept
from tests.model.test_canonical import JSON

CITED = Digest("c1:x")
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
TIMES = st.datetimes(
    min_value=datetime(1, 1, 3),  # noqa: DTZ001 - the zone comes from the next line
    max_value=datetime(9999, 12, 29),  # noqa: DTZ001
    timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)
INPUTS = st.dictionaries(TEXT, JSON | st.sampled_from(Effect), max_size=3)
FINDINGS = st.builds(Finding, check=TEXT, passed=st.booleans(), inputs=INPUTS, reason=st.none() | TEXT)


def by_pydantic(record: BaseModel) -> bytes:
    """The same form by the long way, which defined it."""
    return canonical(record.model_dump(mode="json"))


@st.composite
def intents(draw: st.DrawFn) -> IntentRecorded:
    return IntentRecorded(
        tool=draw(TEXT),
        arguments=CITED,
        policy=CITED,
        phase=draw(TEXT),
        key=draw(st.none() | st.builds(UsedKey, source=st.sampled_from(KeySource), value=TEXT)),
        checks=tuple(draw(st.lists(FINDINGS, max_size=4))),
        observed=draw(INPUTS),
        attribution=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        attempt=draw(TEXT),
        effect=draw(st.sampled_from(Effect)),
        charge=draw(st.builds(Charge, calls=st.integers(0, 2**70), mutations=st.integers(0, 3))),
        timeout_s=draw(st.floats(allow_nan=False, allow_infinity=False)),
        settles_at=draw(TIMES),
        edges=draw(st.dictionaries(TEXT, TEXT, max_size=2)),
        waived=tuple(draw(st.lists(TEXT, max_size=2))),
    )


@given(
    event=intents()
    | st.builds(EvidenceRecorded, verifier=TEXT, verdict=st.just("pass"), scope=INPUTS, says=TEXT, started_at=TIMES),
    at=TIMES,
    seq=st.integers(1, 2**53),
    trace=st.none() | st.builds(TraceContext, trace_id=TEXT, span_id=TEXT),
)
def test_the_spelling_is_the_one_that_the_types_define(
    event: IntentRecorded, at: datetime, seq: int, trace: TraceContext | None
) -> None:
    record = Record(run="run_1", seq=seq, at=at, previous="x", trace=trace, event=event)
    assert encode(record) == by_pydantic(record)
    assert decode(encode(record)) == record


@pytest.mark.parametrize(
    "path", sorted((Path(__file__).parents[1] / "traces").glob("*.jsonl")), ids=lambda path: path.stem
)
def test_every_kind_is_spelled_as_the_types_define(path: Path) -> None:
    records = [decode(body) for body in path.read_bytes().splitlines()]
    assert [encode(record) for record in records] == [by_pydantic(record) for record in records]


@given(st.lists(FINDINGS, min_size=1, max_size=3), st.builds(Charge, calls=st.integers(0, 3)))
def test_what_is_spelled_once_is_spelled_as_ever(findings: list[Finding], charge: Charge) -> None:
    def record() -> Record:
        event = IntentRecorded(
            tool="t",
            arguments=CITED,
            policy=CITED,
            phase="",
            checks=tuple(findings),
            attempt="a",
            effect=Effect.WRITE,
            charge=charge,
            timeout_s=1.5,
            settles_at=utc(0),
        )
        return Record(run="run_1", seq=1, at=utc(0), previous="", event=event)

    long = by_pydantic(record())
    assert [kept(one) for one in findings] == findings
    kept(charge)
    assert encode(record()) == long == by_pydantic(record())
    assert decode(long) == record()


def test_what_is_spelled_once_is_bounded() -> None:
    findings = [kept(Finding(check=str(number), passed=True)) for number in range(MAX_KEPT + 1)]
    assert len(spelling._KEPT) <= MAX_KEPT
    assert spelling.spelled(findings[0]) == by_pydantic(findings[0])


def proving(**scope: Any) -> Record:
    event = EvidenceRecorded(verifier="v", verdict="pass", scope=scope, says="", started_at=utc(0))
    return Record(run="run_1", seq=1, at=utc(0), previous="", event=event)


@pytest.mark.parametrize("odd", ["\ud800", object()])
def test_what_has_no_spelling_is_refused(odd: Any) -> None:
    with pytest.raises(ValueError, match=r"surrogates|unknown type"):
        encode(proving(odd=odd))


@pytest.mark.parametrize(
    "odd",
    [2**64, -(2**64), 1e16, 1e22, 1e-5, 5e-324, -0.0, float("nan"), float("inf"), (1, 2.0), utc(1.5), b"x", Charge()],
)  # fmt: skip
def test_what_the_fast_way_does_not_know_goes_the_long_way(odd: Any) -> None:
    assert encode(proving(odd=odd)) == by_pydantic(proving(odd=odd))
    assert encode(proving(deep=[{"odd": odd}])) == by_pydantic(proving(deep=[{"odd": odd}]))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_spelled_by_its_shortest_round_trip(value: float) -> None:
    event = ReceiptRecorded(attempt="a", answer="result", is_error=False, duration_s=value)
    record = Record(run="run_1", seq=1, at=utc(0), previous="", event=event)
    assert f'"duration_s":{value!r},'.encode() in encode(record)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_is_spelled_as_canonical_spells_it(text: str) -> None:
    record = Record(run=text, seq=1, at=utc(0), previous="", event=OutcomeDelivered(attempt=text))
    assert encode(record) == by_pydantic(record)


def test_a_changed_copy_has_a_spelling_of_its_own() -> None:
    record = Record(run="run_1", seq=1, at=utc(0), previous="", event=OutcomeDelivered(attempt="a"))
    spelled = encode(record)
    assert encode(record) is spelled
    assert encode(record.model_copy(update={"run": "run_2"})) == by_pydantic(record.model_copy(update={"run": "run_2"}))
    assert encode(record.model_copy(deep=True, update={"seq": 2})) == spelled.replace(b'"seq":1', b'"seq":2')


def test_being_spelled_changes_nothing_else_about_a_record() -> None:
    one, other = (
        Record(run="run_1", seq=1, at=utc(0), previous="", event=OutcomeDelivered(attempt="a")) for _ in range(2)
    )
    _ = encode(one)
    assert (one, repr(one), one.model_dump()) == (other, repr(other), other.model_dump())
