"""The suite by hand.

    python -m tests.conformance URL          what passes at that address
    python -m tests.conformance compare      the reference server directly, and through the gateway on either transport
    python -m tests.conformance client       the gateway as the client under test
    python -m tests.conformance expect       writes what passes directly to expected.json

Each takes `--era 2025`, `2026` or `stable` for one of the three instead of all (`client` has the first two). The exit
code is 1 where a check fails or is lost.
"""

import argparse
import sys

from tests.conformance import expected, stands, suite
from tests.conformance.client_driver import BY_ERA
from tests.conformance.suite import ERAS, Era, Lost, Results

CLIENT = [sys.executable, "-m", "tests.conformance.client_driver"]
CLIENT_ERAS: list[Era] = ["2025", "2026"]


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command prints


def as_client(client: list[str], era: Era) -> Results:
    """Each client scenario of the era, one after the other: the suite itself would start all of them at once."""
    results: Results = {}
    for scenario in BY_ERA[era]:
        results |= suite.run_client(client, scenario, era)
    return results


def through(upstream: list[str], eras: list[Era]) -> dict[Era, Results]:
    """The gateway in front of the upstream."""
    with stands.gateway(upstream) as url:
        return {era: suite.run(url, era) for era in eras}


def at(url: str, eras: list[Era]) -> bool:
    good = True
    for era in eras:
        results = suite.run(url, era)
        say(f"{era}: {suite.count(results)}")
        passing = suite.passing(results)
        for scenario, checks in results.items():
            others = {check: status for check, status in checks.items() if check not in passing.get(scenario, {})}
            for check, status in others.items() or ({} if checks else {"(no checks)": "no end"}).items():
                say(f"  {scenario}: {check}: {status}")
                good = good and status == "SKIPPED"
    return good


def compared(eras: list[Era]) -> bool:
    with stands.server() as url:
        direct = {era: suite.run(url, era) for era in eras}
        ways = {"http": through([url], eras), "stdio": through(stands.OVER_STDIO, eras)}
    known = expected.load()
    good = True
    for era in eras:
        say(f"{era:7} direct         {suite.count(direct[era])}")
        for way, results in ways.items():
            lost = suite.compare(direct[era], results[era])
            left = expected.inexcusable(lost, way, era, known)
            say(f"{era:7} through {way:6} {suite.count(results[era])}; {_told(lost, left)}")
            good = good and not left
    return good


def clients(eras: list[Era]) -> bool:
    known = expected.load()
    good = True
    for era in eras:
        results = as_client(CLIENT, era)
        lost = suite.compare(known.client[era], results)
        left = expected.inexcusable(lost, "client", era, known)
        say(f"{era:7} as client      {suite.count(results)}; {_told(lost, left)}")
        good = good and not left
    return good


def _told(lost: list[Lost], left: list[Lost]) -> str:
    return f"{len(left)} lost, {len(lost) - len(left)} excused" + "".join(f"\n  {loss}" for loss in left)


def written() -> bool:
    with stands.server() as url:
        server: dict[str, Results] = {era: suite.passing(suite.run(url, era)) for era in ERAS}
    client: dict[str, Results] = {era: suite.passing(as_client([*CLIENT, "--direct"], era)) for era in CLIENT_ERAS}
    expected.write(server, client)
    return True


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.conformance", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", metavar="URL|compare|client|expect")
    parser.add_argument("--era", choices=ERAS)
    chosen = parser.parse_args()
    eras: list[Era] = [chosen.era] if chosen.era else list(ERAS)
    match chosen.what:
        case "compare":
            good = compared(eras)
        case "client":
            good = clients([era for era in CLIENT_ERAS if era in eras])
        case "expect":
            good = written()
        case url if "://" in url:
            good = at(url, eras)
        case other:
            parser.error(f"`{other}` is no address")
    sys.exit(not good)


if __name__ == "__main__":
    main()
