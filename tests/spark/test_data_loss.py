"""No silent loss: messages that were known to exist and are gone from the broker are told; a rollover is none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.spark.flows import Flows, texts, values

HOLDER = "holder"
"""A subscription that keeps entries from being trimmed until it is moved."""


@pytest.fixture
def rolling(spark: SparkSession, rolling_broker: Broker, tmp_path: Path) -> Iterator[Flows]:
    """Flows on a broker whose ledgers have ten entries, and whose trimming runs each second."""
    with Flows(spark, rolling_broker, tmp_path) as ready:
        yield ready


def ledgers(flows: Flows, topic: str) -> list[int]:
    """Ids of the ledgers that a topic has."""
    status, answer = flows.broker.rest("GET", f"{topic_path(topic)}/internalStats")
    assert status == 200, (status, answer)
    return [ledger["ledgerId"] for ledger in answer["ledgers"]]


def hold(flows: Flows, topic: str) -> None:
    """Keep all of a topic for now."""
    flows.official().subscribe(topic, HOLDER, initial_position=pulsar.InitialPosition.Earliest).close()


def trim_front(flows: Flows, topic: str, entries: int) -> None:
    """Let go of the first entries of what is held, and see that their ledgers go."""
    first = ledgers(flows, topic)[0]
    status, answer = flows.broker.rest("POST", f"{topic_path(topic)}/subscription/{HOLDER}/skip/{entries}")
    assert status == 204, (status, answer)

    def trimmed() -> bool:
        flows.broker.rest("POST", f"{topic_path(topic)}/trim")
        return first not in ledgers(flows, topic)

    eventually(trimmed, 60)


def offsets(checkpoint: str, batch_id: int) -> dict[str, Any]:
    lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text().splitlines()
    loaded: dict[str, Any] = json.loads(lines[2])
    return loaded


def read_one_batch(flows: Flows, topic: str, checkpoint: str, **options: Any) -> list[str]:
    """Run a query for one micro-batch, the next one not planned; what it read."""
    seen: list[str] = []
    writer = flows.stream(topic, **options).writeStream.foreachBatch(
        lambda frame, _: seen.extend(values(frame.collect()))
    )
    query = flows.start(writer.option("checkpointLocation", checkpoint).trigger(processingTime="1 hour"))
    eventually(lambda: (Path(checkpoint) / "commits" / "0").exists() or not query.isActive, 120)
    query.stop()
    return seen


@pytest.mark.parametrize("read", [10, 13])
def test_a_front_trimmed_while_the_last_ledger_is_there_is_told(rolling: Flows, read: int) -> None:
    topic, checkpoint = rolling.broker.topic("trimmed"), rolling.checkpoint()
    hold(rolling, topic)
    rolling.send(topic, texts(100))
    assert read_one_batch(rolling, topic, checkpoint, maxMessagesPerTrigger=read) == texts(read)
    trim_front(rolling, topic, 50)
    with pytest.raises(StreamingQueryException, match="DataLossError"):
        rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read), checkpoint)
    rows = rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read, failOnDataLoss="false"), checkpoint)
    assert [value for batch in rows for value in values(batch)] == texts(50, 50)


@pytest.mark.parametrize("read", [10, 13])
def test_a_topic_made_again_with_unread_rows_is_told(rolling: Flows, read: int) -> None:
    topic, checkpoint = rolling.broker.topic("again"), rolling.checkpoint()
    hold(rolling, topic)
    rolling.send(topic, texts(100))
    assert read_one_batch(rolling, topic, checkpoint, maxMessagesPerTrigger=read) == texts(read)
    rolling.delete(topic)
    hold(rolling, topic)
    rolling.send(topic, texts(30, prefix="new"))
    with pytest.raises(StreamingQueryException, match="DataLossError"):
        rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read), checkpoint)
    rows = rolling.drain(rolling.stream(topic, maxMessagesPerTrigger=read, failOnDataLoss="false"), checkpoint)
    assert [value for batch in rows for value in values(batch)] == texts(30, prefix="new")
