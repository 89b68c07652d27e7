"""Polls of an idle query: which of them wait, and how long."""

from __future__ import annotations

import pytest

from spark_pulsar.connector.micro_batches import polling as module
from spark_pulsar.connector.micro_batches.polling import Polling


def polled(polling: Polling, times: int) -> list[int]:
    waits = []
    for _ in range(times):
        polling.began()
        waits.append(polling.wait_ms())
        polling.answered()
    return waits


def test_waits_grow_from_poll_to_poll_up_to_a_quarter_of_a_second() -> None:
    assert polled(Polling(), 9) == [0, 10, 20, 40, 80, 160, 250, 250, 250]


def test_the_first_poll_after_a_micro_batch_answers_at_once() -> None:
    polling = Polling()
    polled(polling, 5)
    polling.planned(is_empty=False)
    assert polled(polling, 3) == [0, 10, 20]


def test_a_poll_that_does_not_follow_at_once_is_one_of_a_trigger_with_an_interval() -> None:
    polling, waits = Polling(), []
    for _ in range(3):
        polling.began()  # none has been answered just before
        waits.append(polling.wait_ms())
    assert waits == [0, 0, 0]


def test_a_broker_that_answers_slowly_makes_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    polling, waits, now_ms = Polling(), [], 10_000
    monkeypatch.setattr(module, "monotonic_ms", lambda: now_ms)
    for _ in range(3):
        polling.began()
        now_ms += 500  # metadata and last ids
        waits.append(polling.wait_ms())
        polling.answered()
        now_ms += 10
    assert waits == [0, 10, 20]


def test_a_poll_over_many_partitions_waits_longer_than_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-38
    def waits(took_ms: int) -> list[int]:
        polling, now_ms, found = Polling(), [10_000], []
        monkeypatch.setattr(module, "monotonic_ms", lambda: now_ms[0])
        for _ in range(11):
            polling.began()
            now_ms[0] += took_ms
            found.append(polling.wait_ms(of_many=True))
            polling.answered()
            now_ms[0] += 10
        return found

    assert waits(2) == [0, 10, 20, 40, 80, 160, 250, 250, 250, 250, 250]
    assert waits(10)[6:] == [320, 640, 1000, 1000, 1000]
    assert waits(200)[6:] == [320, 640, 1280, 2000, 2000]


def test_nothing_waits_once_others_have_made_a_micro_batch_meanwhile() -> None:
    polling = Polling()
    polled(polling, 3)
    polling.planned(is_empty=True)
    assert polled(polling, 3) == [0, 0, 0]


def test_an_empty_micro_batch_right_after_one_with_rows_is_that_of_a_watermark() -> None:
    polling = Polling()
    polling.planned(is_empty=False)
    polled(polling, 1)
    polling.planned(is_empty=True)
    assert polled(polling, 3) == [0, 10, 20]
