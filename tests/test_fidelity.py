"""Nothing is lost on the way: any JSON, whole results of 10 MiB, and what the record gives back.

The corpus, cell by cell, is in `tests/fidelity/`, and all that may differ in `tests/fidelity/written.py`.
"""

import math
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.model.canonical import dump
from tests.fidelity.cells import BOUND_S, KINDS, Cell, Kind, cell
from tests.fidelity.clients import OverHttp, OverStdio, read, spelled
from tests.fidelity.corpus import VALUES, nested
from tests.fidelity.written import RECORD, exact, same_params, same_result, sent_result

HTTP = Kind("http", "modern", "http", "legacy")
STDIO = Kind("stdio", "legacy", "stdio", "modern")

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=20,
)


@pytest.mark.parametrize("kind", [HTTP, STDIO], ids=str)
def test_any_json_passes_both_ways(kind: Kind, tmp_path: Path) -> None:
    """Drawn on this side of the event loop, sent on the other: hypothesis knows none."""
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(cell(kind, tmp_path)) as it,
    ):

        @settings(max_examples=60, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
        @given(JSON, JSON)
        def passes(there: Any, back: Any) -> None:
            portal.call(_both_ways, it, dump(there), dump(back))

        passes()


async def _both_ways(it: Cell, there: str, back: str) -> None:
    result = f'{{"content":[{{"v":{back}}}],"structuredContent":{{"v":{back}}}}}'.encode()
    it.answers(result)
    reply = await it.call(f'{{"v":{there}}}', f'"v/m":{there}')
    same_result(reply.result, read(result), it.kind)
    sent = f'{{"name":"echo","arguments":{{"v":{there}}},"_meta":{{"v/m":{there}}}}}'
    same_params(it.heard()[-1]["params"], read(sent.encode()))


BIG = [
    HTTP,
    STDIO,
    pytest.param(Kind("http", "legacy", "stdio", "modern"), marks=pytest.mark.long),
    pytest.param(Kind("stdio", "modern", "http", "legacy"), marks=pytest.mark.long),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", BIG, ids=str)
async def test_a_result_of_10_mib_arrives_whole(kind: Kind, tmp_path: Path) -> None:
    async with cell(kind, tmp_path) as it:
        for plain in (False, True):
            part = (
                b'{"type":"text","text":"\\u0000\\ud83d\\ude00\xc3\xa9\xe2\x80\xa8","n":18446744073709551617,"f":1.0},'
            )
            sent = b'{"content":[%bnull],"v":"%b"}' % (part * 60_000, b"x" * (10 * 2**20 - 60_000 * len(part)))
            it.answers(sent, plain=plain)
            same_result((await it.call()).result, read(sent), kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [HTTP, STDIO], ids=str)
async def test_a_call_of_almost_4_mib_arrives_whole(kind: Kind, tmp_path: Path) -> None:
    async with cell(kind, tmp_path) as it:
        it.answers(b'{"content":[]}')
        text = '"' + "\u00e9\U0001f600\\u0000" * 300_000 + '"'
        await it.call(f'{{"v":{text}}}')
        assert exact(it.heard()[-1]["params"]["arguments"]) == exact({"v": read(text.encode())})


@pytest.mark.parametrize("kind", [HTTP, STDIO], ids=str)
async def test_the_record_gives_back_what_was_answered(kind: Kind, tmp_path: Path) -> None:
    """Its keys by code point: the record is kept in the canonical form."""
    async with cell(kind, tmp_path) as it:
        for text in [*VALUES.values(), nested(300)]:
            sent = b'{"z":1.0,"content":[],"structuredContent":{"v":%b}}' % text
            it.answers(sent)
            first = (await it.call()).result
            attempt = first["_meta"][RECORD]["attempt"]
            asked = f'"name":"gateway__result","arguments":{{"attempt":{spelled(attempt)}}}'
            again = (await it.client.request("tools/call", asked)).result
            for name in ("z", "content", "structuredContent"):
                assert exact(ordered(again[name])) == exact(ordered(first[name]))


def ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: ordered(value[key]) for key in sorted(value)}
    return [ordered(item) for item in value] if isinstance(value, list) else value


IDS = ["0", "-1", "18446744073709551617", '""', '"1"', '"\U0001f600 e\u0301 \u2028"', '"__proto__"']


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[2:] == ("http", "modern")], ids=str)
async def test_a_request_has_its_own_id_back(kind: Kind, tmp_path: Path) -> None:
    async with cell(kind, tmp_path) as it:
        it.answers(b'{"content":[]}')
        for given_id in IDS:
            it.client.ids = iter([given_id])
            assert exact((await it.call()).message["id"]) == exact(read(given_id.encode()))


async def test_an_event_may_be_split_into_lines_wherever_json_has_space(tmp_path: Path) -> None:
    async with cell(HTTP, tmp_path) as it:
        for gap in (b"\ndata: ", b"\ndata:", b"\r\ndata: ", b"\rdata: ", b"\n: a comment\nid: 7\ndata:\ndata: "):
            sent = b'{"content":[],"structuredContent":{"a":[1.0,null]}}'
            it.script(b'say {"jsonrpc":"2.0","id":@ID@,"result":%b}' % sent.replace(b",", b",@GAP@"))
            (tmp_path / "gap").write_bytes(gap)
            same_result((await it.call()).result, read(sent), it.kind)
            (tmp_path / "gap").unlink()


async def test_what_is_told_of_a_resource_arrives_as_it_was_sent(tmp_path: Path) -> None:
    said = b'{"vendor":1.0,"uri":"mem://one","title":null,"_meta":{"z":1e22,"a":null}}'
    for kind in (Kind("stdio", "legacy", "stdio", "legacy"), Kind("http", "legacy", "stdio", "legacy")):
        folder = tmp_path / kind.front
        folder.mkdir()
        async with cell(kind, folder) as it:
            it.answers(b"{}", b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":%b}' % said)
            assert (await it.client.request("resources/subscribe", '"uri":"mem://one"')).result == {}
            with anyio.fail_after(BOUND_S):
                assert exact((await _after(it))["params"]) == exact(read(said))


async def _after(it: Cell) -> Any:
    """The next message that belongs to no request."""
    if isinstance(it.client, OverHttp):
        async with it.client.standing() as stream:
            await it.call()
            return read(await anext(stream))
    assert isinstance(it.client, OverStdio)
    reply = await it.call()
    return read(reply.before[0])


def test_the_comparison_sees_what_python_does_not() -> None:
    same: list[tuple[str, str]] = [("1", "1.0"), ("0.0", "-0.0"), ("true", "1"), ('{"a":1,"b":2}', '{"b":2,"a":1}')]
    for one, other in same:
        assert read(one.encode()) == read(other.encode())
        assert exact(read(one.encode())) != exact(read(other.encode()))
    assert math.copysign(1, read(VALUES["-0.0"])) == -1
    assert exact(read(VALUES["astral"])) == exact("\U0001f600\U0010ffff")


def test_nothing_is_allowed_that_is_not_written_down() -> None:
    sent: dict[str, Any] = {"vendor": None, "ttlMs": 1, "structuredContent": [1.0], "_meta": {"a": 1}}
    assert sent_result(sent, HTTP) == sent
    text = {"type": "text", "text": "[1.0]"}
    assert sent_result(sent, STDIO) == {"vendor": None, "ttlMs": 1, "content": [text], "_meta": {"a": 1}}
    changes: list[dict[str, Any]] = [{"vendor": 0}, {"ttlMs": 1.0}, {"more": 1}, {"_meta": {"a": 1, "b": 2}}]
    for changed in changes:
        arrived = {**sent, **changed, "resultType": "complete"}
        arrived["_meta"] = {
            **arrived["_meta"],
            RECORD: {},
            "io.modelcontextprotocol/serverInfo": {"name": "counterfoil"},
        }
        with pytest.raises(AssertionError):
            same_result(arrived, sent, HTTP)
