"""The flights as the jobs see them."""

from datetime import UTC, datetime

from flights import FLIGHT_COUNT, HOUR_MS, airline_names, read_flights, windows

FIRST = 20_000


def test_all_flights_in_the_order_of_their_scheduled_hour() -> None:
    flights = read_flights()
    assert len(flights) == FLIGHT_COUNT
    hours = [flight.scheduled_ms for flight in flights]
    assert hours == sorted(hours)
    assert datetime.fromtimestamp(hours[0] / 1000, UTC) == datetime(2013, 1, 1, 10, tzinfo=UTC)
    assert all(hour % HOUR_MS == 0 for hour in hours)
    assert {flight.carrier for flight in flights} == set(airline_names())
    assert sum(flight.dep_delay is None for flight in flights) == 8_255


def test_a_message_holds_everything_but_the_event_time() -> None:
    (flight,) = read_flights(1)
    assert flight.value() == {
        "carrier": "UA",
        "flight": 1545,
        "tailnum": "N14228",
        "origin": "EWR",
        "dest": "IAH",
        "distance_miles": 1400,
        "dep_delay": 2,
        "arr_delay": 11,
    }


def test_windows_add_up_to_the_flights() -> None:
    flights = read_flights(FIRST)
    found = dict(windows(flights, 3))
    assert sum(window.flights for window in found.values()) == FIRST
    assert sum(window.departed for window in found.values()) == sum(f.dep_delay is not None for f in flights)
    assert sum(window.delay_sum_min for window in found.values()) == sum(f.dep_delay or 0 for f in flights)
    assert all(start_ms % (3 * HOUR_MS) == 0 for _, start_ms in found)
