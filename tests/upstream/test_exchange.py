import errno
import socket
from types import SimpleNamespace
from typing import Any, cast

import aiohttp
import pytest

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.exchange import TooLarge, refused, what_failed
from gateway.outbound.upstream.sse import EventTooLarge
from gateway.outbound.upstream.wire import Answered, Incoming, Malformed, Told

NOTHING = Malformed(None, "no JSON")
NO = ProtocolError({"code": -32000, "message": "no"})


@pytest.mark.parametrize(
    ("status", "message", "answer"),
    [
        (400, Answered(7, NO), NO),
        (500, Answered(7, ToolResult({})), ToolResult({})),
        (400, Answered(None, NO), NO),
        (401, Answered("server-error", NO), NO),
        (400, Answered(8, NO), Silence("it answered with status 400 and without a JSON-RPC message")),
        (400, Answered(None, ToolResult({})), Silence("it answered with status 400 and without a JSON-RPC message")),
        (400, NOTHING, Silence("it answered with status 400 and without a JSON-RPC message")),
        (500, Told("a", {}), Silence("it answered with status 500 and without a JSON-RPC message")),
        (503, NOTHING, Silence("it answered with status 503 and without a JSON-RPC message")),
        (302, NOTHING, Silence("it answered with a redirect (status 302), which is not followed")),
        (401, NOTHING, NotSent("the upstream refused the call with status 401: it wants other credentials")),
        (403, NOTHING, NotSent("the upstream refused the call with status 403: it forbids the call")),
        (404, NOTHING, NotSent("the upstream refused the call with status 404: there is nothing at its address")),
        (405, NOTHING, NotSent("the upstream refused the call with status 405: it takes no POST at its address")),
        (413, Answered(8, NO), NotSent("the upstream refused the call with status 413: the call is too large for it")),
        (415, NOTHING, NotSent("the upstream refused the call with status 415: it does not take JSON")),
        (429, NOTHING, NotSent("the upstream refused the call with status 429: it has had too many calls")),
    ],
)
def test_a_refusal_is_a_known_nothing_only_where_the_status_says_so(
    status: int, message: Incoming, answer: Answer
) -> None:
    assert refused(status, message, 7) == answer


KEY: Any = cast("Any", SimpleNamespace(host="h", port=1, ssl=True, is_ssl=True))


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (aiohttp.ConnectionTimeoutError("to http://u:secret@h/"), "there was no connection in time"),
        (aiohttp.ClientConnectorDNSError(KEY, socket.gaierror(-2, "x")), "its name cannot be resolved"),
        (aiohttp.ClientConnectorCertificateError(KEY, Exception()), "there is no trust in its certificate"),
        (aiohttp.ClientConnectorSSLError(KEY, OSError(1, "x")), "there is no trust in its certificate"),
        (aiohttp.ClientConnectorError(KEY, OSError(errno.ECONNREFUSED, "secret")), "connection refused"),
        (ConnectionResetError(errno.ECONNRESET, "secret"), "connection reset by peer"),
        (aiohttp.ServerDisconnectedError(), "it was closed"),
        (aiohttp.ClientPayloadError("secret"), "it was cut off"),
        (TooLarge("the answer is larger than 1 bytes"), "the answer is larger than 1 bytes"),
        (EventTooLarge("an event is larger than 1 bytes"), "an event is larger than 1 bytes"),
        (aiohttp.ClientConnectionError("http://h/?key=secret"), "it failed"),
        (TimeoutError(), "there was no connection in time"),
    ],
)
def test_what_failed_is_said_in_our_words_which_hold_no_secret(error: Exception, words: str) -> None:
    assert what_failed(error) == words
