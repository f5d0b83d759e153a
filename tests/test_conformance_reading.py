"""How a run of the conformance suite is read and compared, and that our agent speaks as it should."""

import io
import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.conformance import expected, suite
from tests.conformance.agent import Event, encoded, events, filled_in
from tests.conformance.client_driver import BY_ERA, SCENARIOS
from tests.conformance.suite import PASSED, PASSED_ERROR, Lost


def check(name: str, status: str = PASSED, **details: Any) -> dict[str, Any]:
    return {"id": name, "status": status, "details": details}


def test_a_check_that_is_made_twice_is_told_twice_and_a_remark_not_at_all() -> None:
    checks = [check("a"), check("log", "INFO"), check("a", "FAILURE"), check("b", "SKIPPED")]
    assert suite.statuses(checks) == {"a": PASSED, "a#2": "FAILURE", "b": "SKIPPED"}


def test_a_pass_that_looks_at_an_error_is_told_from_a_pass() -> None:
    checks = [check("a", result={"isError": True}), check("b", result={"content": []}), check("c", result=None)]
    assert suite.statuses(checks) == {"a": PASSED_ERROR, "b": PASSED, "c": PASSED}


def test_a_folder_is_read_by_scenario_and_one_that_came_to_no_end_has_no_checks(tmp_path: Path) -> None:
    stamp = "2026-11-29T20-07-08-776Z"
    for name, checks in {"server-server-stateless": [check("a")], "auth/x": [check("b")], "server-ping": None}.items():
        folder = tmp_path / f"{name}-{stamp}"
        folder.mkdir(parents=True)
        if checks is not None:
            (folder / "checks.json").write_text(json.dumps(checks))
    assert suite.read(tmp_path) == {"server-stateless": {"a": PASSED}, "auth/x": {"b": PASSED}, "ping": {}}


def test_what_is_lost_is_what_passed_directly_and_whatever_newly_fails() -> None:
    direct = {"s": {"a": PASSED, "b": PASSED, "c": "WARNING", "d": PASSED}, "t": {"a": PASSED}}
    through = {"s": {"a": PASSED, "b": PASSED_ERROR, "c": "FAILURE", "e": "FAILURE"}}
    assert suite.compare(direct, through) == [
        Lost("s", "b", PASSED_ERROR),
        Lost("s", "d", "not made"),
        Lost("t", "a", "not made"),
        Lost("s", "e", "FAILURE"),
    ]
    assert suite.compare(direct, direct) == []


def test_a_scenario_counts_if_something_passes_and_nothing_fails() -> None:
    results = {"a": {"x": PASSED, "y": "SKIPPED"}, "b": {"x": "SKIPPED"}, "c": {"x": PASSED, "y": "WARNING"}, "d": {}}
    assert suite.count(results) == "1/4 scenarios, 2/5 checks"


def test_only_what_does_not_apply_can_be_excused() -> None:
    excuse = expected.Excuse(["a"], "it has no stream")
    known = expected.Expected({}, {}, {"stdio": {"2025": {"s": excuse}}})
    lost = [
        Lost("s", "a", "not made"),
        Lost("s", "a", "FAILURE"),
        Lost("s", "b", "not made"),
        Lost("t", "a", "SKIPPED"),
    ]
    assert expected.inexcusable(lost, "stdio", "2025", known) == lost[1:]
    assert expected.inexcusable(lost, "http", "2025", known) == lost


def test_every_excuse_is_of_a_check_that_passes_directly_and_has_a_reason() -> None:
    known = expected.load()
    for way, eras in known.excused.items():
        direct = known.client if way == "client" else known.server
        for era, scenarios in eras.items():
            for scenario, excuse in scenarios.items():
                assert set(excuse.checks) <= direct[era][scenario].keys()
                assert excuse.reason


def test_the_expected_list_has_every_scenario_that_the_bar_names() -> None:
    known = expected.load()
    passing = {era: (len(found), sum(map(len, found.values()))) for era, found in known.server.items()}
    assert passing == {"2025": (33, 84), "2026": (49, 196), "stable": (31, 44)}
    assert {era: list(found) for era, found in known.client.items()} == BY_ERA
    assert {scenario for scenarios in BY_ERA.values() for scenario in scenarios} == SCENARIOS.keys()


@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us west 1", "us west 1"),
        ("", ""),
        (" padded", "=?base64?IHBhZGRlZA==?="),
        ("line1\r\nline2", "=?base64?bGluZTENCmxpbmUy?="),
        ("世", "=?base64?5LiW?="),
        ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
    ],
)
def test_a_header_carries_any_value(value: str, header: str) -> None:
    assert encoded(value) == header


def test_a_stream_is_read_event_by_event() -> None:
    stream = b": ping\n\nid: 1\nretry: 500\ndata: \n\nevent: message\r\nid: 2\r\ndata: {\r\ndata: }\r\n\r\ndata: cut"
    assert list(events(cast("Any", io.BytesIO(stream)))) == [Event("", "1", 500), Event("{\n}", "2", None)]


def test_a_form_is_sent_off_with_its_defaults_or_with_a_yes() -> None:
    age = {"requestedSchema": {"properties": {"age": {"type": "integer", "default": 30}, "name": {"type": "string"}}}}
    sure = {"requestedSchema": {"properties": {"confirmed": {"type": "boolean"}}}}
    assert filled_in(age) == {"action": "accept", "content": {"age": 30}}
    assert filled_in(sure) == {"action": "accept", "content": {"confirmed": True}}
