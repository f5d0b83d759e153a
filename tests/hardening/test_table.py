"""Every threat has tests, every test that is named is there, and the page says what the table says."""

import ast
from dataclasses import asdict
from functools import cache

import pytest

from gateway.model.limits import DEFAULT
from gateway.outbound.yaml_files import compose
from tests.hardening.table import PAGE, ROOT, Row, rows, written


@cache
def collected(file: str) -> frozenset[str]:
    """The names that pytest collects there: functions of the module."""
    path = ROOT / "tests" / file
    if not path.is_file():
        return frozenset()
    found = ast.parse(path.read_text()).body
    return frozenset(one.name for one in found if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_every_threat_of_the_list_is_a_row() -> None:
    assert [row.id for row in rows()] == [f"T{number}" for number in range(1, 51)]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.id)
def test_a_row_is_proved_by_tests_that_are_there(row: Row) -> None:
    assert row.tests
    missing = [test for test in row.tests if test.partition("::")[2] not in collected(test.partition("::")[0])]
    assert missing == []


def test_every_test_of_this_folder_is_named_by_a_row() -> None:
    named = {test for row in rows() for test in row.tests}
    own = {
        f"hardening/{path.name}::{name}"
        for path in (ROOT / "tests" / "hardening").glob("test_*.py")
        if path.name != "test_table.py"
        for name in collected(f"hardening/{path.name}")
        if name.startswith("test_")
    }
    assert own - named == NOT_OF_THE_LIST


NOT_OF_THE_LIST = {
    "hardening/test_servers.py::test_a_call_is_made_however_often_its_equal_is_refused",
    "hardening/test_slow_clients.py::test_every_limit_is_safe_as_it_is",
    "hardening/test_slow_clients.py::test_where_all_have_said_what_they_want_no_more_come_in",
}


def test_the_limits_of_the_page_are_the_defaults() -> None:
    block = PAGE.read_text().partition("```yaml\nlimits:")[2].partition("```")[0]
    said = compose(f"limits:{block}", "hardening.md").value["limits"]
    assert said == asdict(DEFAULT)


def test_the_page_is_current() -> None:
    """If not: `python -m tests.hardening.table`."""
    assert written(PAGE.read_text()) == PAGE.read_text()
