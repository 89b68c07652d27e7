"""`metadataColumns`: what else a message carries, as the official client sent it and as the broker keeps it."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest
from pyspark.errors import AnalysisException

from spark_pulsar import starting_offsets
from spark_pulsar.connector.columns import METADATA_COLUMNS, READ_COLUMNS
from tests.spark.flows import BATCHED, UNBATCHED, Flows, texts, values

NAMES = [column.name for column in METADATA_COLUMNS]


def send(producer: pulsar.Producer, texts: list[str], **message: Any) -> None:
    for number, text in enumerate(texts):
        producer.send_async(text.encode(), lambda result, at: None, sequence_id=100 + number, **message)
    producer.flush()
    producer.close()


def test_metadata_on_request_says_what_the_producer_and_the_broker_said(keeping: Flows) -> None:
    # covers READ-12
    topic, client = keeping.broker.topic("metadata"), keeping.official()
    single = client.create_producer(topic, producer_name="single", batching_enabled=False)
    send(single, ["a", "b"], ordering_key="o", partition_key="k")
    batched = client.create_producer(
        topic, producer_name="batched", batching_enabled=True, batching_max_publish_delay_ms=60_000
    )
    send(batched, ["c", "d", "e"], ordering_key="ö")
    with_schema = client.create_producer(topic, schema=pulsar.schema.StringSchema(), producer_name="schema")
    with_schema.send("f")
    with_schema.close()
    messages = keeping.receive(topic)
    frame = keeping.batch(topic, metadataColumns="all", useTopicSchema="false")
    assert frame.columns == [column.name for column in READ_COLUMNS] + NAMES
    rows = sorted(frame.collect(), key=lambda row: row["value"])
    assert values(rows) == list("abcdef")
    assert [row["__orderingKey"] for row in rows] == [b"o", b"o", *["ö".encode()] * 3, None]
    assert [row["__producerName"] for row in rows] == ["single"] * 2 + ["batched"] * 3 + ["schema"]
    assert [row["__sequenceId"] for row in rows] == [100, 101, 100, 101, 102, 0]
    assert [row["__schemaVersion"] for row in rows] == [None] * 5 + [0]
    assert [row["__partition"] for row in rows] == [None] * 6
    assert {row["__redeliveryCount"] for row in rows} == {0}
    assert [row["__batchIndex"] for row in rows] == [None, None, 0, 1, 2, None]
    ids = [message.message_id() for message in messages]
    assert [(row["__ledgerId"], row["__entryId"]) for row in rows] == [(at.ledger_id(), at.entry_id()) for at in ids]
    if keeping.broker.kind == "apache-pulsar":
        assert [row["__index"] for row in rows] == [0, 1, 2, 3, 4, 5]
        assert all(row["__publishTime"] <= row["__brokerPublishTime"] for row in rows)
    else:  # it keeps none, as an Apache Pulsar does not by default
        assert {row["__index"] for row in rows} == {row["__brokerPublishTime"] for row in rows} == {None}


@pytest.mark.parametrize("producer", [UNBATCHED, BATCHED], ids=["unbatched", "batched"])
def test_letters_tell_how_often_they_were_retried(flows: Flows, producer: dict[str, object]) -> None:
    # covers READ-12, RLQ-3
    topic = flows.broker.topic("retried")
    counts = [None, "0", "1", "16", "", "x", "-1", "1e3", "99999999999999999999", " 7"]
    sender = flows.official().create_producer(topic, **producer)
    for count in counts:
        properties = {"other": "5"} if count is None else {"RECONSUMETIMES": count, "REAL_TOPIC": "t"}
        sender.send_async(b"x", lambda result, at: None, properties=properties)
    sender.flush()
    sender.close()
    rows = flows.batch(topic, metadataColumns="__redeliveryCount").collect()
    assert [row["__redeliveryCount"] for row in rows] == [0, 0, 1, 16, 0, 0, 0, 0, 0, 0]


def test_a_stream_and_a_schema_take_metadata_too(flows: Flows) -> None:
    # covers READ-12
    topic = flows.broker.topic("metadata", partitions=2)
    flows.send(topic, ["x", "y"])
    frame = flows.stream(topic, metadataColumns="__partition, __entryId")
    (rows,) = flows.drain(frame.select("value", "__partition", "__topic"), flows.checkpoint())
    assert len(rows) == 2
    assert all(row["__topic"].endswith(f"-partition-{row['__partition']}") for row in rows)
    named = flows.reader(topic).schema("__producerName string, value string").load()
    assert {row["value"] for row in named.collect()} == {"x", "y"}
    assert all(row["__producerName"] for row in named.collect())


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("__orderingkey", "did you mean __orderingKey"),
        ("__replicatedFrom", "not distinguished"),
        ("__index,__index", "twice"),
    ],
)
def test_other_names_are_refused(flows: Flows, names: str, reason: str) -> None:
    with pytest.raises(AnalysisException, match=reason):
        flows.batch(flows.broker.topic("metadata"), metadataColumns=names)


def test_a_schema_that_lacks_a_named_column_is_refused(flows: Flows) -> None:
    topic = flows.broker.topic("metadata")
    flows.send(topic, ["x"])
    frame = flows.reader(topic, metadataColumns="__index").schema("value binary").load()
    with pytest.raises(AnalysisException, match="metadataColumns names __index"):
        frame.collect()


@pytest.mark.parametrize("producer", [UNBATCHED, BATCHED], ids=["unbatched", "batched"])
def test_message_ids_are_where_another_read_starts(flows: Flows, producer: dict[str, object]) -> None:
    # covers OFFSET-13
    topic = flows.broker.topic("ids")
    flows.send(topic, texts(25), **producer)
    rows = flows.batch(topic).collect()
    for place in (0, 7, 9, 24):
        seen = {topic: rows[place]["__messageId"]}
        assert values(flows.batch(topic, startingOffsets=starting_offsets(seen)).collect()) == texts(25)[place:]
        rest = flows.batch(topic, startingOffsets=starting_offsets(seen, after=True))
        assert values(rest.collect()) == texts(25)[place + 1 :]
