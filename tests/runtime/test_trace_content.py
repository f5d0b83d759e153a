"""What anybody wrote is told only where somebody turned that on."""

from collections.abc import Callable
from typing import Any

import pytest

from gateway.model.events import AttemptRefuted
from gateway.model.tool import ProtocolError
from gateway.runtime import trace
from tests import world
from tests.emitted import violations
from tests.runtime.test_trace import LOOK
from tests.telemetry.received import Received
from tests.telemetry.told import told_house

pytestmark = pytest.mark.anyio


def masked(value: Any) -> Any:
    """A redactor that knows one secret."""
    if isinstance(value, dict):
        return {name: masked(one) for name, one in value.items()}
    return value.replace("hunter2", "[redacted]") if isinstance(value, str) else value


WHERE: dict[str, Callable[[Received], Any]] = {
    "spans": lambda told: [one.attributes for one in told.spans],
    "events": lambda told: [one.attributes for one in told.logs],
}


@pytest.mark.parametrize("where", WHERE)
async def test_content_is_told_only_where_somebody_turned_it_on_and_redacted_before_it_is_cut(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    options = trace.Options(on_spans=where == "spans", on_events=where == "events", max_bytes=64, redact=masked)
    async with told_house(monkeypatch, options) as it:
        said = {"note": "a" * 40 + "hunter2 and more of it", "to": "k\u00fcche"}
        it.house.upstreams.will("write", world.ok(structuredContent={"saw": "hunter2 " + "b" * 100}))
        await it.call("write", said)
        (elsewhere,) = {*WHERE} - {where}
        assert not any("gen_ai.tool.call" in key for one in WHERE[elsewhere](it.told) for key in one)
        told = {key: value for one in WHERE[where](it.told) for key, value in one.items() if ".tool.call." in key}
        assert told["gen_ai.tool.call.arguments"] == '{"note":"' + "a" * 40 + "[redacted] a…"
        assert told["gen_ai.tool.call.result"].startswith('{"')
        assert all(len(value.encode()) <= 64 for value in told.values())
        assert "hunter2" not in repr(it.told)
        assert violations(it.told, content=True) == []


async def test_without_it_nothing_that_anybody_wrote_goes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch, **LOOK) as it:
        it.house.upstreams.will("write", world.ok(structuredContent={"saw": "canary-result"}))
        it.house.upstreams.will("check", world.ok(structuredContent={"ok": False, "why": "canary-look"}))
        await it.call("write", {"note": "canary-argument"})
        it.house.upstreams.will(
            "read", ProtocolError({"code": -32000, "message": "canary-error", "data": "canary-data"})
        )
        await it.call("read", {"canary-name": 1})
        await it.house.book.say(
            "run_1",
            lambda run, _, __: [
                AttemptRefuted(attempt=name, source="person", reason="canary-reason")
                for name, one in run.attempts.items()
                if one.state == "unknown"
            ],
        )
        assert "canary" not in repr(it.told)
        assert violations(it.told) == []
