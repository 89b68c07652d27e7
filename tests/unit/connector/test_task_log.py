"""Records of tasks: made where Spark keeps the logs of its workers, bounded, and of every way that a range ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pyarrow as pa
import pytest

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
