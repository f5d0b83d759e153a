import pytest

from gateway.model.tool import Answer, NotSent, ProtocolError, Silence, ToolResult
from gateway.outbound.upstream.exchange import refused
from gateway.outbound.upstream.wire import Answered, Incoming, Malformed, Told

NOTHING = Malformed(None, "no JSON")
NO = ProtocolError({"code": -32000, "message": "no"})


def turned_away(words: str) -> NotSent:
    return NotSent(f"the upstream refused the call with status {words}", refused=True)


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
        (401, NOTHING, turned_away("401: it wants other credentials")),
        (403, NOTHING, turned_away("403: it forbids the call")),
        (404, NOTHING, turned_away("404: there is nothing at its address")),
        (405, NOTHING, turned_away("405: it takes no POST at its address")),
        (413, Answered(8, NO), turned_away("413: the call is too large for it")),
        (415, NOTHING, turned_away("415: it does not take JSON")),
        (429, NOTHING, turned_away("429: it has had too many calls")),
    ],
)
def test_a_refusal_is_a_known_nothing_only_where_the_status_says_so(
    status: int, message: Incoming, answer: Answer
) -> None:
    assert refused(status, message, 7) == answer
