from typing import Any

from starlette.requests import Request

from gateway.inbound.mcp.exchange import SCOPE_KEY, Exchange, Flights, exchange_of
from gateway.model.principal import Principal

ALICE, BOB = Principal("alice"), Principal("bob")


def exchange(request_id: Any = 1, principal: Principal = ALICE, session: str | None = "s") -> Exchange:
    return Exchange({"id": request_id, "method": "ping"}, principal, "http", session=session)


def cancel(request_id: Any, principal: Principal = ALICE, session: str | None = "s") -> Exchange:
    message = {"method": "notifications/cancelled", "params": {"requestId": request_id}}
    return Exchange(message, principal, "http", session=session)


def test_both_transports_hand_over_the_exchange() -> None:
    one = exchange()
    scope = {"type": "http", "headers": [], SCOPE_KEY: one}
    assert exchange_of(one) is exchange_of(Request(scope)) is one
    assert exchange_of(None) is exchange_of(Request({"type": "http"})) is None


def test_an_id_is_taken_until_nobody_works_on_its_request() -> None:
    flights, one = Flights(), exchange()
    assert flights.board(one)
    with one.held():
        one.release()  # the transport is done, the gate is not
        assert not flights.board(exchange())
        assert not flights.board(exchange("1"))
    assert flights.board(exchange())


def test_ids_count_within_one_connection_of_one_principal() -> None:
    flights = Flights()
    others = [exchange(), exchange(session="t"), exchange(principal=BOB), exchange(2), exchange(session=None)]
    assert all(flights.board(other) for other in others)


def test_a_cancel_finds_the_request_of_its_own_connection() -> None:
    flights, one = Flights(), exchange(7)
    flights.board(one)
    strangers = [cancel(8), cancel(7, BOB), cancel(7, session="t"), cancel(None), cancel([7]), exchange(7)]
    for stranger in strangers:
        flights.note(stranger)
    assert not one.cancelled
    flights.note(cancel("7"))
    assert one.cancelled
