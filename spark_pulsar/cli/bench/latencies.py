"""Latencies as a histogram of bounded size, whose percentiles are right to a thousandth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

_STEPS_BITS: Final = 10
_STEPS: Final = 1 << _STEPS_BITS
"""Buckets for each doubling of a latency."""
PERCENTILES: Final = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p99.9": 99.9}


class Latencies:
    """A histogram of microseconds: exact below 2,048, then 1,024 buckets for each doubling."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()
        self.count = 0
        self.max_us = 0
        self._sum_us = 0

    def add(self, values_us: Iterable[int]) -> None:
        """Adds latencies; one below zero, of two clocks that differ, counts as zero."""
        values = [max(0, value) for value in values_us]
        if not values:
            return
        self._buckets.update(map(_bucket_of, values))
        self.count += len(values)
        self.max_us = max(self.max_us, *values) if len(values) > 1 else max(self.max_us, values[0])
        self._sum_us += sum(values)

    def merge(self, other: Latencies) -> None:
        """Adds the latencies of another histogram."""
        self._buckets.update(other._buckets)
        self.count += other.count
        self.max_us = max(self.max_us, other.max_us)
        self._sum_us += other._sum_us

    @property
    def mean_us(self) -> float:
        """The mean, which is exact."""
        return self._sum_us / self.count if self.count else 0.0

    def percentile_us(self, percent: float) -> int:
        """Returns the latency that this share of all does not exceed, at most a thousandth too large."""
        rank = max(1, -(-self.count * percent // 100))
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= rank:
                return min(_last_of(bucket), self.max_us)
        return 0

    def in_ms(self) -> dict[str, float]:
        """Returns mean, percentiles and maximum in milliseconds."""
        times_us = {"mean": self.mean_us}
        times_us |= {name: self.percentile_us(percent) for name, percent in PERCENTILES.items()}
        times_us["max"] = self.max_us
        return {name: round(value / 1000, 3) for name, value in times_us.items()}


def _bucket_of(value: int) -> int:
    shift = max(0, value.bit_length() - _STEPS_BITS - 1)
    return (shift << _STEPS_BITS) + (value >> shift)


def _last_of(bucket: int) -> int:
    """Returns the largest value of a bucket."""
    shift = max(0, (bucket >> _STEPS_BITS) - 1)
    return ((bucket - (shift << _STEPS_BITS) + 1) << shift) - 1
