"""What of a conversation is kept to be said again."""

from gateway.inbound.mcp.sessions import MAX_EVENTS, MAX_WRITTEN_EVENTS, Conversation
from gateway.model.canonical import JsonObject
from gateway.model.principal import Principal


def note(number: int) -> JsonObject:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"n": number}}


def test_the_oldest_events_are_forgotten_and_the_newest_never() -> None:
    conversation = Conversation(Principal("alice"))
    for number in range(MAX_EVENTS + 5):
        conversation.general.send(note(number))
    assert [event.number for event in conversation.kept(0)] == list(range(6, MAX_EVENTS + 6))
    conversation.general.send({**note(0), "big": "x" * 5_000_000})
    assert [event.number for event in conversation.kept(0)] == [MAX_EVENTS + 6]


def test_of_what_was_written_less_is_kept() -> None:
    conversation = Conversation(Principal("alice"))
    for number in range(MAX_WRITTEN_EVENTS + 5):
        conversation.general.send(note(number))
        conversation.kept(0)[-1].sent = True
    assert [event.number for event in conversation.kept(0)] == list(range(6, MAX_WRITTEN_EVENTS + 6))
    conversation.general.send({**note(0), "big": "x" * 300_000})
    assert [event.sent for event in conversation.kept(0)] == [False]


def test_what_is_no_json_is_not_kept() -> None:
    conversation = Conversation(Principal("alice"))
    conversation.general.send({"n": float("nan")})
    assert conversation.kept(0) == []


def test_a_session_cannot_be_guessed() -> None:
    ids = {Conversation(Principal("alice")).session.id for _ in range(100)}
    assert len(ids) == 100
    assert min(map(len, ids)) >= 43
