"""Tasks of one worker process."""

import gc
import itertools

import pytest

from spark_pulsar.connector import worker


def test_from_the_second_task_on_collections_leave_out_what_lives_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_TASKS", itertools.count(1))
    try:
        worker.begin_task()
        assert gc.get_freeze_count() == 0
        worker.begin_task()
        frozen = gc.get_freeze_count()
        assert frozen > 1000
        worker.begin_task()
        assert gc.get_freeze_count() <= frozen  # what dies meanwhile is counted out
    finally:
        gc.unfreeze()
