"""What waits to be sent waits for nobody; and what the environment asks for."""

import logging
import threading
from collections.abc import Mapping, Sequence

import pytest

from gateway.outbound.otel.batches import Batches
from gateway.outbound.otel.switches import Bounds, bounds, exporters, protocol

LIMIT_S = 10


def test_everything_is_sent_in_order_and_in_batches() -> None:
    sent: list[Sequence[int]] = []

    def send(batch: Sequence[int]) -> bool:
        sent.append(batch)
        return True

    batches = Batches[int]("numbers", Bounds(1_000, 10, 60), send)
    for number in range(95):
        batches.put(number)
    batches.close()
    assert batches.ended(LIMIT_S)
    assert [one for batch in sent for one in batch] == [*range(95)]
    assert max(map(len, sent)) <= 10
    assert (batches.dropped, batches.left) == (0, 0)


def test_a_backend_that_hangs_takes_no_more_than_fits_and_the_rest_is_counted() -> None:
    hangs, begun = threading.Event(), threading.Event()

    def send(_: Sequence[int]) -> bool:
        begun.set()
        return hangs.wait(LIMIT_S)

    batches = Batches[int]("numbers", Bounds(20, 5, 60), send)
    for number in range(5):
        batches.put(number)
    assert begun.wait(LIMIT_S)
    for number in range(100):
        batches.put(number)
    assert (batches.dropped, batches.left) == (80, 25)
    batches.close()
    assert not batches.ended(0.05)
    hangs.set()
    assert batches.ended(LIMIT_S)


def test_what_a_backend_refuses_or_breaks_at_is_counted_as_dropped() -> None:
    answers = iter([False, None, True])

    def send(_: Sequence[int]) -> bool:
        answer = next(answers)
        if answer is None:
            raise OSError
        return answer

    batches = Batches[int]("numbers", Bounds(100, 1, 60), send)
    for number in range(3):
        batches.put(number)
    batches.close()
    assert batches.ended(LIMIT_S)
    assert batches.dropped == 2


ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("env", "wanted"),
    [
        ({}, [set(), set(), set()]),
        (ENDPOINT, [{"otlp"}, {"otlp"}, {"otlp"}]),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "x"}, [{"otlp"}, set(), set()]),
        ({**ENDPOINT, "OTEL_LOGS_EXPORTER": "none"}, [{"otlp"}, {"otlp"}, set()]),
        ({"OTEL_METRICS_EXPORTER": "prometheus"}, [set(), {"prometheus"}, set()]),
        ({**ENDPOINT, "OTEL_METRICS_EXPORTER": "otlp, prometheus"}, [{"otlp"}, {"otlp", "prometheus"}, {"otlp"}]),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, [set(), set(), set()]),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "console"}, [set(), {"otlp"}, {"otlp"}]),
    ],
)
def test_the_standard_variables_say_what_goes_out(env: Mapping[str, str], wanted: list[set[str]]) -> None:
    assert [set(exporters(signal, env)) for signal in ("traces", "metrics", "logs")] == wanted


def test_what_is_not_known_is_said_and_not_guessed(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        exporters("traces", {"OTEL_TRACES_EXPORTER": "console"})
        assert protocol("traces", {"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}) == "http/protobuf"
        told = bounds("traces", {"OTEL_BSP_MAX_QUEUE_SIZE": "-1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "7"})
    assert told == Bounds(16_384, 7, 5.0)
    assert [one.getMessage() for one in caplog.records] == [
        "OTEL_TRACES_EXPORTER names `console`, which is not known here (otlp, none)",
        "the OTLP protocol `http/json` is not known here (grpc, http/protobuf): http/protobuf it is",
        "OTEL_BSP_MAX_QUEUE_SIZE must be a whole number from 1 to 1,000,000; 16384 it is",
    ]


def test_a_signal_may_go_another_way_than_the_others() -> None:
    env = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL": "http/protobuf"}
    assert [protocol(signal, env) for signal in ("traces", "logs")] == ["grpc", "http/protobuf"]
