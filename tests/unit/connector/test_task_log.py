"""Tasks of a worker process: their records, made where Spark keeps its logs, and what each one begins with."""

from __future__ import annotations

import gc
import itertools
import logging
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from spark_pulsar.connector import worker_clients
from spark_pulsar.connector.planning.ranges import TopicRange
from spark_pulsar.connector.positions import EARLIEST, ReadPosition
from spark_pulsar.connector.task_log import MOST_RANGES, RecordedWrite, begin_records, record_undecoded, recorded_reads

WORK = TopicRange("persistent://public/default/t", EARLIEST, ReadPosition(1, 2))
BATCH = pa.record_batch({"value": [b"1", b"2"]})


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    logger = logging.getLogger("spark_pulsar")
    level = logger.level
    yield
    logger.setLevel(level)


@pytest.fixture
def kept(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    monkeypatch.setenv("PYSPARK_SPARK_SESSION_UUID", "x")
    begin_records()
    return caplog


def test_nothing_is_recorded_by_default(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    # covers READ-33
    monkeypatch.delenv("PYSPARK_SPARK_SESSION_UUID", raising=False)
    begin_records()
    assert list(recorded_reads(WORK, 0, iter([BATCH]))) == [BATCH]
    write = RecordedWrite("t", [BATCH])
    assert list(write) == [BATCH]
    write.done(2)
    record_undecoded("t", 1, "why", "PERMISSIVE")
    assert caplog.records == []


def test_a_range_is_recorded_however_it_ends(kept: pytest.LogCaptureFixture) -> None:
    # covers READ-33
    def failing() -> Iterator[pa.RecordBatch]:
        yield BATCH
        raise RuntimeError("gone")

    list(recorded_reads(WORK, 0, iter([BATCH, BATCH])))
    given_up = recorded_reads(WORK, 0, iter([BATCH, BATCH]))
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="gone"):
        list(recorded_reads(WORK, 0, failing()))
    contexts = [record.__dict__["context"] for record in kept.records]
    assert [(each["outcome"], each["rows"]) for each in contexts] == [("read", "4"), ("given up", "2"), ("failed", "2")]
    assert (contexts[0]["topic"], contexts[0]["start"], contexts[0]["end"]) == (WORK.topic, "earliest", "1:2:0")
    assert int(contexts[0]["bytes"]) == 2 * BATCH.nbytes
    list(recorded_reads(WORK, MOST_RANGES, iter([BATCH])))
    assert len(kept.records) == 3


def test_writes_and_undecoded_messages_are_recorded(kept: pytest.LogCaptureFixture) -> None:
    # covers READ-33
    write = RecordedWrite(None, [BATCH])
    assert list(write) == [BATCH]
    write.done(2)
    record_undecoded("t", 0, "", "FAILFAST")
    record_undecoded("t", 3, "w" * 1_000, "DEADLETTER")
    written, undecoded = (record.__dict__["context"] for record in kept.records)
    assert (written["rows"], written["bytes"], written["outcome"]) == ("2", str(BATCH.nbytes), "written")
    assert (undecoded["decodeErrors"], undecoded["mode"], len(undecoded["reason"])) == ("3", "DEADLETTER", 200)


# ---- what a task begins with


def test_from_the_second_task_on_collections_leave_out_what_lives_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_clients, "_TASKS", itertools.count(1))
    gc.unfreeze()  # what pytest has collected
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
