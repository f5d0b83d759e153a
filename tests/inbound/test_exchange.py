from typing import Any

from gateway.inbound.mcp.exchange import Exchange, Flights
from gateway.model.canonical import JsonObject
from gateway.model.principal import Principal


class Nowhere:
    """A line that nobody hears."""

    there = False

    def send(self, message: JsonObject) -> None:
        raise NotImplementedError

    def pause(self, retry_ms: int | None) -> None:
        raise NotImplementedError


def exchange(request_id: Any = 1) -> Exchange:
    return Exchange({"id": request_id, "method": "ping"}, Principal("alice"), "http", Nowhere())


def test_an_id_is_taken_until_its_request_has_landed() -> None:
    flights, one = Flights(), exchange()
    assert flights.board(one)
    assert not flights.board(exchange())
    assert not flights.board(exchange("1"))
    flights.land(one)
    assert flights.board(exchange("1"))


def test_a_request_that_was_turned_away_does_not_land_another() -> None:
    flights, one = Flights(), exchange()
    flights.board(one)
    flights.land(exchange())
    assert list(flights) == [one]


def test_a_request_is_found_by_either_spelling_of_its_id() -> None:
    flights, one = Flights(), exchange(7)
    flights.board(one)
    assert [flights.find(wanted) is one for wanted in (7, "7", 8, None, [7])] == [True, True, False, False, False]
    assert len(flights) == 1


def test_flights_may_land_while_they_are_gone_through() -> None:
    flights = Flights()
    for number in range(3):
        flights.board(exchange(number))
    for one in flights:
        flights.land(one)
    assert len(flights) == 0
