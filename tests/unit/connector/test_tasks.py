"""What tasks of one process share."""

import gc
import itertools

import pytest

from spark_pulsar.connector import tasks


def test_from_the_second_task_on_collections_leave_out_what_lives_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_TASKS", itertools.count(1))
    try:
        tasks.begin()
        assert gc.get_freeze_count() == 0
        tasks.begin()
        frozen = gc.get_freeze_count()
        assert frozen > 1000
        tasks.begin()
        assert gc.get_freeze_count() <= frozen  # what dies meanwhile is counted out
    finally:
        gc.unfreeze()
