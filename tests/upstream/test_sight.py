"""What an upstream is told of the trace that a request belongs to, and who sees that it is sent."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gateway.model.tool import Answer, ToolResult
from gateway.outbound.upstream.sight import Sight, address_of, allowed
from gateway.outbound.upstream.spec import HttpSpec, Spec, StdioSpec
from gateway.ports import Sending
from tests.upstream.faults import Faults, call, opened

pytestmark = pytest.mark.anyio

OURS = {"traceparent": "00-ours", "tracestate": "ours=1"}
THEIRS = {"traceparent": "00-theirs", "baggage": "user=ann, secret=x;p=1,a=1", "progressToken": 9}


@dataclass
class Watch:
    """Sees what is sent, and what came of it."""

    sent: list[Sending] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    carrier: Mapping[str, str] = field(default_factory=lambda: OURS)

    @contextmanager
    def observe(self, sending: Sending) -> Iterator["Watch"]:
        self.sent.append(sending)
        yield self

    def answered(self, answer: Answer) -> None:
        self.answers.append(answer)


@contextmanager
def stdio(faults: Faults) -> Iterator[Spec]:
    yield faults.stdio()


WAYS: dict[str, Any] = {"stdio": stdio, "http": lambda faults: faults.http(era="modern")}


@pytest.mark.parametrize("way", WAYS)
async def test_an_upstreams_parent_is_the_request_that_it_gets_and_not_the_clients(way: str, tmp_path: Path) -> None:
    faults, watch = Faults(tmp_path / "log"), Watch()
    start: AbstractContextManager[Spec] = WAYS[way](faults)
    with start as spec:
        sight = Sight(watch.observe, frozenset({"user", "a"}))
        async with opened(spec, sight=sight) as catalogue:
            assert isinstance(await call(catalogue, "echo", {}, meta=THEIRS), ToolResult)
    told = faults.entries("meta")[-1]
    assert {name: told.get(name) for name in ("traceparent", "tracestate", "baggage")} == {
        **OURS,
        "baggage": "user=ann,a=1",
    }
    (sent,) = watch.sent
    assert (sent.method, sent.target, sent.upstream) == ("tools/call", "echo", "f")
    assert told["progressToken"] == sent.request_id
    assert (sent.address is None) == (way == "stdio")
    assert [type(one) for one in watch.answers] == [ToolResult]
    if way == "http":
        headers = faults.entries("headers")[-1]
        assert {name: headers.get(name) for name in ("traceparent", "tracestate", "baggage")} == {
            **OURS,
            "baggage": "user=ann,a=1",
        }


async def test_where_nobody_looks_a_clients_trace_goes_on_and_its_baggage_does_not(tmp_path: Path) -> None:
    faults = Faults(tmp_path / "log")
    async with opened(faults.stdio()) as catalogue:
        await call(catalogue, "echo", {}, meta={"traceparent": "00-theirs", "baggage": "user=ann"})
    assert faults.entries("meta")[-1] == {"traceparent": "00-theirs"}


@pytest.mark.parametrize(
    ("told", "keys", "passed"),
    [
        ("a=1,b=2", {"a"}, "a=1"),
        ("a=1;p=x , b=2", {"a", "b"}, "a=1;p=x,b=2"),
        ("a=1", set(), ""),
        ("A=1", {"a"}, ""),
        ("=1,a", {"a"}, "a"),
        ("", {"a"}, ""),
        (7, {"a"}, ""),
        (None, {"a"}, ""),
    ],
)
def test_of_baggage_only_what_is_allowed_goes_on(told: Any, keys: set[str], passed: str) -> None:
    assert allowed(told, frozenset(keys)) == passed


@pytest.mark.parametrize(
    ("spec", "address"),
    [
        (StdioSpec("s", "x"), None),
        (HttpSpec("h", "http://one.example/mcp"), ("one.example", 80)),
        (HttpSpec("h", "https://one.example/mcp"), ("one.example", 443)),
        (HttpSpec("h", "http://[::1]:8080/mcp"), ("::1", 8080)),
        (HttpSpec("h", "http://u:p@one.example:99999/"), ("one.example", 80)),
    ],
)
def test_an_upstreams_address_is_told_without_its_credentials(spec: Spec, address: tuple[str, int] | None) -> None:
    assert address_of(spec) == address
