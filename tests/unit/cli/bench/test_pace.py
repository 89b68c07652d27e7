"""The pace of producers, by a clock of the test."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.bench import pace
from spark_pulsar.cli.bench.pace import Pace


class Clock:
    """A clock that sleeping moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        assert 0 < time_s <= 0.1
        self.now_s += time_s


@given(st.floats(0.5, 1e6), st.lists(st.floats(0, 0.5), max_size=20))
def test_no_more_than_the_rate_is_due_and_a_stall_is_not_made_up_for(rate: float, stalls_s: list[float]) -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "time", clock)
        paced = Pace(rate)
        sent = 0
        for stall_s in (*stalls_s, *[0.0] * 50):
            clock.now_s += stall_s
            sent += paced.next_portion()
            assert sent <= rate * (clock.now_s - 100.0)
        clock.now_s += 1000.0
        assert sum(paced.next_portion() for _ in range(20)) <= 20_000
        assert paced.next_portion() <= 1000


def test_a_steady_rate_is_met() -> None:
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pace, "time", clock)
        paced = Pace(250.0)
        sent = 0
        while clock.now_s < 110.0:
            sent += paced.next_portion()
        assert 2490 <= sent <= 2501
        assert Pace(0).next_portion() > 0
