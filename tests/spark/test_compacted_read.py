"""Batch reads of the latest message of each key, with and without a compacted view."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

from tests.brokers import topic_path
from tests.eventually import eventually
from tests.spark.flows import BATCHED, UNBATCHED, Flows
from tests.spark.test_data_loss import ledgers


def put(flows: Flows, topic: str, values: dict[str | None, str | None], **producer: object) -> None:
    for key, value in values.items():
        keyed = {} if key is None else {"partition_key": key}
        flows.send(topic, [value], message=keyed, **(producer or UNBATCHED))


def compact(flows: Flows, topic: str) -> None:
    path = f"{topic_path(topic)}/compaction"
    assert flows.broker.rest("PUT", path)[0] == 204
    eventually(lambda: flows.broker.rest("GET", path)[1]["status"] == "SUCCESS", timeout_s=60)


def latest(flows: Flows, topic: str, **options: object) -> list[tuple[str | None, str | None]]:
    """Key and value of each row, in order."""
    frame = flows.batch(topic, readCompacted=True, pollTimeoutMs=20_000, **options)
    return [
        (row["__key"] and bytes(row["__key"]).decode(), row["value"] and bytes(row["value"]).decode())
        for row in frame.select("__key", "value").collect()
    ]


def test_the_latest_of_each_key_before_and_after_a_compaction(flows: Flows) -> None:
    # covers READ-20
    topic = flows.broker.topic("compacted")
    put(flows, topic, {"a": "1", "b": "1", "c": "1", "d": "1"})
    put(flows, topic, {"a": "2", "b": None})
    assert latest(flows, topic) == [("c", "1"), ("d", "1"), ("a", "2")]
    compact(flows, topic)
    assert latest(flows, topic) == [("c", "1"), ("d", "1"), ("a", "2")]
    put(flows, topic, {"c": "3", "d": None, "e": "3"})
    assert latest(flows, topic) == [("a", "2"), ("c", "3"), ("e", "3")]
    compact(flows, topic)
    put(flows, topic, {"e": None})
    compact(flows, topic)  # the last message of the topic is not in the view
    assert latest(flows, topic) == [("a", "2"), ("c", "3")]
    frame = flows.batch(topic, readCompacted=True).select("__eventTime")  # neither key nor value asked for
    assert frame.count() == 2
    with pytest.raises(AnalysisException, match="readCompacted needs all messages of a partition in one task"):
        flows.batch(topic, readCompacted=True, minPartitions=2).collect()


def test_batches_and_partitions(flows: Flows) -> None:
    # covers READ-20
    topic = flows.broker.topic("batches", 2)
    sender = flows.official().create_producer(topic, **BATCHED)
    for number in range(100):
        sender.send_async(b"%d" % number, None, partition_key=f"k{number % 7}")
    sender.flush()
    sender.close()
    expected = {f"k{number % 7}": str(number) for number in range(100)}
    assert dict(latest(flows, topic)) == expected
    for partition in range(2):
        compact(flows, f"{topic}-partition-{partition}")
    rows = latest(flows, topic)
    assert dict(rows) == expected
    assert len(rows) == 7


def test_what_only_the_compacted_view_has_left(flows: Flows) -> None:
    # covers READ-20
    topic = flows.broker.topic("view")
    put(flows, topic, {f"k{number}": str(number) for number in range(5)})
    compact(flows, topic)
    assert flows.broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    put(flows, topic, {f"k{number}": str(number) for number in range(5, 8)})
    compact(flows, topic)

    def is_trimmed() -> bool:
        assert flows.broker.rest("POST", f"{topic_path(topic)}/trim")[0] == 200
        return len(ledgers(flows, topic)) == 1

    eventually(is_trimmed, 60)
    assert latest(flows, topic) == [(f"k{number}", str(number)) for number in range(8)]
