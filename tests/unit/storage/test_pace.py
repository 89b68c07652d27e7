"""When full segments are settled, and how fast."""

from spark_pulsar.storage.pace import CALM_BYTES_PER_S, MANY_SEGMENTS, TOO_MANY_SEGMENTS, SettlingPace


def busy() -> SettlingPace:
    pace = SettlingPace()
    pace.is_due(0, 0, 100.0)
    pace.is_due(0, 2 * CALM_BYTES_PER_S, 101.0)
    return pace


def test_a_calm_broker_settles_at_once_and_without_rest() -> None:
    pace = SettlingPace()
    assert not pace.is_due(0, 0, 100.0)
    assert pace.is_due(1, CALM_BYTES_PER_S, 101.0)
    assert pace.rest_s(1, 0.5) == 0


def test_under_load_segments_gather_up_to_a_bound() -> None:
    pace = busy()
    assert not pace.is_due(MANY_SEGMENTS - 1, 2 * CALM_BYTES_PER_S, 101.1)
    assert pace.is_due(MANY_SEGMENTS, 2 * CALM_BYTES_PER_S, 101.2)


def test_under_load_settling_rests_as_long_as_it_works_until_there_is_too_much() -> None:
    pace = busy()
    assert pace.rest_s(TOO_MANY_SEGMENTS - 1, 0.5) == 0.5
    assert pace.rest_s(TOO_MANY_SEGMENTS, 0.5) == 0


def test_settling_follows_when_the_load_ends() -> None:
    pace = busy()
    assert not pace.is_due(1, 2 * CALM_BYTES_PER_S, 101.3)
    assert pace.is_due(1, 2 * CALM_BYTES_PER_S, 102.0)
