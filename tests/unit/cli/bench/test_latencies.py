"""Histograms of latencies against the sorted list of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_pulsar.cli.bench.latencies import Latencies

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
