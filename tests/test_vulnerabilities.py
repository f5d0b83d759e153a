"""An audit of the dependencies that looked at nothing is never taken for one that found nothing."""

import pytest

from tests import vulnerabilities
from tests.vulnerabilities import AUDITED, NOT_AUDITED, VULNERABLE, judged, main

CLEAN = {"name": "rich", "version": "1", "vulns": []}
BAD = {"name": "yarl", "version": "1", "vulns": [{"id": "GHSA-1", "fix_versions": ["1.1"]}]}
UNKNOWN = {"name": "uv", "skip_reason": "not found"}


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([CLEAN], AUDITED),
        ([CLEAN, BAD, UNKNOWN], VULNERABLE),
        ([CLEAN, UNKNOWN], NOT_AUDITED),
        ([], NOT_AUDITED),
    ],
)
def test_only_packages_that_were_all_looked_up_are_audited(packages: list[object], code: int) -> None:
    assert judged({"dependencies": packages}).code == code


def test_who_cannot_be_asked_is_said_loudly_and_fails_but_where_that_is_known(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(vulnerabilities, "SERVICE", ("127.0.0.1", 9))
    assert main(lenient=False) == NOT_AUDITED
    assert main(lenient=True) == 0
    assert capsys.readouterr().out.count("!!! NOT AUDITED: `127.0.0.1` cannot be reached") == 2
