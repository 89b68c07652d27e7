"""What an entry may hold: batches, every codec, chunks, encrypted payloads."""

from __future__ import annotations

import subprocess
from datetime import timedelta
from pathlib import Path

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, position, receive, receive_texts, send_all, send_batched, texts

EARLIEST = pulsar.InitialPosition.Earliest
CODECS = [
    pulsar.CompressionType.LZ4,
    pulsar.CompressionType.ZLib,
    pulsar.CompressionType.ZSTD,
    pulsar.CompressionType.SNAPPY,
]


def test_a_batch_is_one_entry_with_an_index_per_message(broker: Broker) -> None:
    # covers BAT-1
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    values = [f"v{number}" for number in range(100)]
    ids = send_batched(client, topic, values)
    messages = receive(consumer, 100)
    assert texts(messages) == values
    assert [message.message_id() for message in messages] == ids
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == 1
    assert [each.batch_index() for each in ids] == list(range(100))


def test_messages_of_a_batch_keep_their_own_keys_and_properties(broker: Broker) -> None:
    # covers BAT-1
    topic = broker.topic()
    client = broker.client()
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


def test_a_key_based_batch_is_one_entry_per_key(broker: Broker) -> None:
    # covers BAT-6
    topic = broker.topic()
    client = broker.client()
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
def test_every_codec_arrives(broker: Broker, codec: pulsar.CompressionType, batching: bool) -> None:
    # covers CMP-1
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    values = [f"{number} " * 200 for number in range(20)]
    if batching:
        send_batched(client, topic, values, compression_type=codec)
    else:
        send_all(client.create_producer(topic, compression_type=codec), values)
    assert receive_texts(consumer, 20) == values


def test_a_chunked_message_of_twelve_megabytes(broker: Broker) -> None:
    # covers CHK-1, CHK-3
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, receiver_queue_size=10)
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


def test_chunks_of_two_messages_interleaved(broker: Broker) -> None:
    # covers CHK-1, CHK-7
    topic = broker.topic()
    consumer = broker.client().subscribe(topic, "s", initial_position=EARLIEST)
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    for producer_id, name in ((1, "a"), (2, "b")):
        raw.request("PRODUCER", topic=topic, producer_id=producer_id, producer_name=name)
    for chunk in range(3):
        for producer_id, name in ((1, "a"), (2, "b")):
            metadata = {
                "producer_name": name,
                "uuid": f"{name}-0",
                "num_chunks_from_msg": 3,
                "total_chunk_msg_size": 30,
                "chunk_id": chunk,
            }
            raw.send_message(producer_id, 0, name.encode() * 10, metadata=metadata, is_chunk=True)
    receipts = [raw.expect("SEND_RECEIPT") for _ in range(6)]
    assert [receipt.position[1] for receipt in receipts] == list(range(6))
    assert sorted(receive_texts(consumer, 2)) == ["a" * 30, "b" * 30]


def _key_pair(directory: Path) -> tuple[str, str]:
    private, public = directory / "private.pem", directory / "public.pem"
    subprocess.run(["openssl", "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run(["openssl", "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    return str(public), str(private)


@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_encrypted_messages_arrive_and_need_the_key(broker: Broker, tmp_path: Path, batching: bool) -> None:
    # covers A10
    topic = broker.topic()
    client = broker.client()
    keys = pulsar.CryptoKeyReader(*_key_pair(tmp_path))
    with_key = client.subscribe(topic, "with-key", initial_position=EARLIEST, crypto_key_reader=keys)
    without = client.subscribe(
        topic, "without", initial_position=EARLIEST, crypto_failure_action=pulsar.ConsumerCryptoFailureAction.CONSUME
    )
    values = ["secret one", "secret two"]
    crypto = {"encryption_key": "k1", "crypto_key_reader": keys}
    if batching:
        send_batched(client, topic, values, **crypto)
    else:
        send_all(client.create_producer(topic, **crypto), values)
    assert receive_texts(with_key, 2) == values
    assert all(b"secret" not in message.data() for message in receive(without, 1))


def test_a_message_with_a_delivery_time_is_in_no_batch(broker: Broker) -> None:
    # covers BAT-4, DEL-1
    topic = broker.topic()
    producer = broker.client().create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    for text, later in (("a", None), ("b", None), ("c", timedelta(milliseconds=1)), ("d", None)):
        producer.send_async(text.encode(), lambda *_: None, deliver_after=later)
    producer.flush()
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    wanted = {"topic": topic, "subscription": "s", "subType": "Exclusive", "initialPosition": "Earliest"}
    raw.request("SUBSCRIBE", consumer_id=1, **wanted)
    raw.send("FLOW", consumer_id=1, messagePermits=100)
    found = [message.metadata or {} for message in raw.expect_messages(2)]
    assert [each.get("num_messages_in_batch") for each in found if "deliver_at_time" in each] == [None]
    assert [each.get("num_messages_in_batch") for each in found if "deliver_at_time" not in each] == [3]


def test_what_is_inside_a_batch_is_no_business_of_the_broker(broker: Broker) -> None:
    # covers BAT-2, BAT-3
    topic = broker.topic()
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    raw.request("PRODUCER", topic=topic, producer_id=1)
    wanted = {"topic": topic, "subscription": "s", "subType": "Shared"}
    raw.request("SUBSCRIBE", consumer_id=1, **wanted)
    raw.send_message(1, 0, b"no batch at all", metadata={"num_messages_in_batch": 7}, num_messages=7)
    raw.expect("SEND_RECEIPT")
    raw.send("FLOW", consumer_id=1, messagePermits=1)
    message = raw.expect("MESSAGE")
    assert (message.payload, (message.metadata or {})["num_messages_in_batch"]) == (b"no batch at all", 7)
    _, stats = broker.rest("GET", f"{topic_path(topic)}/stats")
    subscription = stats["subscriptions"]["s"]
    assert (stats["msgInCounter"], subscription["msgBacklog"], subscription["unackedMessages"]) == (7, 1, 7)
    assert subscription["consumers"][0]["availablePermits"] == -6
