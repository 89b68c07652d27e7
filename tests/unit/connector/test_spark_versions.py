"""Streaming reads on a Spark that hands `latestOffset` no start: the calls of Spark 4.0 and 4.1, in their order."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import datasource, types
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming import python_streaming_source_runner as runner

from spark_pulsar.connector.errors import OptionError
from spark_pulsar.connector.micro_batches import source_runner
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.spark_versions import OwnStartReader, StreamArrowWriter, is_nothing

INITIAL = {"at": 0, "fresh": True}


class Reader(OwnStartReader):
    """Reads up to two messages more than its start."""

    def __init__(self, **options: Any) -> None:
        self._options = parse_options({"service.url": "pulsar://h:6650", "topic": "t", **options})
        self.starts: list[int] = []

    def initialOffset(self) -> dict[str, Any]:
        return INITIAL

    def end_after(self, start: dict[str, Any], *, is_limited: bool) -> dict[str, Any]:
        assert is_limited
        self.starts.append(start["at"])
        return {"at": start["at"] + 2, "newest": {"t": "9:9:0"}}

    def tasks_between(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        return [InputPartition((start["at"], end["at"]))]

    def read(self, partition: InputPartition) -> Iterator[tuple[()]]:
        raise NotImplementedError


def test_a_new_query_begins_at_its_initial_offset() -> None:
    # covers SPARK-1
    reader = Reader()
    first = reader.latestOffset()
    assert [task.value for task in reader.partitions(reader.initialOffset(), first)] == [(0, 2)]
    second = reader.latestOffset()
    assert [task.value for task in reader.partitions(first, second)] == [(2, 4)]
    assert reader.starts == [0, 2]


def test_a_restarted_query_begins_where_spark_says_that_it_stands() -> None:
    # covers SPARK-1
    reader, stands = Reader(), {"at": 7}
    assert reader.partitions(stands, stands) == []  # no tasks, even where the offset would be read from its beginning
    assert reader.latestOffset()["at"] == 9
    replaying = Reader()
    assert replaying.partitions(stands, stands) == []
    assert [task.value for task in replaying.partitions({"at": 5}, stands)] == [(5, 7)]
    assert replaying.latestOffset()["at"] == 9
    assert reader.starts == replaying.starts == [7]


def test_an_end_that_spark_did_not_plan_is_no_start() -> None:
    # covers SPARK-1
    reader = Reader()
    assert reader.latestOffset() == reader.latestOffset()
    assert reader.starts == [0, 0]


def test_an_end_that_is_requested_before_the_start_is_named_is_an_error() -> None:
    # covers SPARK-2
    reader, stands = Reader(), {"at": 7}
    reader.latestOffset()
    with pytest.raises(OptionError, match=r"triggerAvailableNowWrapper\.enabled is true, .* Spark 4\.2 or newer"):
        reader.partitions(stands, stands)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"maxMessagesPerTrigger": "2"}, "maxMessagesPerTrigger"),
        ({"maxMessagesPerTrigger": "2", "maxBytesPerTrigger": "9"}, "maxMessagesPerTrigger and maxBytesPerTrigger"),
        ({"minMessagesPerTrigger": "2"}, ""),
    ],
)
def test_a_limit_that_leaves_something_is_named_once_a_run(
    options: dict[str, Any], named: str, caplog: pytest.LogCaptureFixture
) -> None:
    # covers SPARK-2
    reader = Reader(**options)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            reader.latestOffset()
    warnings = [record.getMessage() for record in caplog.records if "runs one micro-batch" in record.getMessage()]
    assert len(warnings) == bool(named)
    assert all(f"ends at the limit of {named}: " in warning for warning in warnings)


def test_a_streaming_writer_gets_batches() -> None:
    # covers SPARK-3
    own = getattr(datasource, "DataSourceStreamArrowWriter", None)
    assert issubclass(StreamArrowWriter, own or datasource.DataSourceArrowWriter)


def test_both_stand_ins_for_nothing_are_known() -> None:
    assert is_nothing(None)
    assert is_nothing(InputPartition(None))
    assert not is_nothing(InputPartition(()))


# ---- rows that travel with the plan: where they may, and what a reader is while they do


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    source_runner.takes_rows.cache_clear()
    yield
    source_runner.takes_rows.cache_clear()


def as_program(monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    """Lets `module` be the program of this process."""
    monkeypatch.setitem(sys.modules, "__main__", module)


def test_another_program_does_not_take_rows(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert not source_runner.takes_rows()
        assert not source_runner.takes_rows()
    assert [record.message for record in caplog.records if "not its source runner" in record.message] == [
        caplog.records[0].message
    ]


def test_the_source_runner_of_this_spark_takes_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    as_program(monkeypatch, runner)
    assert source_runner.takes_rows()


@pytest.mark.parametrize("version", ["3.5.9", "4.4.0", "5.0.0.dev0"])
def test_an_unknown_version_does_not(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    # covers SPARK-5
    as_program(monkeypatch, runner)
    monkeypatch.setattr(source_runner.pyspark, "__version__", version)
    assert not source_runner.takes_rows()


@pytest.mark.parametrize("name", ["_SimpleStreamReaderWrapper", "send_batch_func", "pickleSer"])
def test_a_runner_that_lacks_something_does_not(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    as_program(monkeypatch, runner)
    monkeypatch.delattr(runner, name)
    assert not source_runner.takes_rows()


def test_a_runner_that_does_not_ask_for_the_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    as_program(monkeypatch, runner)
    monkeypatch.setattr(runner, "_SimpleStreamReaderWrapper", types.StructType)
    assert not source_runner.takes_rows()
