"""The clock of the process, by times that a test gives."""

import pytest

from spark_pulsar.server.clock import CORRECTED_MS, Clock

_MS = 1_000_000


class Times:
    """The two clocks of a machine."""

    def __init__(self) -> None:
        self.wall_ns, self.monotonic_ns, self.reading_ns = 1_795_000_000_000 * _MS, 77 * _MS, 0

    def read_monotonic(self) -> int:
        self.monotonic_ns += self.reading_ns
        return self.monotonic_ns

    def advance(self, ms: int) -> None:
        """Time passes."""
        self.wall_ns += ms * _MS
        self.monotonic_ns += ms * _MS


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    made = Times()
    monkeypatch.setattr("spark_pulsar.server.clock.time.time_ns", lambda: made.wall_ns)
    monkeypatch.setattr("spark_pulsar.server.clock.time.monotonic_ns", made.read_monotonic)
    return made


def test_intervals_pass_and_the_wall_clock_is_followed(times: Times) -> None:
    # covers CLK-1, CLK-4
    clock = Clock()
    start_ms = clock.now_ms()
    assert (start_ms, clock.wall_ms()) == (1_795_000_000_000, 1_795_000_000_000)
    times.advance(1_000)
    for by_ms in (3_600_000, -7_200_000, CORRECTED_MS):
        times.wall_ns += by_ms * _MS
        assert clock.now_ms() == start_ms + 1_000, "it neither goes back nor leaps"
        assert clock.wall_ms() == times.wall_ns // _MS


def test_a_small_difference_is_no_correction(times: Times) -> None:
    # covers CLK-1
    clock = Clock()
    times.wall_ns += (CORRECTED_MS - 1) * _MS
    assert clock.ahead_ms() == 0
    times.wall_ns += _MS
    assert clock.ahead_ms() == CORRECTED_MS


def test_a_thread_that_was_interrupted_sees_no_correction(times: Times) -> None:
    # covers CLK-1
    clock = Clock()
    times.reading_ns = 1_000 * _MS
    assert clock.ahead_ms() == 0
