"""A report is counted by its tests, whatever its own sums say; and nothing that it refers to is fetched or unfolded."""

from typing import Any

import pytest

from gateway.outbound.looks.junit import MAX_NAME, MAX_NAMES, report_of

NONE: dict[str, Any] = {"tests": 0, "passed": 0, "failures": 0, "errors": 0, "skipped": 0, "failed": []}


KINDS = """<testsuite xmlns="urn:x">
  <testcase classname="c" name="a"><failure/></testcase>
  <testcase name="b"><error/></testcase>
  <testcase name="d"><skipped/></testcase>
  <testcase name="e" status="notrun"/>
  <testcase name="f" result="skipped"/>
</testsuite>"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("<testsuites/>", NONE),
        ('<testsuite tests="9" failures="0"/>', NONE),
        ('<testsuites><testsuite><testcase name="a"/></testsuite></testsuites>', NONE | {"tests": 1, "passed": 1}),
        (
            KINDS,
            NONE | {"tests": 5, "failures": 1, "errors": 1, "skipped": 3, "failed": ["b", "c::a"]},
        ),
        (
            '<testsuite><testcase name="a"><failure/></testcase><testcase name="a"><error/></testcase></testsuite>',
            NONE | {"tests": 2, "failures": 1, "errors": 1, "failed": ["a"]},
        ),
        (
            '<testsuite><testcase name="a"><error/><skipped/></testcase></testsuite>',
            NONE | {"tests": 1, "errors": 1, "failed": ["a"]},
        ),
        (
            '<testsuite><testcase name="a" status="failed"/><testcase name="b" result="ERROR"/></testsuite>',
            NONE | {"tests": 2, "failures": 1, "errors": 1, "failed": ["a", "b"]},
        ),
        (
            '<testsuite tests="9" failures="2"><testcase name="a"><failure/></testcase></testsuite>',
            NONE | {"tests": 1, "failures": 1, "failed": ["a"]},
        ),
        ('<testsuite tests="12" failures="0" errors=""><testcase/></testsuite>', NONE | {"tests": 1, "passed": 1}),
    ],
)
def test_tests_are_counted(body: str, told: dict[str, Any]) -> None:
    assert report_of(body.encode()) == told


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<testsuite><testcase name="&b;"/></testsuite>'
)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"<html/>",
        b"<testsuite>",
        b'<testsuite><testcase name="\xff"/></testsuite>',
        b'<?xml version="1.0" encoding="no-such"?><testsuite/>',
        BOMB.encode(),
        b'<testsuite failures="2" tests="3"><testcase name="a"/></testsuite>',
        b'<testsuites><testsuite errors=" 1 "/><testsuite><testcase name="a"/></testsuite></testsuites>',
        b'<testsuite><error message="collection"/><testcase name="a"/></testsuite>',
        b'<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><testsuite/>',
        b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]><testsuite><testcase name="&a;"/></testsuite>',
    ],
)
def test_what_is_no_plain_report_is_none(body: bytes) -> None:
    assert report_of(body) is None


def test_a_name_is_one_line_whatever_it_says() -> None:
    told = report_of(b'<testsuite><testcase name="a&#10;`b`&#x202e;"><error/></testcase></testsuite>')
    assert told is not None
    assert told["failed"] == ["a??b??"]


def test_a_secret_in_a_name_is_hidden_before_the_name_is_cut() -> None:
    body = f'<testsuite><testcase name="{"x" * (MAX_NAME - 4)}t0k`n-long"><failure/></testcase></testsuite>'
    told = report_of(body.encode(), ("t0k`n-long",))
    assert told is not None
    assert told["failed"] == ["x" * (MAX_NAME - 4) + "[hid"]


def test_names_are_bounded() -> None:
    one = f'<testcase name="{"x" * 5000}%05d"><failure/></testcase>'
    many = "".join(f'<testcase name="{at:05}"><failure/></testcase>' for at in range(MAX_NAMES + 5))
    told = report_of(f"<testsuite>{many}{one % 1}</testsuite>".encode())
    assert told is not None
    assert (len(told["failed"]), told["failures"]) == (MAX_NAMES, MAX_NAMES + 6)
    long = report_of(f"<testsuite>{one % 1}</testsuite>".encode())
    assert long is not None
    assert len(long["failed"][0]) == MAX_NAME


def test_a_deep_report_is_no_trouble() -> None:
    deep = "<testsuite>" * 50_000 + '<testcase name="a"/>' + "</testsuite>" * 50_000
    assert report_of(deep.encode()) in (None, NONE | {"tests": 1, "passed": 1})
