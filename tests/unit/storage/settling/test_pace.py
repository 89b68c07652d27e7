"""Pace of settling: when full segments are settled, and how fast."""

import pytest

from spark_pulsar.storage.settling.pace import (
    CALM_WORK_PER_S,
    ENTRY_WORK,
    MANY_SEGMENTS,
    TOO_MANY_SEGMENTS,
    SettlingPace,
    work,
)

MUCH = 2 * CALM_WORK_PER_S


def busy(*, written: int = MUCH, read: int = 0) -> SettlingPace:
    pace = SettlingPace()
    pace.note(0, 0, 100.0)
    pace.note(written, read, 101.0)
    return pace


def test_a_calm_broker_settles_at_once_and_without_rest() -> None:
    pace = SettlingPace()
    pace.note(0, 0, 100.0)
    assert not pace.is_due(0)
    pace.note(CALM_WORK_PER_S, CALM_WORK_PER_S, 101.0)
    assert pace.is_due(1)
    assert pace.rest_s(1, 0.5) == 0


def test_small_entries_are_work_too() -> None:
    assert work(1000, 10) == 1000 + 10 * ENTRY_WORK


def test_while_much_is_written_segments_gather_up_to_a_bound() -> None:
    pace = busy()
    assert not pace.is_due(MANY_SEGMENTS - 1)
    assert pace.is_due(MANY_SEGMENTS)


@pytest.mark.parametrize("written", [0, MUCH])
def test_while_much_is_read_more_segments_gather(written: int) -> None:
    pace = busy(written=written, read=MUCH)
    assert not pace.is_due(TOO_MANY_SEGMENTS - 1)
    assert pace.is_due(TOO_MANY_SEGMENTS)


@pytest.mark.parametrize(
    ("pace", "most_s"), [(busy(), 0.06), (busy(written=0, read=MUCH), 0.3), (busy(read=MUCH), 0.3)]
)
def test_under_load_settling_rests_the_less_the_more_there_is(pace: SettlingPace, most_s: float) -> None:
    rests = [pace.rest_s(full, 0.02) for full in range(TOO_MANY_SEGMENTS + 2)]
    assert rests[0] == rests[MANY_SEGMENTS - 1] == pytest.approx(0.3), "what would not begin now hardly goes on"
    assert rests[MANY_SEGMENTS] == pytest.approx(most_s)
    assert rests == sorted(rests, reverse=True)
    assert 0 < rests[TOO_MANY_SEGMENTS - 1] < most_s / 3
    assert rests[TOO_MANY_SEGMENTS] == rests[-1] == 0
    assert pace.rest_s(0, 60.0) == 0.5, "however slow the disk is, the load is looked at again soon"


def test_settling_follows_when_the_load_ends() -> None:
    pace = busy()
    pace.note(MUCH, 0, 101.3)
    assert not pace.is_due(1)
    assert pace.rest_s(1, 0.5) > 0
    pace.note(MUCH, 0, 101.5)
    assert pace.is_due(1)
    assert pace.rest_s(1, 0.5) == 0


def test_the_load_is_the_mean_of_a_while() -> None:
    pace = SettlingPace()
    pace.note(0, 0, 100.0)
    pace.note(0, MUCH // 20, 100.06)
    assert pace.is_due(1), "a short burst is no load"
    pace.note(0, MUCH // 5, 100.1)
    assert pace.is_due(1), "looked at too lately"
    for now_s in (100.12, 100.2, 100.3, 100.35, 100.41):
        pace.note(0, MUCH // 5, now_s)
        assert pace.is_due(1) == (now_s > 100.36), now_s
    pace.note(0, MUCH // 5, 110.0)
    pace.note(0, 2 * MUCH // 5, 110.06)
    assert not pace.is_due(1), "at once after a pause"


def test_pulses_of_a_slow_reader_are_no_load() -> None:
    pace = SettlingPace()
    read = 0
    for tick in range(1, 200):
        if tick % 6 == 0:
            read += CALM_WORK_PER_S // 4
        pace.note(0, read, 100 + tick * 0.0501)
        assert pace.is_due(1)
