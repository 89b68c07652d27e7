"""Tasks of one worker process."""

import gc
import itertools
import sys

import pytest

from spark_pulsar.connector import worker_clients


def test_from_the_second_task_on_collections_leave_out_what_lives_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(1))
    try:
        worker_clients.begin_task()
        assert gc.get_freeze_count() == 0
        worker_clients.begin_task()
        frozen = gc.get_freeze_count()
        assert frozen > 1000
        worker_clients.begin_task()
        assert gc.get_freeze_count() <= frozen  # what dies meanwhile is counted out
    finally:
        gc.unfreeze()


def test_what_numba_made_is_left_out_when_it_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(2))
    monkeypatch.setattr(worker_clients, "_is_numba_frozen", False)
    loaded = dict(sys.modules)
    monkeypatch.setattr(sys, "modules", loaded)
    loaded.pop("numba", None)
    try:
        worker_clients.begin_task()
        frozen, made = gc.get_freeze_count(), [[number] for number in range(1000)]
        worker_clients.begin_task()
        assert gc.get_freeze_count() <= frozen
        loaded["numba"] = sys
        worker_clients.begin_task()
        assert gc.get_freeze_count() >= frozen + len(made)
    finally:
        gc.unfreeze()


def test_the_first_task_says_that_it_could_be_faster(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    with caplog.at_level("WARNING", "spark_pulsar"):
        monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(1))
        monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")  # somebody knows
        worker_clients.begin_task()
        assert caplog.records == []
        monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(1))
        monkeypatch.delenv("NUMBA_DISABLE_JIT")
        worker_clients.begin_task()
        monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(3))
        worker_clients.begin_task()
    assert [each.message for each in caplog.records] == [
        "numba is missing, messages are decoded slowly: pip install 'spark-pulsar[fast]' on every node"
    ]
