"""A report in JUnit's XML -> what it says of its tests, counted from them and not from its own sums."""

from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

MAX_BYTES = 8 * 1024 * 1024
MAX_NAMES = 1_000
"""Failed tests that are named."""
MAX_NAME = 300

_NOT_RUN = frozenset({"notrun", "disabled", "skipped", "suppressed"})
"""What some runners say in an attribute of a test that did not run."""


def report_of(body: bytes) -> dict[str, Any] | None:
    """Tests, passed, failures, errors, skipped, and the names of the failed; None if it is no such report.

    A report comes from code that an agent may have written: no entity, no document type and no address in it is heeded.
    """
    try:
        root = fromstring(body, forbid_dtd=True)
    except (ParseError, DefusedXmlException, ValueError, LookupError):
        return None
    if _name(root) not in {"testsuites", "testsuite"}:
        return None
    came = [(_became(case), case) for case in root.iter() if _name(case) == "testcase"]
    count = {kind: sum(one == kind for one, _ in came) for kind in ("passed", "failures", "errors", "skipped")}
    failed = sorted({_shown(case) for one, case in came if one in {"failures", "errors"}})
    return {"tests": len(came), **count, "failed": failed[:MAX_NAMES]}


def _became(case: Element) -> str:
    said = {_name(one) for one in case}
    if "error" in said:
        return "errors"
    if "failure" in said:
        return "failures"
    status = {case.get("status", "").lower(), case.get("result", "").lower()}
    return "skipped" if "skipped" in said or status & _NOT_RUN else "passed"


def _name(element: Element) -> str:
    """Its name without a namespace."""
    return str(element.tag).rpartition("}")[2]


def _shown(case: Element) -> str:
    """On one line, whatever whoever named it had in mind."""
    names = [case.get("classname"), case.get("name")]
    shown = "::".join(one for one in names if one)[:MAX_NAME]
    return "".join(char if char.isprintable() and char != "`" else "?" for char in shown)
