"""Errors that a user can mend, as Spark shows them: the reason first, and no frame of ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from pyspark.errors import PySparkException

from tests.spark.flows import Flows, texts

pytestmark = pytest.mark.spark_alone


@dataclass(frozen=True)
class Refused:
    """An action that ends with an error, and where its reason stands at the latest."""

    action: Callable[[], object]
    reason: str
    line: int
    """Spark itself begins the error of a task with one or two lines."""
    most_lines: int
    """The error of a streaming query ends with the state of the query, and of a task on 4.0 with frames of the JVM."""

    def check(self) -> None:
        """Runs the action; checks the text that its user sees."""
        with pytest.raises(PySparkException) as error:
            self.action()
        lines = str(error.value).strip().splitlines()
        assert re.search(rf"spark_pulsar\.\S+Error: .*{self.reason}", "\n".join(lines[: self.line])), lines
        assert len(lines) <= self.most_lines, lines
        assert not [line for line in lines if "Traceback" in line or "spark_pulsar/" in line]


@pytest.mark.versions
def test_the_reason_stands_first_and_alone(flows: Flows) -> None:
    # covers READ-42
    topic = flows.broker.topic("orders")
    flows.send(topic, texts(3))
    nowhere = flows.rows("value STRING, __topic STRING", [("a", None)])

    def stream(*columns: str, **options: str) -> None:
        frame = flows.stream(topic, **options).selectExpr(*columns)
        writer = frame.writeStream.format("pulsar").option("service.url", flows.broker.service_url)
        flows.run(writer.option("topic", flows.broker.topic("copy")), flows.checkpoint())

    for refused in (
        Refused(lambda: flows.batch(topic, startingOffsets="erliest"), "erliest", 1, 2),
        Refused(lambda: flows.reader(topic).schema("other STRING").load().collect(), "no column other", 1, 2),
        Refused(lambda: flows.write(nowhere), "__topic is null", 2, 3),
        Refused(lambda: stream("value", endingOffsets="latest"), "endingOffsets is for batch read only", 1, 14),
        Refused(lambda: stream("value AS other"), "column other cannot be written", 1, 16),
    ):
        refused.check()
