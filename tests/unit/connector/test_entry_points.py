"""The methods that Spark calls: errors that a user can mend leave them without frames of ours."""

from __future__ import annotations

import os
import pickle
import sys
import traceback
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from spark_pulsar.connector.entry_points import entry_point, entry_points
from spark_pulsar.connector.errors import OptionError
from spark_pulsar.model.errors import ConsumerBusy

HIDE, KEEP = "SPARK_HIDE_TRACEBACK", "SPARK_TRACEBACK_WITH_LOCALS"


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process looks like one that Spark started."""
    for name in (HIDE, KEEP):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="pyspark.daemon"))


@entry_points
class Entered:
    """Methods that fail."""

    def read(self) -> Iterator[int]:
        """A generator that fails under way."""
        yield 1
        raise ConsumerBusy("Topic reached max consumers limit")

    def plan(self) -> None:
        """A method that fails for its user."""
        raise OptionError("option topic = '': empty")

    def bug(self) -> None:
        """A method that fails for nobody's mistake but ours."""
        raise KeyError(21)

    def __getstate__(self) -> dict[str, object]:
        raise OptionError("not with this topic")


@pytest.mark.usefixtures("worker")
def test_the_reason_stands_alone_and_a_bug_keeps_its_frames() -> None:
    # covers READ-42
    with pytest.raises(KeyError):
        Entered().bug()
    assert HIDE not in os.environ
    with pytest.raises(OptionError) as refused:
        Entered().plan()
    assert os.environ[HIDE] == "1"
    assert "plan" not in {frame.name for frame in traceback.extract_tb(refused.tb)}
    read = Entered().read()
    assert next(read) == 1
    with pytest.raises(ConsumerBusy, match="Topic reached max consumers limit: the policy maxConsumersPerTopic"):
        next(read)


@pytest.mark.usefixtures("worker")
def test_the_reason_survives_pickling() -> None:
    # covers READ-42
    with pytest.raises(pickle.PickleError, match="not with this topic") as refused:
        Entered().__getstate__()
    assert isinstance(refused.value, OptionError)
    assert traceback.format_exception_only(refused.value) == [
        "spark_pulsar.connector.errors.OptionError: not with this topic\n"
    ]


@pytest.mark.usefixtures("worker")
def test_a_setting_of_spark_keeps_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEEP, "1")
    with pytest.raises(OptionError):
        Entered().plan()
    assert HIDE not in os.environ


def test_other_programs_keep_their_environment() -> None:
    with pytest.raises(OptionError):
        entry_point(Entered.plan)(Entered())
    assert HIDE not in os.environ
