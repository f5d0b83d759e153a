"""What is said beside and instead of plain results: in every cell, both ways, exactly."""

from typing import Any

import pytest

from gateway.model.canonical import dump
from tests.fidelity.cells import Cell
from tests.fidelity.clients import OverHttp, read
from tests.fidelity.corpus import ALL, VALUES
from tests.fidelity.written import exact, plain_params, same_params, same_result, without

BLOB = b'{"type":"resource","resource":{"uri":"mem://b","mimeType":null,"blob":"AAECAw==","vendor":1.0,"_meta":{}}}'
RESULTS = {
    "empty": b"{}",
    "empty content": b'{"content":[]}',
    "no content, an error": b'{"isError":true,"content":[],"vendor":null}',
    "content is null": b'{"content":null,"isError":null,"structuredContent":{}}',
    "meta is null": b'{"content":[],"_meta":null}',
    "meta is empty": b'{"_meta":{},"content":[]}',
    "meta in the middle": b'{"a":1,"_meta":{"z":null,"a":1.0,"progressToken":"x"},"content":[],"b":2}',
    "a record that is not ours": b'{"content":[],"_meta":{"counterfoil/record":{"forged":true},"b":1}}',
    "every kind of content": b'{"content":[{"type":"image","data":"AA==","mimeType":"image/png","annotations":'
    b'{"audience":["user"],"priority":1.0,"lastModified":"2026","vendor":null},"_meta":{"a":1}},{"type":"audio","data":'
    b'"","mimeType":"x"},{"type":"resource_link","uri":"mem://one","name":"","size":1e3,"icons":[null]},'
    + BLOB
    + b',{"type":"tool_use","id":1,"input":{}},{"vendor":"no type"},null,1.0,"text",[]]}',
    "words of requests": b'{"content":[],"method":"x","id":5,"params":{},"jsonrpc":"1.0","error":{}}',
    "hints": b'{"content":[],"ttlMs":1.0,"cacheScope":null,"nextCursor":""}',
    "server info": b'{"content":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"raw","x":1.0},"b":2}}',
    "server info behind": b'{"content":[],"_meta":{"b":2,"io.modelcontextprotocol/serverInfo":{"name":1.0},"a":1}}',
    "complete": b'{"resultType":"complete","content":[]}',
    "schema words": b'{"content":[],"structuredContent":{"$ref":"#/$defs/a","$defs":{},"toJSON":1,"length":-0.0}}',
}
ERRORS = {
    "plain": b'{"code":-32602,"message":""}',
    "data is null": b'{"code":-32000,"message":"m","data":null}',
    "unknown members": b'{"vendor":{"a":1.0},"message":"\\u0000 \\ud83d\\ude00","code":1,"data":[],"_meta":null}',
    "a large code": b'{"code":18446744073709551617,"message":"m","data":{"z":1,"a":2}}',
    "of ours by its code": b'{"code":-32603,"message":"internal error","data":{"counterfoil/other":1}}',
}


async def test_each_result_arrives_as_it_was_sent(it: Cell) -> None:
    for sent in RESULTS.values():
        for plain in (False, True):
            it.answers(sent, plain=plain)
            same_result((await it.call()).result, read(sent), it.kind)


async def test_each_error_arrives_as_it_was_sent(it: Cell) -> None:
    for error in ERRORS.values():
        it.script(b'say {"jsonrpc":"2.0","id":@ID@,"error":%b}' % error)
        for method, members in (("tools/call", '"name":"raw__echo"'), ("resources/read", '"uri":"mem://one"')):
            reply = await it.client.request(method, members)
            assert exact(reply.message["error"]) == exact(read(error))


OWN_WORDS = '{"_meta":{"counterfoil/key":"k"},"name":1.0}'
ARGUMENTS = {
    "none": ("", "{}"),
    "null": (',"arguments":null', "{}"),
    "empty": (',"arguments":{}', "{}"),
    "words of ours": (f',"arguments":{OWN_WORDS}', OWN_WORDS),
}


async def test_arguments_arrive_as_they_were_sent(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    for sent, arrived in ARGUMENTS.values():
        await it.client.request("tools/call", f'"name":"raw__echo"{sent}')
        same_params(it.heard()[-1]["params"], {"name": "echo", "arguments": read(arrived.encode())})


async def test_only_our_own_keys_of_meta_stay_behind(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    meta = '"z":1.0,"":null,"traceparent":"00-1","io.modelcontextprotocol/vendor":[],"a":{"_meta":null},"claude/x":-0.0'
    await it.call("{}", f'"counterfoil/key":"k1",{meta},"Counterfoil/other":1')
    [heard] = it.heard()
    assert exact(plain_params(heard["params"])["_meta"]) == exact(read(f"{{{meta}}}".encode()))


async def test_a_call_carries_what_was_judged_and_nothing_else(it: Cell) -> None:
    it.answers(b'{"content":[]}')
    await it.client.request("tools/call", '"vendor":1,"name":"raw__echo","arguments":{"a":1.0},"x":null')
    same_params(it.heard()[-1]["params"], {"name": "echo", "arguments": {"a": 1.0}})


PROGRESS = [
    b'"progress":0,"total":0.0,"message":""',
    b'"progress":1,"total":1.0,"message":null',
    b'"progress":1e22,"total":18446744073709551617,"message":"\\u0000\xc2\x85\xe2\x80\xa8"',
    b'"progress":-0.0,"total":5e-324,"message":"\\ud83d\\ude00"',
    b'"progress":0.1,"total":null,"message":{}',
]


async def test_progress_keeps_its_kinds_under_the_clients_own_token(it: Cell) -> None:
    for token in ('"t"', "7", '""', "0", "18446744073709551617"):
        said = [b'{"vendor":null,"progressToken":%b,%b,"_meta":{"a":1.0}}' % (b"@TOKEN@", each) for each in PROGRESS]
        messages = [b'{"jsonrpc":"2.0","method":"notifications/progress","params":%b}' % each for each in said]
        it.answers(b'{"content":[]}', *messages)
        reply = await it.call("{}", f'"progressToken":{token}')
        sent = [read(each.replace(b"@TOKEN@", token.encode())) for each in said]
        assert list(map(exact, reply.told("notifications/progress"))) == list(map(exact, sent))


async def test_a_log_may_hold_any_value(it: Cell) -> None:
    said = [b'{"level":"error","logger":null,"vendor":%b,"data":%b}' % (text, text) for text in VALUES.values()]
    messages = [b'{"jsonrpc":"2.0","method":"notifications/message","params":%b}' % each for each in said]
    it.answers(b'{"content":[]}', *messages)
    reply = await it.call()
    assert list(map(exact, reply.told("notifications/message"))) == list(map(exact, map(read, said)))


async def test_a_notification_that_nobody_knows_arrives(it: Cell) -> None:
    said = b'{"z":1.0,"a":null,"_meta":{"x":1e22}}'
    it.answers(b'{"content":[]}', b'{"jsonrpc":"2.0","method":"notifications/vendor/x","params":%b}' % said)
    arrived: list[Any] = []
    if it.kind.server == "legacy" or it.kind.upstream == "http" or not isinstance(it.client, OverHttp):
        arrived = (await it.call()).told("notifications/vendor/x")
    elif it.kind.client == "legacy":  # the server is everybody's: what belongs to no request goes where all such does
        async with it.client.standing() as stream:
            await it.call()
            arrived = [read(await anext(stream))["params"]]
    unheard = (it.kind.client, it.kind.upstream, it.kind.server) == ("modern", "stdio", "modern")
    # Of which request it is nobody can tell, and in the newer era there is no other stream.
    assert list(map(exact, arrived)) == ([] if unheard else [exact(read(said))])


QUESTIONS = {
    "elicitation/create": b'{"mode":"form","message":"\\ud83d\\ude00","vendor":-0.0,"requestedSchema":{"type":"object",'
    b'"properties":{"":{"type":"number","default":1.0},"b":{"$ref":"#/$defs/x"}},"$defs":{}},"_meta":{"z":null,"a":1e2}}',
    "sampling/createMessage": b'{"messages":[{"role":"user","content":{"type":"hologram","v":null}},{"role":"x",'
    b'"content":[]}],"maxTokens":18446744073709551617,"temperature":1.0,"metadata":{"":null},"tools":[],'
    b'"modelPreferences":{"x":0.0}}',
    "roots/list": b'{"vendor":1.0}',
}
QUESTIONS["elicitation/create"] = QUESTIONS["elicitation/create"][:-1] + b',"all":%b}' % ALL
ANSWERS = {
    "all": f'{{"action":"accept","content":{ALL.decode()}}}',
    "accept": '{"action":"accept","content":{"z":1.0,"a":null,"":18446744073709551617},"_meta":{"v":1e22},"vendor":[]}',
    "odd": '{"vendor":null,"roots":[{"uri":"file:///","name":null,"_meta":{}}],"content":{"type":"x","v":-0.0}}',
}


@pytest.mark.parametrize("method", QUESTIONS)
async def test_a_question_and_its_answer_pass_unchanged(it: Cell, method: str) -> None:
    asked = QUESTIONS[method]
    for answer in ANSWERS.values():
        _script_question(it, method, asked)
        reply = await it.call(answer=f'"result":{answer}')
        assert reply.result["content"] == []
        assert exact(_asked(it, reply.before)) == exact(named(method, read(asked)))
        assert exact(_answered(it)) == exact(read(answer.encode()))


async def test_the_clients_progress_with_an_answer_passes_unchanged(it: Cell) -> None:
    if it.kind.client == "modern" or it.kind.server == "modern":
        return  # between rounds nobody tells of progress
    said = [
        '"progress":0,"total":1.0,"vendor":null',
        '"progress":1e22,"message":"\\u0000"',
        '"progress":-0.0,"total":null',
    ]
    it.client.progress = said
    for token in (b"18446744073709551617", b'"t"', b'""'):
        _script_question(it, "roots/list", b'{"_meta":{"progressToken":%b,"x":1.0}}' % token)
        [asked] = map(read, (await it.call(answer='"result":{}')).before)
        assert exact(without(asked["params"]["_meta"], "progressToken")) == exact({"x": 1.0})
        told = [message["params"] for message in it.heard() if message.get("method") == "notifications/progress"]
        sent = [read(b'{"progressToken":%b,%b}' % (token, each.encode())) for each in said]
        assert list(map(exact, told)) == list(map(exact, sent))
    it.client.progress = []


async def test_an_address_to_visit_passes_with_an_id_in_the_older_era_alone(it: Cell) -> None:
    asked = b'{"mode":"url","url":"https://example.invalid/?a=%C3%A9#e","v":1.0,"elicitationId":"e","message":null}'
    sent = read(asked) if it.kind.server == "legacy" else without(read(asked), "elicitationId")
    _script_question(it, "elicitation/create", dump(sent).encode())
    reply = await it.call(answer='"result":{"action":"accept"}')
    arrived = _asked(it, reply.before)
    assert exact(without(arrived, "elicitationId")) == exact(without(sent, "elicitationId"))
    assert ("elicitationId" in arrived) is (it.kind.client == "legacy")
    assert it.kind[1::2] != ("legacy", "legacy") or arrived["elicitationId"] == "e"


async def test_a_refusal_to_answer_passes_unchanged(it: Cell) -> None:
    if it.kind.client == "modern":
        return  # between rounds there is no way to refuse but a result that says so
    error = '{"code":-1,"message":"no","data":null,"vendor":1.0}'
    _script_question(it, "roots/list", b"{}")
    reply = await it.call(answer=f'"error":{error}')
    if it.kind.server == "legacy":
        assert exact(_response(it)["error"]) == exact(read(error.encode()))
    else:  # it cannot be told, so the call ends; the words before the message are ours
        told = reply.message["error"]
        assert exact(without(told, "message")) == exact(without(read(error.encode()), "message"))
        assert told["message"] == "the client did not answer `roots/list`: no"


def _script_question(it: Cell, method: str, params: bytes) -> None:
    end = b'say {"jsonrpc":"2.0","id":@ID@,"result":{"content":[]}}'
    question = b'{"method":"%b","params":%b}' % (method.encode(), params)
    if it.kind.server == "legacy":
        it.script(b'ask {"jsonrpc":"2.0","id":"s1",%b' % question[1:], end)
    else:
        wants = b'{"resultType":"input_required","inputRequests":{"\\u00e9 1":%b},"requestState":"s"}' % question
        it.script(b'say {"jsonrpc":"2.0","id":@ID@,"result":%b}' % wants, b"then", end)


def named(method: str, asked: Any) -> Any:
    """As it is passed on: what is asked of the user says which server asks."""
    message = asked.get("message") if method == "elicitation/create" else None
    return {**asked, "message": f"[raw] {message}"} if isinstance(message, str) else asked


def _asked(it: Cell, before: list[bytes]) -> Any:
    [said] = map(read, before)
    if it.kind.client == "legacy":
        return said["params"]
    [request] = said["result"]["inputRequests"].values()
    return request["params"]


def _response(it: Cell) -> Any:
    [response] = [message for message in it.heard() if "method" not in message]
    assert response["id"] == "s1"
    return response


def _answered(it: Cell) -> Any:
    if it.kind.server == "legacy":
        return _response(it)["result"]
    params = it.heard()[-1]["params"]
    assert params["requestState"] == "s"
    assert list(params["inputResponses"]) == ["\u00e9 1"]
    return params["inputResponses"]["\u00e9 1"]


async def test_the_clients_own_notifications_arrive(it: Cell) -> None:
    if it.kind.client == "modern" or it.kind.server == "modern":
        return  # the newer era has none
    it.answers(b'{"content":[]}')
    await it.call()  # so that its connection is up
    for method, params in (
        ("notifications/roots/list_changed", None),
        ("notifications/roots/list_changed2", '{"_meta":{"z":1.0,"a":null},"vendor":18446744073709551617}'),
        ("notifications/vendor/all", ALL.decode()),
        ("notifications/vendor/x", '{"":[-0.0,{"b":1,"a":2}]}'),
    ):
        await it.client.notify(method, params)
        assert exact(await it.told(method)) == exact(read((params or "{}").encode()))
