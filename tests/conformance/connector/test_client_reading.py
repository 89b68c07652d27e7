"""Our wire client reads: topics, positions, ranges of raw entries. Written by official producers."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import EndNotReached
from spark_pulsar.client.reading.fetch import Fetch
from spark_pulsar.client.reading.positions import after_entry
from spark_pulsar.model.errors import InvalidTopicName, TopicNotFound
from spark_pulsar.model.positions.ids import EARLIEST_ID, MessageId
from spark_pulsar.wire.entries.entry_blocks import EntryBlock, message_count_of
from spark_pulsar.wire.entries.entry_bytes import Checksum, parse_entry
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.eventually import eventually

Id = tuple[int, int]


def _publish(broker: Broker, topic: str, batches: list[int], **settings: Any) -> list[list[bytes]]:
    """Publish batches of so many messages (0 = a message without batch); the values by entry."""
    official = broker.client()
    values = []
    for number, size in enumerate(batches):
        batched = {
            "batching_enabled": True,
            "batching_max_messages": max(size, 2),
            "batching_max_publish_delay_ms": 60_000,
        }
        producer = official.create_producer(topic, **(batched if size else {}), **settings)
        values.append([f"{number}-{index}".encode() for index in range(max(size, 1))])
        for value in values[-1]:
            producer.send_async(value, lambda result, message_id: None)
        producer.flush()
        producer.close()
    return values


def _ids(blocks: Iterator[EntryBlock] | list[EntryBlock] | Fetch) -> list[Id]:
    return [one for block in blocks for one in zip(block.ledger_ids, block.entry_ids, strict=True)]


# ---- topics


def test_a_missing_topic_is_not_found_and_not_created(topic: str, client: PulsarClient) -> None:
    for ask in (client.partition_count, client.partitions_of, client.last_message_id):
        with pytest.raises(TopicNotFound):
            ask(topic)
    with pytest.raises(TopicNotFound), client.fetch(topic, EARLIEST_ID, MessageId(1, 1)) as fetch:
        next(iter(fetch))
    assert topic not in client.topics_of("public/default")
    with pytest.raises(TopicNotFound):
        client.last_message_id("persistent://public/no-such-namespace/t")
    with pytest.raises(InvalidTopicName):
        client.partition_count("persistent://only/two")


def test_partitions_and_topics_of_a_namespace(broker: Broker, client: PulsarClient) -> None:
    partitioned, plain = broker.topic("parts", partitions=3), broker.topic("plain")
    _publish(broker, plain, [0])
    _publish(broker, partitioned, [0])
    parts = [f"{partitioned}-partition-{i}" for i in range(3)]
    assert client.partition_count(partitioned) == 3
    assert client.partition_count(plain) == 0
    assert client.partitions_of(partitioned) == parts
    assert client.partitions_of(plain.removeprefix("persistent://public/default/")) == [plain]
    listed = client.topics_of("public/default")
    assert {plain, *parts} <= set(listed)
    assert plain in client.topics_of("public/default", "all")
    assert plain not in client.topics_of("public/default", "non-persistent")
    assert client.topics_of("public/no-such-namespace") == []
    assert client.partitions_of(topic := broker.topic("new"), create=True) == [topic]


# ---- positions


def test_last_message_ids_are_exact(broker: Broker, client: PulsarClient) -> None:
    # covers W4
    partitioned = broker.topic("last", partitions=3)
    empty, single, batch = client.partitions_of(partitioned)
    _publish(broker, single, [0, 0, 0])
    _publish(broker, batch, [4, 7])
    for _ in range(2):  # the second time through readers that are there
        last = client.last_message_ids([empty, single, batch])
        assert last[empty] is None
        assert last[single] is not None
        assert last[batch] is not None
        assert (last[single].entry_id, last[single].partition, last[single].batch_index) == (2, 1, -1)
        assert (last[batch].entry_id, last[batch].partition, last[batch].batch_index) == (1, 2, 6)
    _publish(broker, batch, [2])
    now = client.last_message_id(batch)
    assert now is not None
    assert (now.entry_id, now.batch_index) == (2, 1)


def test_ends(broker: Broker, client: PulsarClient) -> None:
    full, empty = client.partitions_of(broker.topic("ends", partitions=2))
    _publish(broker, full, [3, 3])
    last = client.last_message_id(full)
    assert last is not None
    assert client.end_positions([full, empty]) == {full: after_entry(last), empty: MessageId(-1, -1, 1, -1)}


def test_positions_by_publish_time(topic: str, client: PulsarClient, broker: Broker) -> None:
    first_ms = 1_790_000_000_000
    with client.publisher(topic) as publisher:
        for step in (0, 10, 10, 20, 30):
            publisher.send(MessageMetadata(publish_time=first_ms + step), b"x")
    end = client.end_positions([topic])[topic]
    for step, entry in ((-1, 0), (0, 0), (1, 1), (10, 1), (11, 3), (20, 3), (30, 4), (31, 5)):
        assert client.position_at_time(topic, first_ms + step) == MessageId(end.ledger_id, entry), step
    assert client.position_at_time(topic, 0) == MessageId(end.ledger_id, 0)
    (topic,) = client.partitions_of(broker.topic("empty-time", partitions=1))
    assert client.position_at_time(topic, 0) == MessageId(-1, -1, 0, -1)


# ---- ranges


def test_a_range_is_read_exactly(broker: Broker, topic: str, client: PulsarClient) -> None:
    # covers W3
    _publish(broker, topic, [0] * 10)
    end = client.end_positions([topic])[topic]
    ledger = end.ledger_id
    for first, stop in ((0, 10), (3, 7), (9, 10), (0, 1)):
        with client.fetch(topic, MessageId(ledger, first), MessageId(ledger, stop)) as fetch:
            assert _ids(fetch) == [(ledger, entry) for entry in range(first, stop)]
            assert fetch.finished
            assert fetch.position[:2] == (ledger, stop)
    with client.fetch(topic, EARLIEST_ID, end) as fetch:
        assert len(_ids(fetch)) == 10


def test_entries_come_as_they_were_stored(broker: Broker, topic: str, client: PulsarClient) -> None:
    values = _publish(broker, topic, [0, 5], properties={"made": "here"})
    (entries,) = [list(client.fetch(topic, EARLIEST_ID, client.end_positions([topic])[topic]))]
    found = [
        parse_entry(block.buffer, start, end)
        for block in entries
        for start, end in zip(block.starts, block.ends, strict=True)
    ]
    assert [entry.checksum for entry in found] == [Checksum.OK, Checksum.OK]
    assert bytes(found[0].payload) == values[0][0]
    assert not found[0].metadata.HasField("num_messages_in_batch")
    assert found[1].metadata.num_messages_in_batch == 5


def test_a_range_may_begin_and_end_inside_batches(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [5, 5, 5])
    ledger = client.end_positions([topic])[topic].ledger_id
    with client.fetch(topic, MessageId(ledger, 0, -1, 3), MessageId(ledger, 2, -1, 2)) as fetch:
        blocks = list(fetch)
    assert _ids(blocks) == [(ledger, 0), (ledger, 1), (ledger, 2)]
    assert [block.first_batch_index for block in blocks if block.entry_ids[0] == 0] == [3]
    assert [block.end_batch_index for block in blocks if block.entry_ids[-1] == 2] == [2]
    assert fetch.position == MessageId(ledger, 2, -1, 2)
    with client.fetch(topic, MessageId(ledger, 1, -1, 1), MessageId(ledger, 1, -1, 4)) as fetch:
        (only,) = list(fetch)
    assert (only.entry_ids, only.first_batch_index, only.end_batch_index) == ([1], 1, 4)
    assert message_count_of(only, 0) == 5


def test_large_and_many_entries(broker: Broker, topic: str, client: PulsarClient) -> None:
    producer = broker.client().create_producer(topic, batching_enabled=False, max_pending_messages=3_000)
    for number in range(2_000):
        producer.send_async(number.to_bytes(4, "big") * (1 if number % 100 else 200_000), lambda result, id: None)
    producer.flush()
    seen = []
    with client.fetch(topic, EARLIEST_ID, client.end_positions([topic])[topic], max_queued_bytes=1 << 20) as fetch:
        for block in fetch:
            for start, end in zip(block.starts, block.ends, strict=True):
                payload = parse_entry(block.buffer, start, end).payload
                seen.append((int.from_bytes(payload[:4], "big"), len(payload)))
    assert seen == [(number, 4 if number % 100 else 800_000) for number in range(2_000)]


def test_chunks_are_entries(broker: Broker, topic: str, client: PulsarClient) -> None:
    producer = broker.client().create_producer(topic, chunking_enabled=True, batching_enabled=False)
    producer.send(bytes(11 << 20))
    blocks = list(client.fetch(topic, EARLIEST_ID, client.end_positions([topic])[topic]))
    assert len(_ids(blocks)) == 3


def test_a_range_beyond_the_log_says_so(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [0, 0])
    last = client.last_message_id(topic)
    assert last is not None
    with client.fetch(topic, EARLIEST_ID, MessageId(last.ledger_id, 50)) as fetch:
        assert fetch.next_block(30_000) is not None
        with pytest.raises(EndNotReached) as caught:
            list(fetch)
    assert caught.value.last == last
    assert caught.value.position == after_entry(last)


def test_following_a_topic(broker: Broker, topic: str, client: PulsarClient) -> None:
    producer = broker.client().create_producer(topic)
    producer.send(b"0")
    with client.fetch(topic, EARLIEST_ID) as fetch:
        assert len(_ids([_some(fetch)])) == 1
        assert fetch.next_block(100) is None
        sender = threading.Thread(target=lambda: producer.send(b"1"))
        sender.start()
        assert _ids([_some(fetch)])[0][1] == 1
        sender.join()
    with client.fetch(topic, fetch.position, idle_timeout_ms=200) as fetch:
        assert list(fetch) == []


def _some(fetch: Fetch) -> EntryBlock:
    block = fetch.next_block(30_000)
    assert block is not None
    return block


def test_nothing_is_left_behind(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [0, 0])
    end = client.end_positions([topic])[topic]
    client.position_at_time(topic, 0)
    list(client.fetch(topic, EARLIEST_ID, end))
    client.close()
    assert eventually(lambda: not _subscriptions(broker, topic))


def _subscriptions(broker: Broker, topic: str) -> list[str]:
    """Durable subscriptions and connected readers, as far as the broker's REST API tells."""
    status, answer = broker.rest("GET", f"/admin/v2/{topic.replace('://', '/')}/subscriptions")
    return [] if status != 200 else json.loads(json.dumps(answer))
