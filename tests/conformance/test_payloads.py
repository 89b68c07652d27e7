"""What an entry may hold: batches, every codec, chunks, encrypted payloads."""

from __future__ import annotations

from datetime import timedelta

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import expect_nothing, position, receive, receive_texts, send_all, send_batched, texts
from tests.raw import RawConnection

EARLIEST = pulsar.InitialPosition.Earliest
CODECS = [
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def test_a_batch_is_one_entry_with_an_index_per_message(client: pulsar.Client, topic: str) -> None:
    # covers BAT-1
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    values = [f"v{number}" for number in range(100)]
    ids = send_batched(client, topic, values)
    messages = receive(consumer, 100)
    assert texts(messages) == values
    assert [message.message_id() for message in messages] == ids
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == 1
    assert [each.batch_index() for each in ids] == list(range(100))


def test_messages_of_a_batch_keep_their_own_keys_and_properties(client: pulsar.Client, topic: str) -> None:
    # covers BAT-1
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    for number in range(3):
        producer.send_async(
            b"v", lambda *_: None, partition_key=f"k{number}", properties={"n": str(number)}, event_timestamp=number + 1
        )
    producer.flush()
    messages = receive(consumer, 3)
    assert [message.partition_key() for message in messages] == ["k0", "k1", "k2"]
    assert [message.properties() for message in messages] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]
    assert [message.event_timestamp() for message in messages] == [1, 2, 3]


def test_a_key_based_batch_is_one_entry_per_key(client: pulsar.Client, topic: str) -> None:
    # covers BAT-6
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(
        topic, batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased, batching_max_publish_delay_ms=60_000
    )
    for number in range(10):
        producer.send_async(str(number).encode(), lambda *_: None, partition_key="ab"[number % 2])
    producer.flush()
    entries: dict[tuple[int, int], set[str]] = {}
    for message in receive(consumer, 10):
        entries.setdefault(position(message.message_id())[:2], set()).add(message.partition_key())
    assert sorted(entries.values(), key=sorted) == [{"a"}, {"b"}]


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
@pytest.mark.parametrize("codec", CODECS, ids=[codec.name for codec in CODECS])
def test_every_codec_arrives(client: pulsar.Client, topic: str, codec: pulsar.CompressionType, batching: bool) -> None:
    # covers CMP-1
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    values = [f"{number} " * 200 for number in range(20)]
    if batching:
        send_batched(client, topic, values, compression_type=codec)
    else:
        send_all(client.create_producer(topic, compression_type=codec), values)
    assert receive_texts(consumer, 20) == values


def test_a_chunked_message_of_twelve_megabytes(client: pulsar.Client, topic: str) -> None:
    # covers CHK-1, CHK-3
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, receiver_queue_size=1)
    value = bytes(range(256)) * (12 * 1024 * 4)
    producer = client.create_producer(topic, chunking_enabled=True)
    producer.send(value)
    producer.send(b"small")
    large, small = receive(consumer, 2)
    assert large.data() == value
    assert small.data() == b"small"
    # Three entries for the large one, then the small one.
    assert position(small.message_id())[1] == 3
    consumer.acknowledge(large)
    consumer.acknowledge(small)
    consumer.close()
    expect_nothing(client.subscribe(topic, "s"))


def test_a_message_with_a_delivery_time_is_in_no_batch(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers BAT-4, DEL-1
    producer = broker.client().create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    for text, later in (("a", None), ("b", None), ("c", timedelta(milliseconds=1)), ("d", None)):
        producer.send_async(text.encode(), lambda *_: None, deliver_after=later)
    producer.flush()
    raw.subscribe(topic, permits=100, subType="Exclusive")
    found = [message.metadata or {} for message in raw.expect_messages(2)]
    assert [each.get("num_messages_in_batch") for each in found if "deliver_at_time" in each] == [None]
    assert [each.get("num_messages_in_batch") for each in found if "deliver_at_time" not in each] == [3]


def test_what_is_inside_a_batch_is_no_business_of_the_broker(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers BAT-2, BAT-3
    raw.produce(topic)
    raw.subscribe(topic)
    raw.send_message(1, 0, b"no batch at all", metadata={"num_messages_in_batch": 7}, num_messages=7)
    raw.expect("SEND_RECEIPT")
    raw.flow(1)
    message = raw.expect("MESSAGE")
    assert (message.payload, (message.metadata or {})["num_messages_in_batch"]) == (b"no batch at all", 7)
    stats = broker.stats(topic)
    subscription = stats["subscriptions"]["s"]
    assert (stats["msgInCounter"], subscription["msgBacklog"], subscription["unackedMessages"]) == (7, 1, 7)
    assert subscription["consumers"][0]["availablePermits"] == -6
