"""Spans as a real OTLP receiver gets them, over both protocols: one SERVER and one CLIENT span, and no others."""

from pathlib import Path

import anyio
import pytest

from tests.cli.agents import counterfoil, ledger_of
from tests.otlp import PROTOCOLS, Faults, Protocol, receiver

pytestmark = pytest.mark.anyio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_each_call_is_one_server_span_and_each_attempt_one_client_span(
    protocol: Protocol, time_server: list[str], tmp_path: Path
) -> None:
    async with receiver(protocol) as made:
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **made.env) as window:
            await window.call("get_current_time", {"timezone": "UTC"}, traceparent=PARENT)
            await window.call("no_such_tool", {})
        await made.until(lambda: len(made.spans) >= 3)
    assert {span.scope.name for span in made.spans} == {"counterfoil"}
    assert sorted((span.name, span.kind) for span in made.spans) == [
        ("tools/call get_current_time", "client"),
        ("tools/call get_current_time", "server"),
        ("tools/call no_such_tool", "server"),
    ]
    served = made.span("tools/call get_current_time", "server")
    assert served.parent_id == "b7ad6b7169203331"
    assert made.span("tools/call get_current_time", "client").parent_id == served.span_id


async def test_a_backend_that_hangs_does_not_hold_the_gateway(time_server: list[str], tmp_path: Path) -> None:
    async with receiver(faults=Faults(hangs=True)) as made:
        async with counterfoil("wrap", *ledger_of(tmp_path), "--", *time_server, **made.env) as window:
            told = await window.call("get_current_time", {"timezone": "UTC"})
            assert told.get("isError") is not True
            window.process.terminate()
            with anyio.fail_after(5):
                assert await window.process.wait() == 0
        assert any("they are dropped" in line for line in window.said)
