"""The official conformance suite: what passes against a server directly passes through the gateway.

By hand: `python -m tests.conformance compare` and `python -m tests.conformance client`.
"""

import os
import sys

import pytest

from tests import real_servers
from tests.conformance import expected, stands, suite
from tests.conformance.client_driver import BY_ERA
from tests.conformance.suite import ERAS, Era, Lost, Results

pytestmark = pytest.mark.slow

CLIENT = [sys.executable, "-m", "tests.conformance.client_driver"]


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    try:
        suite.command("newest")
    except real_servers.CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no conformance suite: {error}")
        pytest.skip(f"NOT TESTED FOR CONFORMANCE: {error}")


@pytest.fixture
def known() -> expected.Expected:
    return expected.load()


def lost_at(url: str, era: Era, direct: Results) -> list[Lost]:
    """What is lost at that address, also when it is asked once more."""
    results = suite.run(url, era)
    if lost := suite.compare(direct, results):
        results |= suite.run_again(url, era, lost)
    return suite.compare(direct, results)


@pytest.mark.long
def test_the_reference_server_passes_what_is_expected_of_it(known: expected.Expected) -> None:
    with stands.server() as url:
        results = {era: suite.run(url, era) for era in ERAS}
        for era in ERAS:
            results[era] |= suite.run_again(url, era, suite.compare(known.server[era], results[era]))
    assert {era: suite.passing(found) for era, found in results.items()} == known.server


def test_nothing_is_lost_before_a_server_over_http(known: expected.Expected) -> None:
    with stands.server() as direct, stands.gateway([direct]) as url:
        lost = {era: lost_at(url, era, known.server[era]) for era in ERAS}
    assert {era: expected.inexcusable(lost[era], "http", era, known) for era in ERAS} == {era: [] for era in ERAS}


@pytest.mark.long
def test_nothing_is_lost_before_a_server_over_stdio(known: expected.Expected) -> None:
    with stands.gateway(stands.OVER_STDIO) as url:
        lost = {era: lost_at(url, era, known.server[era]) for era in ERAS}
    assert {era: expected.inexcusable(lost[era], "stdio", era, known) for era in ERAS} == {era: [] for era in ERAS}


@pytest.mark.parametrize("scenario", BY_ERA["2025"])
def test_the_gateway_is_a_client_of_the_older_era(scenario: str, known: expected.Expected) -> None:
    assert lost_by_client(scenario, "2025", known) == []


@pytest.mark.parametrize("scenario", BY_ERA["2026"])
def test_the_gateway_is_a_client_of_the_newer_era(scenario: str, known: expected.Expected) -> None:
    assert lost_by_client(scenario, "2026", known) == []


def lost_by_client(scenario: str, era: Era, known: expected.Expected) -> list[Lost]:
    """What the mock misses in the gateway, also when it is asked once more: it measures half seconds."""
    direct = {scenario: known.client[era][scenario]}

    def left() -> list[Lost]:
        lost = suite.compare(direct, suite.run_client(CLIENT, scenario, era))
        return expected.inexcusable(lost, "client", era, known)

    return left() and left()
