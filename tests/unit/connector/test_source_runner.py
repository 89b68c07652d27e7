"""Rows that travel with the plan: where they may, and what a reader is while they do."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from pyspark.sql import types
from pyspark.sql.streaming import python_streaming_source_runner as runner

from spark_pulsar.connector import source_runner


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
