"""Compaction: what readers and consumers of the compacted view get, and the table view of the official client."""

from __future__ import annotations

import json
from typing import Any

import pulsar
import pytest
from typer.testing import CliRunner

from spark_pulsar.cli.main import app
from spark_pulsar.wire.pulsar_api_pb2 import SingleMessageMetadata
from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, position, receive, receive_texts, send_all, texts
from tests.eventually import eventually
from tests.raw import RawConnection

Pair = tuple[str | None, str]


def _send(producer: pulsar.Producer, *pairs: Pair) -> list[pulsar.MessageId]:
    """Keys with values, each an entry; the ids."""
    ids = []
    for key, value in pairs:
        ids.append(producer.send(value.encode(), **({} if key is None else {"partition_key": key})))
    return ids


def _send_batch(client: pulsar.Client, topic: str, *pairs: Pair, **settings: object) -> None:
    """Keys with values as one entry."""
    producer = client.create_producer(
        topic, batching_enabled=True, batching_max_messages=len(pairs), batching_max_publish_delay_ms=60_000, **settings
    )
    for key, value in pairs:
        producer.send_async(value.encode(), None, **({} if key is None else {"partition_key": key}))
    producer.flush()
    producer.close()


def compact(broker: Broker, topic: str) -> None:
    status, answer = broker.rest("PUT", f"{topic_path(topic)}/compaction")
    assert status == 204, answer
    _await_success(broker, topic)


def _await_success(broker: Broker, topic: str) -> None:
    path = f"{topic_path(topic)}/compaction"
    eventually(lambda: broker.rest("GET", path)[1]["status"] != "RUNNING", timeout_s=60)
    assert broker.rest("GET", path)[1] == {"status": "SUCCESS", "lastError": ""}


def compacted_view(client: pulsar.Client, topic: str, start: pulsar.MessageId = pulsar.MessageId.earliest) -> list[Any]:
    """All messages of the compacted view."""
    reader = client.create_reader(topic, start, is_read_compacted=True)
    found = []
    while reader.has_message_available():
        found += receive(reader, 1)
    reader.close()
    return found


def values_of(messages: list[Any]) -> list[str]:
    """Their values, without those of deleted keys: a broker may keep them or not (X16)."""
    return [text for text in texts(messages) if text]


def kept_topic(broker: Broker) -> str:
    """A topic with a subscription `keep` that holds everything."""
    topic = broker.topic()
    broker.client().subscribe(topic, "keep", initial_position=EARLIEST).close()
    return topic


def test_readers_get_the_last_message_of_each_key(broker: Broker) -> None:
    # covers CMP-C1, CMP-C2, CMP-C4
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    sent = _send(producer, ("a", "a1"), ("b", "b1"), ("a", "a2"), (None, "no key"), ("c", "c1"), ("c", ""))
    compact(broker, topic)
    view = compacted_view(client, topic)
    assert values_of(view) == ["b1", "a2"]
    assert [message.message_id() for message in view if message.data()] == [sent[1], sent[2]]
    assert [message.partition_key() for message in view if message.data()] == ["b", "a"]
    assert len(receive(client.create_reader(topic, pulsar.MessageId.earliest), 6)) == 6


def test_behind_the_horizon_everything_comes(broker: Broker) -> None:
    # covers CMP-C4
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    _send(producer, ("a", "a1"), ("a", "a2"))
    compact(broker, topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert receive_texts(reader, 1) == ["a2"]
    _send(producer, ("a", "a3"), ("a", "a4"))
    assert receive_texts(reader, 2) == ["a3", "a4"]
    compact(broker, topic)
    _send(producer, ("b", "b1"))
    assert receive_texts(reader, 1) == ["b1"]
    assert values_of(compacted_view(client, topic)) == ["a4", "b1"]


def test_a_deleted_key_is_gone_and_a_reader_does_not_wait_for_it(broker: Broker) -> None:
    # covers CMP-C1, RD-4, X16
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    _send(producer, ("k", "old"))
    producer.send(None, partition_key="k")
    compact(broker, topic)
    assert values_of(compacted_view(client, topic)) == []
    _send(producer, ("k", "new"))
    compact(broker, topic)
    assert values_of(compacted_view(client, topic)) == ["new"]


def test_a_tombstone_of_its_own_goes(broker: Broker) -> None:
    # covers CMP-C1, X16: the Java client tells the size, the Python client does not
    topic, raw = kept_topic(broker), broker.raw()
    raw.produce(topic)
    sizes: dict[str, dict[str, Any]] = {
        "absent": {},
        "zero": {"uncompressed_size": 0},
        "null": {"null_value": True, "uncompressed_size": 0},
        "null, absent": {"null_value": True},
        "five": {"uncompressed_size": 5},
    }
    keys = [*((key, b"old", {"uncompressed_size": 3}) for key in sizes), *((key, b"", sizes[key]) for key in sizes)]
    for number, (key, value, metadata) in enumerate([*keys, ("last", b"z", {})]):
        raw.send_message(1, number, value, metadata=metadata | {"partition_key": key})
        raw.expect("SEND_RECEIPT")
    for _ in range(2):
        compact(broker, topic)
        found = [(message.partition_key(), message.data()) for message in compacted_view(broker.client(), topic)]
        assert [key for key, value in found if value] == ["last"]
        reader = broker.raw()
        reader.subscribe(topic, permits=100, subType="Exclusive", durable=False, read_compacted=True)
        stay = [] if broker.has(changes.EMPTY_IS_TOMBSTONE) else ["absent", "null, absent"]
        frames = reader.expect_messages(len(stay) + 2)
        assert [frame.metadata["partition_key"] for frame in frames if frame.metadata] == [*stay, "five", "last"]
        reader.expect_no_message()
        reader.close()


@pytest.mark.parametrize("compression", [pulsar.CompressionType.NONE, pulsar.CompressionType.ZSTD])
def test_batches_are_opened_and_keep_their_indexes(broker: Broker, compression: pulsar.CompressionType) -> None:
    # covers CMP-C3
    topic, client = kept_topic(broker), broker.client()
    more = {"compression_type": compression}
    _send_batch(client, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), (None, "no key"), ("c", "c1"), **more)
    _send_batch(client, topic, ("b", "b2"), ("d", "d1"), ("d", ""), **more)
    compact(broker, topic)
    view = compacted_view(client, topic)
    assert values_of(view) == ["a2", "c1", "b2"]
    assert [position(message.message_id())[2] for message in view if message.data()] == [2, 4, 0]
    _send_batch(client, topic, ("a", "a3"), ("e", "e1"), **more)
    compact(broker, topic)
    assert values_of(compacted_view(client, topic)) == ["c1", "b2", "a3", "e1"]


def _delivered(raw: RawConnection, topic: str) -> list[Any]:
    start = {"ledgerId": 2**64 - 1, "entryId": 2**64 - 1}
    raw.subscribe(topic, permits=100, subType="Exclusive", durable=False, read_compacted=True, start_message_id=start)
    return [raw.expect("MESSAGE")]


def test_what_is_taken_out_of_a_batch_leaves_its_place(broker: Broker) -> None:
    # covers CMP-C3
    topic, client = kept_topic(broker), broker.client()
    _send_batch(client, topic, ("a", "a1"), ("a", "a2"), properties={"p": "q"})
    compact(broker, topic)
    (frame,) = _delivered(broker.raw(), topic)
    assert frame.checksum == "ok"
    assert frame.metadata is not None
    assert frame.metadata["num_messages_in_batch"] == 2
    assert frame.payload is not None
    assert frame.metadata["uncompressed_size"] == len(frame.payload)
    size = int.from_bytes(frame.payload[:4], "big")
    taken_out = SingleMessageMetadata.FromString(frame.payload[4 : 4 + size])
    assert (taken_out.compacted_out, taken_out.payload_size, taken_out.partition_key) == (True, 0, "")
    assert frame.payload.endswith(b"a2")


def test_a_reader_begins_inside_the_compacted_view(broker: Broker) -> None:
    # covers CMP-C4, CUR-10
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    sent = _send(producer, ("a", "0"), ("b", "1"), ("a", "2"), ("c", "3"), ("d", "4"))
    compact(broker, topic)
    assert values_of(compacted_view(client, topic, sent[0])) == ["1", "2", "3", "4"]
    assert values_of(compacted_view(client, topic, sent[1])) == ["2", "3", "4"]
    assert values_of(compacted_view(client, topic, sent[3])) == ["4"]


def test_an_exclusive_consumer_reads_and_acks_the_compacted_view(broker: Broker) -> None:
    # covers CMP-C4
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    _send(producer, ("a", "a1"), ("b", "b1"), ("a", "a2"))
    compact(broker, topic)
    consumer = client.subscribe(topic, "durable", initial_position=EARLIEST, is_read_compacted=True)
    first, second = receive(consumer, 2)
    assert texts([first, second]) == ["b1", "a2"]
    consumer.acknowledge_cumulative(first)
    consumer.close()
    again = client.subscribe(topic, "durable", is_read_compacted=True)
    assert receive_texts(again, 1) == ["a2"]


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        ("Shared", "persistent"),
        ("Key_Shared", "persistent"),
        ("Shared", "non-persistent"),
        ("Exclusive", "non-persistent"),
        ("Failover", "non-persistent"),
    ],
)
def test_what_has_no_compacted_view(broker: Broker, raw: RawConnection, kind: str, domain: str) -> None:
    # covers CMP-C5
    topic = broker.topic().replace("persistent://", f"{domain}://")
    raw.request("LOOKUP", topic=topic)
    answer = raw.request("SUBSCRIBE", topic=topic, subscription="s", subType=kind, consumer_id=1, read_compacted=True)
    assert (answer.type, answer["error"]) == ("ERROR", "NotAllowedError")
    valid = "valid on persistent topics" if domain == "non-persistent" else "allowed on failover or exclusive"
    assert f"readCompacted only {valid}" in answer["message"]


def test_the_table_view_of_the_official_client(broker: Broker) -> None:
    # covers RD-5
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    _send(producer, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("gone", "x"), ("gone", ""), (None, "no key"))
    compact(broker, topic)
    _send(producer, ("b", "b2"))
    view = client.create_table_view(topic)
    assert {key: view.get(key) for key in ("a", "b", "gone")} == {"a": b"a2", "b": b"b2", "gone": None}
    _send(producer, ("c", "c1"), ("a", ""))
    eventually(lambda: (view.get("c"), view.get("a")) == (b"c1", None))
    view.close()


def test_commands_of_compaction(broker: Broker) -> None:
    # covers ADM-71
    topic = kept_topic(broker)

    def admin(command: str) -> str:
        answer = CliRunner().invoke(app, ["admin", "--admin-url", broker.admin_url, "topics", *command.split(), topic])
        assert answer.exit_code == 0, answer.output
        return answer.output.strip()

    assert admin("compaction-status") == f"Compaction has not been run for {topic} since broker startup"
    _send(broker.client().create_producer(topic), ("a", "1"), ("a", "2"))
    assert admin("compact") == f"Topic compaction requested for {topic}."
    assert admin("compaction-status -w") == "Compaction was a success"
    assert json.loads(admin("compaction-status -o json"))["status"] == "SUCCESS"


def test_status_and_refusals_over_rest(broker: Broker) -> None:
    # covers CMP-C6
    topic = kept_topic(broker)
    assert broker.rest("GET", f"{topic_path(topic)}/compaction") == (200, {"status": "NOT_RUN", "lastError": ""})
    missing = topic_path(broker.topic("missing"))
    assert broker.rest("PUT", f"{missing}/compaction")[0] == 404
    assert broker.rest("GET", f"{missing}/compaction")[0] == 404
    compact(broker, topic)
    partitioned = broker.topic(partitions=2)
    assert broker.rest("PUT", f"{topic_path(partitioned)}/compaction")[0] == 204
    assert broker.rest("GET", f"{topic_path(partitioned)}/compaction")[0] == 404
    for index in range(2):
        _await_success(broker, f"{partitioned}-partition-{index}")


def test_numbers_about_compaction(broker: Broker) -> None:
    # covers ADM-73
    topic, client = kept_topic(broker), broker.client()
    producer = client.create_producer(topic)
    _send(producer, ("a", "a1"), ("a", "a2"), ("b", "b1"))
    compact(broker, topic)
    numbers = broker.stats(topic)["compaction"]
    assert numbers["lastCompactionRemovedEventCount"] == 1
    assert numbers["lastCompactionSucceedTimestamp"] > 1_700_000_000_000
    assert numbers["lastCompactionFailedTimestamp"] == 0
    internal = broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]
    compacted = internal["compactedLedger"]
    assert compacted["ledgerId"] >= 0
    assert compacted["entries"] == 2
    assert internal["cursors"]["__compaction"]["properties"] == {"CompactedTopicLedger": compacted["ledgerId"]}


def test_a_threshold_compacts_by_itself(rolling_broker: Broker) -> None:
    # covers CMP-C1
    topic, client = kept_topic(rolling_broker), rolling_broker.client()
    producer = client.create_producer(topic)
    send_all(producer, ["no key"])
    path = f"{topic_path(topic)}/compactionThreshold"
    assert rolling_broker.rest("POST", path, 1_000)[0] == 204
    eventually(lambda: rolling_broker.rest("GET", path)[1] == 1_000)
    _send(producer, *[(f"k{number % 3}", f"{number}" + "x" * 500) for number in range(12)])
    eventually(lambda: len(compacted_view(client, topic)) == 3, timeout_s=60)
