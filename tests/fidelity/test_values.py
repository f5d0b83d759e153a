"""Every value of the corpus, in every cell, both ways; and those that nobody may be sent."""

from typing import Any

from gateway.inbound.mcp.envelope import MAX_KEYS
from gateway.model.canonical import MAX_DEPTH
from gateway.outbound.upstream import wire
from tests.fidelity.cells import Cell
from tests.fidelity.clients import read
from tests.fidelity.corpus import ALL, REFUSED, VALUES, nested
from tests.fidelity.written import RECORD, exact, same_params, same_result

NO_KEYS_WITH_NUL = b'{"a\\u0000b":1}'


async def test_each_value_reaches_the_server_as_it_was_sent(it: Cell) -> None:
    for name, text in VALUES.items():
        it.answers(b'{"content":[]}')
        arguments = b'{"v":%b}' % text
        sent = b'{"name":"echo","arguments":%b,"_meta":{"vendor/m":%b}}' % (arguments, text)
        await it.call(arguments.decode(), f'"vendor/m":{text.decode()}')
        [heard] = it.heard()
        assert heard["method"] == "tools/call", name
        same_params(heard["params"], read(sent))


async def test_each_value_reaches_the_client_as_it_was_sent(it: Cell) -> None:
    for number, text in enumerate(VALUES.values()):
        sent = (
            b'{"content":[{"type":"text","text":"","v":%b},{"type":"hologram","v":%b}],"structuredContent":{"v":%b},'
            b'"isError":false,"vendor":%b,"_meta":{"vendor/m":%b}}'
        ) % ((text,) * 5)
        it.answers(sent, plain=number % 2 == 0)
        same_result((await it.call()).result, read(sent), it.kind)


async def test_any_value_can_be_structured_content(it: Cell) -> None:
    for number, text in enumerate(VALUES.values()):
        content = (b"[]", b'[{"type":"text","text":"t"}]')[number % 3 == 0]
        sent = b'{"content":%b,"structuredContent":%b}' % (content, text)
        it.answers(sent, plain=number % 2 == 0)
        same_result((await it.call()).result, read(sent), it.kind)


async def test_each_value_reaches_the_client_in_an_error(it: Cell) -> None:
    error = b'{"code":-31000,"message":"m","data":%b,"vendor":%b}' % (ALL, ALL)
    it.script(b'say {"jsonrpc":"2.0","id":@ID@,"error":%b}' % error)
    arrived = (await it.call()).message["error"]
    assert arrived["data"].pop(RECORD)["hidden"]["done"] == "flagged"  # some of the values are control characters
    assert exact(arrived) == exact(read(error))


async def test_what_is_not_one_value_is_refused_and_never_sent(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    for name, text in (REFUSED | {"NUL in a key": NO_KEYS_WITH_NUL}).items():
        reply = await it.call(f'{{"v":{text.decode()}}}')
        assert reply.message["error"]["code"] in {-32700, -32600}, name
    assert it.heard() == []


async def test_an_answer_that_is_not_one_value_is_never_passed_on(it: Cell) -> None:
    for name, text in REFUSED.items():
        it.answers(b'{"content":[],"structuredContent":{"v":%b}}' % text)
        told: Any = (await it.call()).result["structuredContent"]
        assert (told["outcome"], told["executed"]) == ("timeout_unknown", "unknown"), name


async def test_a_call_may_be_as_deep_as_the_limit(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    above = 2 + 1  # the message, the params, the arguments
    for levels, fits in ((MAX_DEPTH - above, True), (MAX_DEPTH - above + 1, False)):
        text = nested(levels)
        reply = await it.call(f'{{"v":{text.decode()}}}')
        assert ("result" in reply.message) is fits
    [heard] = it.heard()
    assert exact(heard["params"]["arguments"]) == exact({"v": read(nested(MAX_DEPTH - above))})


async def test_an_answer_may_be_as_deep_as_its_limit(it: Cell) -> None:
    for levels in (100, 250, 260, wire.MAX_DEPTH - 3):
        sent = b'{"content":[],"structuredContent":{"v":%b}}' % nested(levels)
        it.answers(sent)
        same_result((await it.call()).result, read(sent), it.kind)
    it.answers(b'{"content":[],"structuredContent":{"v":%b}}' % nested(wire.MAX_DEPTH - 2))
    assert (await it.call()).result["structuredContent"]["outcome"] == "timeout_unknown"


async def test_a_call_may_be_as_wide_as_the_limit(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    for count, fits in ((MAX_KEYS - 100, True), (MAX_KEYS, False)):
        wide = ",".join(f'"{number}":null' for number in range(count))
        reply = await it.call(f"{{{wide}}}")
        assert ("result" in reply.message) is fits
    assert len(it.heard()) == 1
