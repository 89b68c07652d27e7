"""Key_Shared subscriptions: each key at one consumer at a time, in order."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from spark_pulsar.wire.keys.murmur3 import murmur3_32, range_hash
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, receive, send_all, texts
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

KEY_SHARED = pulsar.ConsumerType.KeyShared
QUIET_S = 0.3
# Keys that belong to c1 while it is alone with c2 on the ring, and those of c2 (seen on 4.0.8).
OF_C1 = ["key-2", "order-42", "hello", "test"]
OF_C2 = ["key-1", "NONE_KEY"]


def _subscribe(raw: RawConnection, topic: str, name: str, permits: int = 100, priority: int = 0, **meta: Any) -> Frame:
    raw.request("LOOKUP", topic=topic)
    answer = raw.request(
        "SUBSCRIBE",
        topic=topic,
        subscription="s",
        subType="Key_Shared",
        consumer_id=1,
        consumer_name=name,
        priority_level=priority,
        initialPosition="Earliest",
        keySharedMeta={"keySharedMode": "AUTO_SPLIT"} | meta,
    )
    if answer.type == "SUCCESS":
        raw.flow(permits)
    return answer


def _sticky(*ranges: tuple[int, int]) -> dict[str, Any]:
    return {"keySharedMode": "STICKY", "hashRanges": [{"start": start, "end": end} for start, end in ranges]}


def _publish(broker: Broker, topic: str, *pairs: tuple[str, str]) -> None:
    producer = broker.client().create_producer(topic, batching_enabled=False)
    for key, text in pairs:
        producer.send(text.encode(), partition_key=key)
    producer.close()


def _ack(raw: RawConnection, *messages: Frame) -> None:
    raw.ack(*(message.id for message in messages))


def _texts(messages: list[Frame]) -> list[str]:
    return [(message.payload or b"").decode() for message in messages]


def _consumer(broker: Broker, topic: str, name: str) -> dict[str, Any]:
    return next(dict(each) for each in broker.subscription(topic)["consumers"] if each["consumerName"] == name)


def test_keys_stay_at_one_consumer_and_in_order(broker: Broker, topic: str) -> None:
    # covers KS-1, KS-2, KS-6
    consumers = [
        broker.client().subscribe(topic, "s", KEY_SHARED, initial_position=EARLIEST, consumer_name=f"c{number}")
        for number in range(4)
    ]
    _publish(broker, topic, *((f"key-{key}", f"{key}/{turn}") for turn in range(5) for key in range(100)))
    owner: dict[str, int] = {}
    turns: dict[str, list[int]] = {}
    left = 500
    while left:
        for number, consumer in enumerate(consumers):
            try:
                message = consumer.receive(timeout_millis=10)
            except pulsar.Timeout:
                continue
            left -= 1
            key, turn = message.data().decode().split("/")
            assert owner.setdefault(key, number) == number
            turns.setdefault(key, []).append(int(turn))
            consumer.acknowledge(message)
    assert all(seen == [0, 1, 2, 3, 4] for seen in turns.values())
    shares = [sum(each == number for each in owner.values()) for number in range(4)]
    assert all(5 <= share <= 50 for share in shares), shares


def test_consistent_hashing_gives_keys_to_the_same_consumers_as_apache_pulsar(broker: Broker, topic: str) -> None:
    # covers KS-2, KS-3, KS-6, KS-17, X9
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1", priority=3)
    _subscribe(second, topic, "c2")
    _publish(broker, topic, *((key, key) for key in (*OF_C1, *OF_C2)))
    assert _texts(first.expect_messages(4)) == OF_C1
    assert _texts(second.expect_messages(2)) == OF_C2
    ranges = [_consumer(broker, topic, name)["keyHashRangeArrays"] for name in ("c1", "c2")]
    assert sum(end - start + 1 for each in ranges for start, end in each) == 65535
    assert (ranges[0][:3], ranges[0][-1], len(ranges[0])) == (
        [[1, 1031], [1425, 1870], [2083, 2409]],
        [64400, 65535],
        52,
    )
    assert (ranges[1][:2], ranges[1][-1], len(ranges[1])) == ([[1032, 1424], [1871, 2082]], [63541, 64399], 51)
    stats = broker.subscription(topic)
    assert (stats["type"], stats["keySharedMode"], stats["allowOutOfOrderDelivery"]) == (
        "Key_Shared",
        "AUTO_SPLIT",
        False,
    )


def test_the_ordering_key_wins_and_unkeyed_messages_are_spread(broker: Broker, topic: str) -> None:
    # covers KS-2, X5
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1")
    _subscribe(second, topic, "c2")
    producer = broker.client().create_producer(topic, batching_enabled=False)
    producer.send(b"a", partition_key="key-1", ordering_key="key-2")
    producer.send(b"b", partition_key="key-2", ordering_key="key-1")
    assert _texts(first.expect_messages(1)) == ["a"]
    assert _texts(second.expect_messages(1)) == ["b"]
    send_all(producer, [str(number) for number in range(40)])
    eventually(lambda: broker.subscription(topic)["unackedMessages"] == 42)
    assert min(_consumer(broker, topic, name)["unackedMessages"] for name in ("c1", "c2")) > 5


def test_batches_by_key(broker: Broker, topic: str) -> None:
    # covers KS-1, KS-2, BAT-3
    consumers = [
        broker.client().subscribe(topic, "s", KEY_SHARED, initial_position=EARLIEST, consumer_name=name)
        for name in ("c1", "c2")
    ]
    producer = broker.client().create_producer(
        topic, batching_type=pulsar.BatchingType.KeyBased, batching_enabled=True, batching_max_publish_delay_ms=50
    )
    for turn in range(5):
        for key in (*OF_C1, *OF_C2):
            producer.send_async(f"{key}/{turn}".encode(), None, partition_key=key)
    producer.flush()
    mine, theirs = texts(receive(consumers[0], 20)), texts(receive(consumers[1], 10))
    assert [each for each in mine if each.startswith("hello")] == [f"hello/{turn}" for turn in range(5)]
    assert {each.split("/")[0] for each in theirs} == set(OF_C2)


def test_a_key_that_moves_waits_until_the_old_owner_acked(broker: Broker, topic: str) -> None:
    # covers KS-10, KS-1
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1")
    _publish(broker, topic, ("key-1", "A1"))
    (blocker,) = first.expect_messages(1)
    _subscribe(second, topic, "c2")
    _publish(broker, topic, ("key-1", "A2"), ("NONE_KEY", "B1"), ("key-1", "A3"))
    assert _texts(second.expect_messages(1)) == ["B1"]
    second.expect_no_message(QUIET_S)
    stats = _consumer(broker, topic, "c1")
    assert (stats["drainingHashesCount"], stats["drainingHashesUnackedMessages"]) == (1, 1)
    (draining,) = stats["drainingHashes"]
    assert (draining["hash"], draining["unackMsgs"]) == (murmur3_32(b"key-1") % 65535 + 1, 1)
    assert broker.subscription(topic)["msgInReplay"] == 2
    _ack(first, blocker)
    assert _texts(second.expect_messages(2)) == ["A2", "A3"]
    first.expect_no_message(QUIET_S)
    eventually(lambda: _consumer(broker, topic, "c1")["drainingHashesClearedTotal"] == 1)


@pytest.mark.ours_only("KS-15: Apache Pulsar 4.0.8 still held the key back after 30 s")
def test_a_key_goes_on_when_what_blocks_it_is_skipped(broker: Broker, topic: str) -> None:
    # covers KS-15
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1")
    _publish(broker, topic, ("key-1", "A1"))
    first.expect_messages(1)
    _subscribe(second, topic, "c2")
    _publish(broker, topic, ("key-1", "A2"))
    second.expect_no_message(QUIET_S)
    assert broker.rest("POST", f"{topic_path(topic)}/subscription/s/skip/1")[0] == 204
    assert _texts(second.expect_messages(1)) == ["A2"]


def test_a_consumer_that_leaves_releases_its_keys(broker: Broker, topic: str) -> None:
    # covers KS-10, SH-4
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1")
    _subscribe(second, topic, "c2")
    _publish(broker, topic, *(("key-1", str(number)) for number in range(4)))
    messages = second.expect_messages(4)
    _ack(second, messages[1])
    second.close()
    _publish(broker, topic, ("key-1", "4"))
    again = first.expect_messages(4)
    assert _texts(again) == ["0", "2", "3", "4"]
    assert all(not message.fields.get("redelivery_count") for message in again)


def test_a_slow_consumer_blocks_only_its_own_keys(broker: Broker, topic: str) -> None:
    # covers KS-10
    slow, quick = broker.raw(), broker.raw()
    _subscribe(slow, topic, "c1", permits=1)
    _subscribe(quick, topic, "c2", permits=1_000)
    _publish(broker, topic, *((key, f"{key}/{turn}") for turn in range(20) for key in (OF_C1[0], OF_C2[0])))
    assert _texts(quick.expect_messages(20)) == [f"{OF_C2[0]}/{turn}" for turn in range(20)]
    assert _texts(slow.expect_messages(1)) == [f"{OF_C1[0]}/0"]
    slow.expect_no_message(QUIET_S)
    slow.flow(100)
    assert _texts(slow.expect_messages(19)) == [f"{OF_C1[0]}/{turn}" for turn in range(1, 20)]


def test_out_of_order_delivery_holds_nothing_back(broker: Broker, topic: str) -> None:
    # covers KS-11
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "c1", allowOutOfOrderDelivery=True)
    _publish(broker, topic, ("key-1", "A1"))
    first.expect_messages(1)
    _subscribe(second, topic, "c2", allowOutOfOrderDelivery=True)
    _publish(broker, topic, ("key-1", "A2"))
    assert _texts(second.expect_messages(1)) == ["A2"]
    assert broker.subscription(topic)["allowOutOfOrderDelivery"] is True


def test_fixed_ranges(broker: Broker, topic: str) -> None:
    # covers KS-3, KS-7, KS-8
    key, slot = "Order-3459134", 6067
    assert range_hash(murmur3_32(key.encode())) == slot
    first, second = broker.raw(), broker.raw()
    assert _subscribe(first, topic, "c1", **_sticky((0, 5_000), (7_000, 65_535))).type == "SUCCESS"
    _publish(broker, topic, (key, "waits"), ("key1", "293"), (key, "too"), ("hello", "64071"))
    assert _texts(first.expect_messages(2)) == ["293", "64071"]
    first.expect_no_message(QUIET_S)
    assert _subscribe(second, topic, "c2", **_sticky((5_001, 6_999))).type == "SUCCESS"
    assert _texts(second.expect_messages(2)) == ["waits", "too"]
    assert _consumer(broker, topic, "c1")["keyHashRangeArrays"] == [[0, 5_000], [7_000, 65_535]]
    assert broker.subscription(topic)["keySharedMode"] == "STICKY"


@pytest.mark.parametrize(
    ("ranges", "text"),
    [
        ((), "Ranges for KeyShared policy must not be empty."),
        (((10, 5),), "Fixed hash range start > end for range: [10,5]"),
        (((300, 400), (350, 500)), "Consumer's own ranges conflict: [300,400] overlaps with [350,500]"),
    ],
)
def test_fixed_ranges_that_cannot_be_are_refused(
    broker: Broker, topic: str, ranges: tuple[tuple[int, int], ...], text: str
) -> None:
    # covers KS-7
    taken, raw = broker.raw(), broker.raw()
    _subscribe(taken, topic, "c1", **_sticky((0, 250)))
    answer = _subscribe(raw, topic, "c3", **_sticky(*ranges))
    assert (answer.type, answer["error"]) == ("ERROR", "ConsumerAssignError")
    assert text in answer["message"], answer["message"]
    assert [each["consumerName"] for each in broker.subscription(topic)["consumers"]] == ["c1"]
    _publish(broker, topic, ("tail-9", "x"))
    assert _subscribe(raw, topic, "c4", **_sticky((251, 65_535))).type == "SUCCESS"


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        (
            _sticky((0, 1)),
            "Active subscription key_shared mode of 'AUTO_SPLIT' is different than the connecting consumer's "
            "key_shared mode 'STICKY'.",
        ),
        (
            {"allowOutOfOrderDelivery": True},
            "Active subscription does not allow out of order delivery while the connecting consumer allows it.",
        ),
    ],
)
def test_all_consumers_want_the_same_mode(broker: Broker, topic: str, meta: dict[str, Any], text: str) -> None:
    # covers SUB-2
    _subscribe(broker.raw(), topic, "c1")
    answer = _subscribe(broker.raw(), topic, "c2", **meta)
    assert (answer.type, answer["error"]) == ("ERROR", "ConsumerBusy")
    assert text in answer["message"], answer["message"]


def test_negative_acks_come_back_to_the_same_consumer(broker: Broker, topic: str) -> None:
    # covers KS-1, KS-13, KS-14, NACK-3, RC-1
    consumers = [
        broker.client().subscribe(
            topic, "s", KEY_SHARED, initial_position=EARLIEST, consumer_name=name, negative_ack_redelivery_delay_ms=100
        )
        for name in ("c1", "c2")
    ]
    _publish(broker, topic, *((OF_C1[0], str(number)) for number in range(3)))
    messages = receive(consumers[0], 3)
    consumers[0].negative_acknowledge(messages[1])
    (again,) = receive(consumers[0], 1)
    assert (again.data(), again.redelivery_count()) == (b"1", 1)
    expect_nothing(consumers[1])
