"""Opening of many side by side: in order, no more at a time than the bound, and whole or not at all."""

from __future__ import annotations

import threading
from contextlib import suppress

import pytest

from spark_pulsar.connector.writing.parallel_opening import OPENED_AT_ONCE, open_each


class Openings:
    """Things to open, of which some fail; with `together` as many as that must be on their way at once."""

    def __init__(self, failing: tuple[int, ...] = (), together: int = 1) -> None:
        self.failing, self.together = failing, threading.Barrier(together)
        self.now = self.most = 0
        self.opened: list[int] = []
        self.closed: list[int] = []
        self._lock = threading.Lock()

    def open_one(self, key: int) -> str:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        with suppress(threading.BrokenBarrierError):
            self.together.wait(10)
        with self._lock:
            self.now -= 1
            if key in self.failing:
                raise LookupError(f"no {key}")
            self.opened.append(key)
            return str(key)

    def close(self, text: str) -> None:
        self.closed.append(int(text))


@pytest.mark.parametrize("count", [0, 1, 2, OPENED_AT_ONCE, 10 * OPENED_AT_ONCE])
def test_all_are_opened_side_by_side_and_come_in_order(count: int) -> None:
    # covers SINK-18
    together = max(1, min(count, OPENED_AT_ONCE))
    openings = Openings(together=together)
    opened = open_each(range(count), openings.open_one, openings.close)
    assert list(opened.items()) == [(key, str(key)) for key in range(count)]
    assert openings.most == (together if count else 0)
    assert not openings.together.broken
    assert openings.closed == []


def test_of_two_that_fail_the_first_is_raised_and_the_others_are_closed() -> None:
    openings = Openings(failing=(1, 2), together=4)
    with pytest.raises(LookupError, match="no 1"):
        open_each(range(4), openings.open_one, openings.close)
    assert sorted(openings.opened) == sorted(openings.closed) == [0, 3]


def test_after_a_failure_no_more_are_opened() -> None:
    openings = Openings(failing=(0,))
    with pytest.raises(LookupError, match="no 0"):
        open_each(range(100_000), openings.open_one, openings.close)
    assert len(openings.opened) < 99_000
    assert sorted(openings.opened) == sorted(openings.closed)
