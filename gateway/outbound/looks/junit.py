"""A report in JUnit's XML -> what it says of its tests, counted from them and not from its own sums; but one whose sums
say of failures that are not there is none.
"""

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from gateway.outbound.looks.faults import hide

MAX_BYTES = 8 * 1024 * 1024
MAX_NAMES = 1_000
"""Failed tests that are named."""
MAX_NAME = 300

_NOT_RUN = frozenset({"notrun", "disabled", "skipped", "suppressed"})
"""What some runners say in an attribute of a test that did not run."""

_FAILED: Mapping[str, str] = {
    **dict.fromkeys(("failed", "failure", "fail", "broken"), "failures"),
    **dict.fromkeys(("error", "errored", "timedout", "timeout"), "errors"),
}
"""What they say of one that failed."""


def report_of(body: bytes, secrets: Sequence[str] = ()) -> dict[str, Any] | None:
    """Tests, passed, failures, errors, skipped, and the names of the failed, with no secret in them, spelled as
    these; None if it is no such report.

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
    if not count["failures"] + count["errors"] and any(map(_says_of_failures, root.iter())):
        return None
    failed = sorted({_shown(case, secrets) for one, case in came if one in {"failures", "errors"}})
    return {"tests": len(came), **count, "failed": failed[:MAX_NAMES]}


def _became(case: Element) -> str:
    said = {_name(one) for one in case}
    if "error" in said:
        return "errors"
    if "failure" in said:
        return "failures"
    status = {case.get("status", "").lower(), case.get("result", "").lower()}
    if bad := status & _FAILED.keys():
        return max(map(_FAILED.__getitem__, bad))
    return "skipped" if "skipped" in said or status & _NOT_RUN else "passed"


def _says_of_failures(element: Element) -> bool:
    """Whether it is a suite that says of failures. Of tests it may say more than there are: parts of them, say."""
    if _name(element) not in {"testsuites", "testsuite"}:
        return False
    sums = (element.get(kind, "").strip().lstrip("0") for kind in ("failures", "errors"))
    return any(one.isdecimal() for one in sums) or any(_name(one) in {"error", "failure"} for one in element)


def _name(element: Element) -> str:
    """Its name without a namespace."""
    return str(element.tag).rpartition("}")[2]


def _shown(case: Element, secrets: Sequence[str]) -> str:
    """On one line, whatever whoever named it had in mind."""
    names = [case.get("classname"), case.get("name")]
    shown = hide("::".join(one for one in names if one), secrets)[:MAX_NAME]
    return "".join(char if char.isprintable() and char != "`" else "?" for char in shown)
