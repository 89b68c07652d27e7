"""Readers: where they start, when they know that more is there."""

from __future__ import annotations

import itertools
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all, send_batched, send_numbers
from tests.eventually import eventually
from tests.raw import RawConnection

EARLIEST, LATEST = pulsar.MessageId.earliest, pulsar.MessageId.latest


def test_from_the_beginning_to_the_end_and_on(broker: Broker, topic: str) -> None:
    # covers RD-1, RD-2
    send_numbers(broker, topic, 100)
    reader = broker.client().create_reader(topic, EARLIEST)
    values = []
    while reader.has_message_available():
        values += receive_texts(reader, 1)
    assert values == [str(number) for number in range(100)]
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["more"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["more"]


def test_from_the_end(broker: Broker, topic: str) -> None:
    # covers RD-1, RD-2, C13, CUR-10
    send_numbers(broker, topic, 3)
    reader = broker.client().create_reader(topic, LATEST)
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["new"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["new"]


def test_an_empty_topic_has_nothing_available(client: pulsar.Client, topic: str) -> None:
    # covers RD-3
    client.create_producer(topic)
    assert not client.create_reader(topic, EARLIEST).has_message_available()
    assert not client.create_reader(topic, LATEST).has_message_available()


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_from_any_id(broker: Broker, client: pulsar.Client, topic: str, inclusive: bool) -> None:
    # covers CUR-10, A11
    ids = send_numbers(broker, topic, 6)
    for start in (0, 3, 5):
        reader = client.create_reader(topic, ids[start], start_message_id_inclusive=inclusive)
        expected = [str(number) for number in range(start + (not inclusive), 6)]
        assert reader.has_message_available() == bool(expected)
        assert receive_texts(reader, len(expected)) == expected
        expect_nothing(reader, quiet_ms=100)


@pytest.mark.parametrize("inclusive", [False, True], ids=["after", "at"])
def test_from_inside_a_batch(client: pulsar.Client, topic: str, inclusive: bool) -> None:
    # covers CUR-10, A11 (the whole batch comes, the client drops)
    ids = send_batched(client, topic, [str(number) for number in range(5)])
    for start in (0, 2, 4):
        reader = client.create_reader(topic, ids[start], start_message_id_inclusive=inclusive)
        expected = [str(number) for number in range(start + (not inclusive), 5)]
        assert reader.has_message_available() == bool(expected)
        assert receive_texts(reader, len(expected)) == expected
        assert not reader.has_message_available()


def test_readers_do_not_disturb_one_another_nor_hold_a_subscription(
    broker: Broker, client: pulsar.Client, topic: str
) -> None:
    # covers RD-1 (acks of a reader stay its own), CUR-8
    send_numbers(broker, topic, 3)
    for _ in range(2):
        named = client.create_reader(topic, EARLIEST, reader_name="r", subscription_role_prefix="role")
        for reader in [named, *(client.create_reader(topic, EARLIEST) for _ in range(5))]:
            assert receive_texts(reader, 3) == ["0", "1", "2"]
            reader.close()


def test_a_reader_seeks_by_id_and_by_time(broker: Broker, topic: str) -> None:
    # covers CUR-11, CUR-12, CUR-8, RD-2
    ids = send_numbers(broker, topic, 5)
    reader = broker.client().create_reader(topic, EARLIEST)
    messages = receive(reader, 5)
    reader.seek(ids[1])
    assert receive_texts(reader, 3) == ["2", "3", "4"]
    reader.seek(messages[0].publish_timestamp())
    assert reader.has_message_available()
    assert receive_texts(reader, 5) == ["0", "1", "2", "3", "4"]
    reader.seek(messages[4].publish_timestamp() + 60_000)
    assert not reader.has_message_available()
    send_all(broker.client().create_producer(topic), ["new"])
    eventually(reader.has_message_available)
    assert receive_texts(reader, 1) == ["new"]


def test_a_reader_of_a_partitioned_topic(broker: Broker) -> None:
    # covers RD-1, PT-1
    topic = broker.topic(partitions=3)
    send_numbers(broker, topic, 30)
    reader = broker.client().create_reader(topic, EARLIEST)
    values = []
    while reader.has_message_available():
        values += receive_texts(reader, 1)
    assert sorted(values, key=int) == [str(number) for number in range(30)]


def test_a_start_after_the_end_takes_the_initial_position(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers CUR-10 (no id, an id after the end: initial position decides)
    send_numbers(broker, topic, 2)
    after_all = {"ledgerId": 2**63 - 1, "entryId": 2**63 - 1}
    expected = {
        ("Earliest", True): [b"0", b"1"],
        ("Latest", True): [],
        ("Earliest", False): [b"0", b"1"],
        ("Latest", False): [],
    }
    for consumer_id, ((initial, with_id), values) in enumerate(expected.items()):
        start = {"start_message_id": after_all} if with_id else {}
        reader = {"subscription": f"r{consumer_id}", "subType": "Exclusive", "durable": False}
        raw.subscribe(topic, consumer_id, 10, initialPosition=initial, **reader, **start)
        assert [message.payload for message in raw.expect_messages(len(values))] == values
        raw.expect_no_message(quiet_s=0.2)


# ---- hash ranges, as `keyHashRange` of the Java client


KEYS = [f"k{number}" for number in range(20)]
LOWER, UPPER = (0, 32_767), (32_768, 65_535)


def _sent(broker: Broker, topic: str) -> None:
    raw = broker.raw()
    raw.produce(topic)
    for number, key in enumerate(KEYS):
        metadata = {"partition_key": key, "uncompressed_size": len(key)}
        raw.send_message(1, number, key.encode(), metadata=metadata)
        raw.expect("SEND_RECEIPT")


_numbers = itertools.count()


def _read(broker: Broker, topic: str, *ranges: tuple[int, int], permits: int = 1000, **more: Any) -> list[str]:
    """Keys that a consumer gets from the beginning on."""
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    meta = {"keySharedMode": "STICKY", "hashRanges": [{"start": start, "end": end} for start, end in ranges]}
    fields = {"subType": "Exclusive", "durable": False, "initialPosition": "Earliest", "keySharedMeta": meta}
    name = f"s-{next(_numbers)}"  # Apache Pulsar fences one for a moment whose last consumer has just gone
    answer = raw.request("SUBSCRIBE", topic=topic, subscription=name, consumer_id=1, **(fields | more))
    assert answer.type == "SUCCESS", answer
    found: list[str] = []
    raw.flow(permits)
    quiet_s = 1.0 if more.get("subType") == "Failover" else 0.5  # its first consumer waits before it is active
    while (frame := raw.next_frame(quiet_s)) is not None:
        if frame.type == "MESSAGE":
            assert frame.payload is not None
            found.append(frame.payload.decode())
    raw.close()
    return found


def test_each_reader_gets_its_half_and_the_rest_costs_no_permit(broker: Broker, topic: str) -> None:
    # covers RD-6
    _sent(broker, topic)
    lower, upper = _read(broker, topic, LOWER), _read(broker, topic, UPPER)
    assert lower
    assert upper
    assert sorted(lower + upper) == sorted(KEYS)
    assert lower == [key for key in KEYS if key in lower]
    assert _read(broker, topic, LOWER, UPPER) == KEYS
    assert _read(broker, topic, (5, 0)) == []
    assert _read(broker, topic) == KEYS
    assert _read(broker, topic, UPPER, permits=3) == upper[:3]
    assert _read(broker, topic, UPPER, permits=len(upper)) == upper


@pytest.mark.parametrize(
    ("more", "is_filtered"),
    [({"durable": True}, True), ({"read_compacted": True}, True), ({"subType": "Failover", "durable": True}, False)],
    ids=["durable", "compacted", "failover"],
)
def test_who_names_ranges(broker: Broker, topic: str, more: dict[str, Any], is_filtered: bool) -> None:
    # covers RD-6
    _sent(broker, topic)
    expected = _read(broker, topic, LOWER) if is_filtered else KEYS
    if more.get("read_compacted"):
        assert broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
    assert _read(broker, topic, LOWER, **more) == expected
