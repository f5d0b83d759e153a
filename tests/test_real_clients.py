"""Clients that others wrote see through the gateway what they see directly, but for the written differences."""

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.real_clients import compare, drive
from tests.real_clients.table import CLIENTS, OURS, OURS_ON_STDIO, Client, Steps, Target
from tests.real_servers import CannotInstall

QUICK = [client for client in CLIENTS if client.quick]
INSPECTED = {"call", "error", "refused"}
"""Inspector starts anew for each step, which costs a second."""


SHORTER: Steps = {**OURS, "long": ("long", {"seconds": 1, "steps": 2})}


def steps_of(client: Client) -> Steps:
    """What it is asked to do here."""
    asked = {name: step for name, step in SHORTER.items() if client.driver != "inspector.py" or name in INSPECTED}
    return {name: step for name, step in asked.items() if name != "refused" or not client.waits}


def both(client: Client, direct: Target, through: Target) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the client saw either way, at the same time."""
    try:
        client.command(direct, {}), client.env()  # installed by one of them
    except CannotInstall as error:
        if os.environ.get("CI"):
            pytest.fail(f"no `{client.name}` to test with: {error}")
        pytest.skip(f"NOT TESTED WITH `{client.name}`: {error}")
    with ThreadPoolExecutor() as pool:
        seen = pool.map(lambda way: drive.see(client, way, steps_of(client)), (direct, through))
        first, second = seen
    return first, second


def assert_same(client: Client, direct: dict[str, Any], through: dict[str, Any]) -> None:
    """Nothing broke, nothing differs, and the refusal was told."""
    assert "broke" not in direct, direct
    assert "broke" not in through, through
    assert compare.compared(direct, through) == []
    assert client.waits or "needs_approval" in compare.refusal(through)


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Our server over HTTP, and a gateway over HTTP before it."""
    with drive.ours() as url, drive.gateway([url], tmp_path_factory.mktemp("gateway")) as front:
        yield {"url": url}, {"url": front}


@pytest.mark.slow
@pytest.mark.parametrize("client", QUICK, ids=lambda client: client.name)
def test_over_http_nothing_differs(client: Client, http: tuple[Target, Target]) -> None:
    assert_same(client, *both(client, *http))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("client", QUICK, ids=lambda client: client.name)
def test_on_stdio_nothing_differs(client: Client, tmp_path: Path) -> None:
    direct: Target = {"command": OURS_ON_STDIO}
    through: Target = {"command": drive.wrapped(OURS_ON_STDIO, tmp_path)}
    assert_same(client, *both(client, direct, through))


class TestWhatCountsAsADifference:
    def test_what_is_written_down_does_not(self) -> None:
        direct = {
            "package": "x 1",
            "protocol": "2025-11-25",
            "server": {"name": "clients"},
            "instructions": "Mind the gap.",
            "capabilities": {"tools": {"listChanged": False}},
            "steps": {"list": {"result": {"tools": [{"name": "a"}]}}, "refused": {"result": {"isError": False}}},
        }
        through = {
            "package": "x 1",
            "protocol": "2026-07-28",
            "server": {"name": "counterfoil"},
            "instructions": "Behind a gateway.\n\nMind the gap.",
            "capabilities": {"tools": {"listChanged": True}},
            "steps": {
                "list": {
                    "result": {
                        "tools": [{"name": "a", "_meta": {"counterfoil/record": {}}}, {"name": "gateway__result"}],
                        "ttlMs": 5,
                        "resultType": "complete",
                        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "counterfoil"}},
                    }
                },
                "refused": {"result": {"isError": True}},
            },
        }
        assert compare.compared(direct, through) == []

    @pytest.mark.parametrize(
        ("direct", "through", "found"),
        [
            ({"a": 1}, {"a": 1.0}, ("a", 1, 1.0)),
            ({"a": None}, {}, ("a", None, compare.MISSING)),
            ({"a": [1, 2]}, {"a": [2, 1]}, ("a[0]", 1, 2)),
            ({"a": [1]}, {"a": []}, ("a", [1], [])),
            ({"_meta": {"x/y": 1}}, {"_meta": {"counterfoil/record": 1}}, ("_meta", {"x/y": 1}, compare.MISSING)),
            ({"a": [{"name": "x"}, {"name": "y"}]}, {"a": [{"name": "y"}]}, ("a[].name", ["x", "y"], ["y"])),
            ({"instructions": "Mind."}, {"instructions": "Behind."}, ("instructions", "Mind.", "Behind.")),
            ({"protocol": "2026-07-28"}, {"protocol": "2025-11-25"}, ("protocol", "2026-07-28", "2025-11-25")),
            (
                {"capabilities": {"logging": {}}},
                {"capabilities": {}},
                ("capabilities.logging", {}, compare.MISSING),
            ),
        ],
    )
    def test_all_else_does(self, direct: Any, through: Any, found: Any) -> None:
        assert json.dumps(compare.compared(direct, through)[0]) == json.dumps(found)
