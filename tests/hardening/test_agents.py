"""What a hostile agent sends is refused before anything happens, and harms nobody [hardening T10-T25, T48]."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.fidelity.cells import Kind
from tests.hardening.hostile import OK, Answer, Ground, call, ground

PARSE, INVALID = -32700, -32600


@pytest.fixture
async def it(tmp_path: Path) -> AsyncIterator[Ground]:
    async with ground(tmp_path) as made:
        yield made


MALFORMED: dict[str, tuple[bytes, int]] = {
    "two names": (call(more=',"name":"raw__full"'), PARSE),
    "a key twice, escaped": (call('{"amount":1,"\\u0061mount":1000000}'), PARSE),
    "a key twice in an item": (call('{"items":[{"a":1,"a":2}]}'), PARSE),
    "Name beside name": (call(more=',"Name":"raw__full","Arguments":{"x":1}'), INVALID),
    "arguments with a long s": (call(more=',"argument\u017f":{"x":1}'), INVALID),
    "METHOD": (b'{"METHOD":"x",' + call()[1:], INVALID),
    "NaN": (call('{"v":NaN}'), PARSE),
    "Infinity": (call('{"v":-Infinity}'), PARSE),
    "1e400": (call('{"v":1e400}'), PARSE),
    "5,000 digits": (call(f'{{"v":{"9" * 5000}}}'), PARSE),
    "half a surrogate pair": (call('{"v":"\\ud800"}'), PARSE),
    "a byte order mark": (b"\xef\xbb\xbf" + call(), PARSE),
    "UTF-16": (call().decode().encode("utf-16"), PARSE),
    "overlong": (call('{"v":"@"}').replace(b"@", b"\xc0\xaf"), PARSE),
    "NUL in a name": (call(name="raw__ec\\u0000ho"), INVALID),
    "NUL in a key": (call('{"a\\u0000":1}'), INVALID),
    "65 levels": (call("[" * 65 + "]" * 65), PARSE),
    "100,000 brackets": (call("[" * 100_000), PARSE),
    "100,000 keys": (call("{" + ",".join(f'"{n}":0' for n in range(100_000)) + "}"), INVALID),
    "method and result": (b'{"result":{},' + call()[1:], INVALID),
    "a batch": (b"[" + call() + b"," + call() + b"]", INVALID),
    "an empty batch": (b"[]", INVALID),
    "no id": (call().replace(b'"id":1,', b""), INVALID),
    **{f"id {shown[:12]}": (call(id_=shown), INVALID) for shown in ("null", "1.5", "true", "{}", "[]", "9" * 400)},
    "an empty method without id": (b'{"jsonrpc":"2.0","method":""}', INVALID),
    "a path as method without id": (b'{"jsonrpc":"2.0","method":"../../../etc/passwd"}', INVALID),
    "_meta that is no object": (call().replace(b'"_meta":{', b'"_meta":"x","x":{'), INVALID),
}  # fmt: skip


async def test_what_is_malformed_costs_one_message_whatever_the_order(it: Ground) -> None:
    for name, (body, code) in [*MALFORMED.items(), *reversed(MALFORMED.items())]:
        answer = await it.post(body)
        assert (answer.status, answer.code) == (400, code), name
    assert it.effects() == 0
    await it.still_good()


async def test_a_body_that_is_no_plain_json_is_not_read(it: Ground) -> None:
    for headers in (
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Encoding": "gzip"},
        {"Content-Encoding": "identity, br"},
    ):
        assert (await it.post(call(), headers)).status == 415
    assert it.effects() == 0


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Name": "raw__full"},
        {"Mcp-Name": "Raw__Echo"},
        {"Mcp-Name": "raw__echo\r\nMcp-Name: raw__full"},
        {"Mcp-Name": "=?base64?cmF3X19mdWxs?="},
        {"Mcp-Name": ""},
        {"Mcp-Method": "tools/list"},
        {"MCP-Protocol-Version": "2025-11-25"},
    ],
    ids=str,
)
async def test_whoever_says_something_else_in_a_header_is_not_served(it: Ground, headers: dict[str, str]) -> None:
    answer = await it.post(call(), headers)
    assert (answer.status, answer.code) == (400, -32020)
    assert it.effects() == 0


async def test_no_page_of_another_site_and_no_rebound_name_gets_in(it: Ground) -> None:
    for headers, status in (
        ({"Host": "evil.example"}, 421),
        ({"Host": f"evil.example:{it.port}"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "localhost."}, 421),
        ({"Host": "0.0.0.0"}, 421),  # noqa: S104 - a name that browsers let pages ask for
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
    ):
        assert (await it.post(call(), headers)).status == status, headers
    assert it.effects() == 0
    for good in ({"Host": f"[::1]:{it.port}"}, {"Origin": f"http://localhost:{it.port}"}):
        assert (await it.post(call(), good)).status == 200, good


async def test_one_request_is_one_answer_however_it_is_framed(it: Ground) -> None:
    smuggled = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{it.port}\r\n\r\n".encode()
    head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{it.port}\r\nContent-Type: application/json\r\n".encode()
    for more in (
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled,
        b"Content-Length: 3\r\nContent-Length: 5\r\n\r\n{}",
        b"Content-Length: +5\r\n\r\n{}",
        b"Transfer-Encoding: xchunked\r\n\r\n",
        b"Mcp-Name: ec\r\n ho\r\n\r\n",
        b"Host : x\r\n\r\n",
    ):
        said = await it.raw(head + more)
        assert said.startswith(b"HTTP/1.1 400 "), more
        assert said.count(b"HTTP/1.1 ") == 1, more
    bare = await it.raw(f"POST /mcp HTTP/1.1\nHost: 127.0.0.1:{it.port}\nContent-Length: 2\n\n{{}}".encode())
    assert bare.startswith(b"HTTP/1.1 400 ")
    assert (await it.raw(head + b"X-A: " + b"a" * 100_000 + b"\r\n\r\n")).startswith(b"HTTP/1.1 431 ")
    assert it.effects() == 0


async def test_no_name_in_meta_or_header_makes_anybody_somebody_else(it: Ground) -> None:
    spoofed = '"counterfoil/principal":"admin","Counterfoil/tenant":"t2","dev.gw/principal":"admin"'
    headers = {"X-Internal": "1", "router-key": "secret-api-key", "X-Tenant": "t2", "Cookie": "a=b", "X-Api-Key": "k"}
    passed_on = await it.post(call(meta=spoofed), {**headers, "X-Forwarded-For": "10.0.0.1"})
    assert (passed_on.status, it.effects()) == (401, 0)  # from another machine, by its own word
    answer = await it.post(call(meta=spoofed), headers)
    assert answer.status == 200
    (heard,) = [message for message in it.cell.heard() if message.get("method") == "tools/call"]
    assert heard["params"]["_meta"] == {"dev.gw/principal": "admin"}  # not ours: a word between those two


async def test_fifty_calls_of_one_id_get_their_own_answers(it: Ground) -> None:
    it.cell.script(b'say {"jsonrpc":"2.0","id":@ID@,"result":{"content":[],"structuredContent":{"of":@ID@}}}')
    answers: list[Answer] = await asyncio.gather(*(it.post(call(f'{{"n":{n}}}')) for n in range(50)))
    told = [json.loads(answer.body)["result"]["structuredContent"]["of"] for answer in answers]
    assert len(set(told)) == 50
    assert {json.loads(answer.body)["id"] for answer in answers} == {1}
    assert it.effects() == 50


async def test_an_agent_cannot_agree_with_itself(it: Ground) -> None:
    for name in ("gateway__approve", "gateway__approval_resume", "GATEWAY__APPROVAL", "gateway__decide", "echo"):
        answer = json.loads((await it.post(call(name=name), name=name)).body)
        assert answer["result"]["isError"] is True, name
    assert it.effects() == 0


async def test_arguments_arrive_as_they_were_judged_and_nothing_is_coerced(it: Ground) -> None:
    for arguments in (
        '{"path":"a","PATH":"b"}',
        '{"amount":"10","opts":"{\\"force\\":true}","__proto__":{"x":1},"constructor":null}',
        '{"n":9007199254740993,"m":18446744073709551616,"k":-9223372036854775809,"f":1.0,"i":1,"z":-0.0}',
        '{"\u00e9":1,"e\u0301":2,"s":"\u2028\ufeff"}',
    ):
        it.cell.answers(b'{"content":[]}')
        assert (await it.post(call(arguments))).status == 200
        (heard,) = [message for message in it.cell.heard() if message.get("method") == "tools/call"]
        assert repr(heard["params"]["arguments"]) == repr(json.loads(arguments))


SPELLED = (
    *(
        "tools/Call",
        "TOOLS/CALL",
        "tools/call ",
        "tools//call",
        "./tools/call",
        "$/tools/call",
        "tools.call",
        "toolsCall",
    ),
    *("tools\\\\call", "tools/call\\u200b", "\uff54ools/call", "tools\u2215call", "tools/c\u0430ll", "t\u043eols/call"),
    *("tasks/list", "tasks/result", "TASKS/get", "prompts/Get", "sampling/createMessage", "rpc.discover"),
)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_no_method_is_passed_on_that_a_server_could_take_for_one_that_is_judged(tmp_path: Path, era: str) -> None:
    """Behind one server, methods that we do not know are its own: they are neither judged nor recorded."""
    async with ground(tmp_path, Kind("stdio", era, "http", era)) as it:
        for method in SPELLED:
            it.cell.answers(OK)
            reply = await it.cell.client.request(method, '"name":"echo","arguments":{}')
            assert reply.message["error"]["code"] in {-32601, -32602}, method
            assert it.cell.heard() == [], method
        for method in ("vendor/exec", "com.example/tools/call", "toolbox/open"):
            it.cell.answers(OK)
            assert (await it.cell.client.request(method, '"x":1')).result["content"]
