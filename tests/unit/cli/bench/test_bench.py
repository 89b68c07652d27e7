"""Histograms of latencies against the sorted list of them; the pace of producers, by a clock of the test."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.bench import pace
from spark_pulsar.cli.bench.latencies import Latencies
from spark_pulsar.cli.bench.pace import Pace

VALUES = st.lists(st.integers(-5, 10**7) | st.integers(0, 3000) | st.integers(0, 2**62), min_size=1)


@given(VALUES, VALUES, st.sampled_from([0.1, 50, 95, 99, 99.9, 100]))
def test_percentiles_are_right_to_a_thousandth(first: list[int], second: list[int], percent: float) -> None:
    found, other = Latencies(), Latencies()
    found.add(first)
    other.add(second)
    found.merge(other)
    values = sorted(max(0, value) for value in first + second)
    exact = values[max(1, math.ceil(len(values) * percent / 100)) - 1]
    assert exact <= found.percentile_us(percent) <= exact * 1.001
    assert (found.count, found.max_us) == (len(values), values[-1])
    assert found.mean_us == pytest.approx(sum(values) / len(values))


@given(st.lists(st.integers(0, 2**40)))
def test_figures_rise(values: list[int]) -> None:
    found = Latencies()
    found.add(values)
    figures = found.in_ms()
    assert list(figures) == ["mean", "p50", "p95", "p99", "p99.9", "max"]
    rising = [figures[name] for name in ("p50", "p95", "p99", "p99.9", "max")]
    assert rising == sorted(rising)


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
