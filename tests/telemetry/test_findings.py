"""Ways in which telemetry once broke its promises."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from typing import Any

import pytest

from gateway.outbound.otel import encoding
from gateway.outbound.otel.senders import sender
from gateway.outbound.redaction import DetectingRedactor
from gateway.ports import Append, Dispatch, LedgerUnavailable
from gateway.runtime import trace
from gateway.runtime.costs import Wanted, costs_of
from tests import world
from tests.runtime import undoing
from tests.runtime.house import House, approve, house
from tests.telemetry.told import told_house

pytestmark = pytest.mark.anyio
BOTH = trace.Options(on_spans=True, on_events=True, redact=DetectingRedactor().redact)


def nested(levels: int) -> Any:
    made: Any = 1
    for _ in range(levels):
        made = [made]
    return made


async def records(it: House, run: str = "run_1") -> list[str]:
    return [record.id for record, _ in await it.ledger.read(run)]


async def test_a_result_however_deep_reaches_its_client_where_content_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch, BOTH) as it:
        it.house.upstreams.will("write", world.ok(structuredContent={"d": nested(480)}))
        shown = await it.call("write")
        assert shown.result is not None


async def test_a_record_that_became_durable_while_its_step_was_cancelled_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch) as it:
        stored, put = asyncio.Event(), it.house.ledger.append

        async def slowly(append: Append) -> None:
            await put(append)
            stored.set()
            await asyncio.sleep(5)

        monkeypatch.setattr(it.house.ledger, "append", slowly)
        opening = asyncio.ensure_future(it.house.open("run_2"))
        await stored.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await it.house.settle()
        said = [log.attributes["counterfoil.record.id"] for log in it.told.logs]
        assert said == await records(it.house, "run_2") == ["run_2#1"]


async def test_a_record_that_was_stored_although_the_ledger_could_not_say_so_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch) as it:
        put, read = it.house.ledger.append, it.house.ledger.read

        async def unheard(append: Append) -> None:
            await put(append)
            monkeypatch.setattr(it.house.ledger, "read", deaf)
            raise LedgerUnavailable("the connection was lost")

        async def deaf(*_: Any, **__: Any) -> Any:
            monkeypatch.setattr(it.house.ledger, "append", put)
            monkeypatch.setattr(it.house.ledger, "read", read)
            raise LedgerUnavailable("the connection was lost")

        monkeypatch.setattr(it.house.ledger, "append", unheard)
        await it.call("read")
        await it.house.settle()
        said = [log.attributes["counterfoil.record.id"] for log in it.told.logs]
        assert said == (await records(it.house))[1:]


async def test_the_span_of_a_call_that_was_undone_tells_the_decision_about_that_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with told_house(monkeypatch, upstreams=undoing.upstreams(), **undoing.POLICY) as it:
        await it.call("pay", {"amount": 5})
        server = it.told.spans[-1]
        assert (server.kind, server.name) == ("server", "tools/call pay")
        told = {name: server.attributes[f"counterfoil.{name}"] for name in ("transition.name", "authority.kind")}
        assert told == {"transition.name": "pay", "authority.kind": "grant"}
        assert server.attributes["counterfoil.decision.id"] == "run_1#2"  # and not that of the refund


async def test_a_call_that_was_kept_waiting_is_not_linked_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    ask: dict[str, Any] = {"transitions": [{"name": "write", "tools": ["write"], "approval": {}}]}
    async with told_house(monkeypatch, **ask) as it:
        with it.telemetry.inbound(trace.Inbound("tools/call", tool="write", request_id="8", transport="pipe")):
            await it.house.call("write")
            await approve(it.house)
            await it.house.call("write")
        server = it.told.spans[-1]
        assert server.span_id not in {link.span_id for link in server.links}


async def test_what_is_sent_and_then_cancelled_is_no_success(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch) as it:
        begun = asyncio.Event()

        async def hangs(_: Dispatch) -> Any:
            begun.set()
            await asyncio.sleep(60)

        it.house.upstreams.will("write", hangs)
        calling = asyncio.ensure_future(it.call("write"))
        await begun.wait()
        await it.house.engine.carrier.close()  # as a gateway that stops
        await asyncio.gather(calling, return_exceptions=True)
        assert [log.event for log in it.told.logs][1:] == ["counterfoil.attempt.unknown"]
        assert it.told.span("tools/call write", "client").status == "error"


async def test_a_secret_in_the_address_of_a_resource_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async with told_house(monkeypatch) as it:
        asked = trace.Inbound("resources/read", resource="postgres://ann:hunter2@db/x?token=hunter2", transport="pipe")
        with it.telemetry.inbound(asked):
            pass
        assert "hunter2" not in repr(it.told)


async def test_long_addresses_and_names_of_tools_are_cut_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: dict[tuple[str, str], bytes] = {}
    monkeypatch.setattr(encoding, "_texts", kept)
    monkeypatch.setattr(encoding, "_misses", Counter())
    async with told_house(monkeypatch) as it:
        for number in range(10):
            asked = trace.Inbound("resources/read", resource=f"file:///{number}{'x' * 100_000}", transport="pipe")
            with it.telemetry.inbound(asked):
                pass
        await it.call("t" * 100_000)
        assert sum(len(text) + len(body) for (_, text), body in kept.items()) < 200_000
        assert max(len(str(value)) for log in it.told.logs for value in log.attributes.values()) <= 8_192


async def test_a_call_on_the_edge_of_a_time_costs_in_one_of_the_two_times() -> None:
    async with house() as it:
        it.clock.tell(3_600)
        send = it.upstreams.call

        async def slowly(dispatch: Dispatch) -> Any:
            answer = await send(dispatch)
            it.clock.tell(3_600)
            return answer

        it.upstreams.call = slowly  # type: ignore[method-assign]
        await it.call("write")
        opened, intent, receipt, *_ = [record.at for record, _ in await it.ledger.read("run_1")]
        edge, start = intent + (receipt - intent) / 2, opened + (intent - opened) / 2
        told = [await costs_of(it.ledger, Wanted(None, *time)) for time in ((start, edge), (edge, None))]
        assert sum(one.all.measured.calls for one in told) == 1


@pytest.mark.parametrize("name", ["OTEL_PROPAGATORS", "OTEL_PYTHON_METER_PROVIDER"])
def test_a_variable_that_names_what_is_not_installed_is_one_clear_line(name: str) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "gateway", "--version"],
        env={**os.environ, name: "b3"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("value", ["none", "", "deflate"])
def test_compression_over_grpc_that_it_does_not_know_does_not_end_the_gateway(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", value)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    exporter, _ = sender("traces", {})
    exporter.shutdown()
