"""The sink's task, without Spark: delivery times, chunks, batches by key and producer properties, as official
consumers and statistics see them."""

from __future__ import annotations

import random
from typing import Any

import pulsar
import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import wall_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import MessageTooLarge
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import BATCH_WRITE
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.errors import PulsarError
from tests.brokers import Broker, topic_path
from tests.conformance.connector.tasks import write
from tests.conformance.exchange import EARLIEST, receive_texts

TICK_MS = 1_000
"""An Apache Pulsar may deliver so much too early (DEL-3)."""


def rows(**columns: Any) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict(columns)]


def stored(broker: Broker, topic: str) -> list[pulsar.Message]:
    """All messages of a topic, in order."""
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(30_000))
    return found


def shape(messages: list[pulsar.Message]) -> list[list[str]]:
    """The texts of each entry."""
    entries: dict[tuple[int, int], list[str]] = {}
    for message in messages:
        at = message.message_id()
        entries.setdefault((at.ledger_id(), at.entry_id()), []).append(message.data().decode())
    return list(entries.values())


def test_rows_with_a_delivery_time_are_delivered_then_and_the_others_at_once(broker: Broker, topic: str) -> None:
    # covers SINK-5, DEL-1
    consumer = broker.client().subscribe(topic, "s", pulsar.ConsumerType.Shared, initial_position=EARLIEST)
    at_ms, large = wall_ms() + 3_000, random.Random(3).randbytes(40_000).hex()
    batch = pa.RecordBatch.from_arrays(
        [
            pa.array([*"abc", large, *"efg"]),
            pa.array([None, None, at_ms * 1000, None, None, None, 1], pa.timestamp("us", "UTC")),
            pa.array([None, None, None, 3_000, 0, None, None], pa.int64()),
            pa.array([None, None, "k", None, None, None, None]),
        ],
        ["value", "__deliverAt", "__deliverAfterMs", "__key"],
    )
    write(broker, topic, [batch], compressionType="LZ4", chunkingEnabled="true", chunkMaxMessageSize="30000")
    received_ms: dict[str, int] = {}
    for _ in range(7):
        text = receive_texts(consumer, 1)[0]
        received_ms[text] = wall_ms()
    assert [text for text in received_ms if text in "abefg"] == list("abefg")
    assert min(received_ms["c"], received_ms[large]) >= at_ms - (TICK_MS if broker.kind == "apache-pulsar" else 0)
    messages = stored(broker, topic)
    assert shape(messages) == [["a", "b"], ["c"], [large], ["e", "f", "g"]]
    assert [message.partition_key() for message in messages] == ["", "", "k", "", "", "", ""]


def test_a_large_row_goes_out_in_chunks_between_batches(broker: Broker, topic: str) -> None:
    # covers SINK-7, CHK-1
    large = random.Random(1).randbytes(250_000)
    values = [b"a", b"b", large, b"c", b"z" * 90_000, b"d"]
    settings = {"chunkingEnabled": "true", "chunkMaxMessageSize": "100000"}
    columns: dict[str, Any] = {"value": values, "__key": ["k"] * 6, "__messageProperties": [[("p", "1")]] * 6}
    schema = pa.schema(
        [("value", pa.binary()), ("__key", pa.string()), ("__messageProperties", pa.map_(pa.string(), pa.string()))]
    )
    batch = pa.RecordBatch.from_pydict(columns, schema=schema)
    write(broker, topic, [batch], compressionType="ZLIB", **settings)
    write(broker, topic, [batch], batchingMaxMessages="1", **settings)
    messages = stored(broker, topic)
    assert [message.data() for message in messages] == values * 2
    assert {(message.partition_key(), str(message.properties())) for message in messages} == {("k", "{'p': '1'}")}
    entries = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["entriesAddedCounter"]
    assert entries == (1 + 3 + 1) + (5 + 3)


def test_a_row_that_no_entry_holds(broker: Broker, topic: str) -> None:
    # covers SINK-7
    value = random.Random(2).randbytes(6 << 20)
    small = {"chunkMaxMessageSize": "6500"}  # the key is in each chunk
    with pytest.raises(MessageTooLarge, match="chunkingEnabled sends large rows"):
        write(broker, topic, rows(value=[value]))
    write(broker, topic, rows(value=[value]), chunkingEnabled="true")
    write(broker, topic, rows(value=[value[:2_000]], __key=["k" * 3_000]), chunkingEnabled="true", **small)
    first, second = stored(broker, topic)
    assert first.data() == value
    assert (second.data(), second.partition_key()) == (value[:2_000], "k" * 3_000)


def test_batches_by_key_are_shared_out_whole(broker: Broker, topic: str) -> None:
    # covers SINK-8
    client = broker.client()
    consumers = [client.subscribe(topic, "s", pulsar.ConsumerType.KeyShared) for _ in range(2)]
    keys = [f"k{number % 7}" if number % 9 else None for number in range(200)]
    ordering_keys = [b"o" if number % 50 == 0 else None for number in range(200)]
    write(
        broker,
        topic,
        rows(value=[str(number) for number in range(200)], __key=keys, __orderingKey=ordering_keys),
        batcherBuilder="KEY_BASED",
    )
    expected: dict[Any, list[str]] = {}
    for number, (key, ordering_key) in enumerate(zip(keys, ordering_keys, strict=True)):
        expected.setdefault(ordering_key or key, []).append(str(number))
    assert shape(stored(broker, topic)) == list(expected.values())
    got: list[list[str]] = []
    for consumer in consumers:
        mine: list[pulsar.Message] = []
        while sum(map(len, got)) + len(mine) < 200:
            try:
                mine.append(consumer.receive(1_000))
            except pulsar.Timeout:
                break
        got += shape(mine)
    assert sorted(got) == sorted(expected.values())


def test_rows_of_many_topics_in_turn_keep_their_order_on_each(broker: Broker) -> None:
    # covers SINK-18
    topics = [broker.topic(f"in-turn-{i}", partitions=3 if i % 5 == 0 else 0) for i in range(20)]
    names = [topics[i % 20] for i in range(2_000)]
    batches = rows(value=[str(i) for i in range(2_000)], __topic=names, __key=[f"k{i // 20 % 4}" for i in range(2_000)])
    options = parse_options({"service.url": broker.service_url}).for_write(BATCH_WRITE)
    with PulsarClient(ClientConfig(broker.service_url)) as client:
        assert publish(client, options, iter([*batches, *batches])) == 4_000
        every = {topic: client.partitions_of(topic) for topic in topics}
    for first, topic in enumerate(topics):
        expected = [str(i) for i in [*range(first, 2_000, 20)] * 2]
        entries = [shape(stored(broker, name)) for name in every[topic]]
        assert max(map(len, entries)) == 1
        found = [text for texts in entries for text in texts]
        for part in found:
            of_keys = {int(text) // 20 % 4 for text in part}
            assert part == [text for text in expected if int(text) // 20 % 4 in of_keys]
        assert sorted(text for part in found for text in part) == sorted(expected)


def test_no_row_is_written_where_one_of_its_topics_cannot_be_opened(broker: Broker) -> None:
    # covers SINK-18
    topics = [broker.topic("there"), "persistent://public/no-such-namespace/t", broker.topic("there-too")]
    options = parse_options({"service.url": broker.service_url}).for_write(BATCH_WRITE)
    batches = rows(value=["a", "b", "c"], __topic=topics)
    with (
        PulsarClient(ClientConfig(broker.service_url)) as client,
        pytest.raises(PulsarError, match="no-such-namespace"),
    ):
        publish(client, options, iter(batches))
    assert stored(broker, topics[0]) == stored(broker, topics[2]) == []
