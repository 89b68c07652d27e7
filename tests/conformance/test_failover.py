"""Failover subscriptions: one consumer of many gets everything, and when it goes, the next one does."""

from __future__ import annotations

import itertools
import threading

import pulsar

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, receive, receive_texts, send_all, send_numbers, texts
from tests.eventually import eventually
from tests.raw import Frame, RawConnection

FAILOVER = pulsar.ConsumerType.Failover


def _subscribe(raw: RawConnection, topic: str, name: str, consumer_id: int = 1, priority: int = 0) -> None:
    raw.subscribe(topic, consumer_id, 100, subType="Failover", consumer_name=name, priority_level=priority)


def _expect_change(raw: RawConnection, is_active: bool) -> Frame:
    """The change comes; what is repeated before it does not matter (FO-5)."""
    while True:
        change = raw.expect("ACTIVE_CONSUMER_CHANGE")
        if change.fields.get("is_active", False) == is_active:
            return change


def _payloads(frames: list[Frame]) -> list[str]:
    return [(frame.payload or b"").decode() for frame in frames]


def _active_name(broker: Broker, topic: str) -> str:
    stats = broker.stats(topic)
    return str(stats["subscriptions"]["s"].get("activeConsumerName"))


def test_the_next_one_gets_what_is_unacked_and_all_that_follows(broker: Broker, topic: str) -> None:
    # covers FO-1, FO-2, FO-5, FO-6, FO-7
    send_numbers(broker, topic, 5)
    first, second = broker.raw(), broker.raw()
    _subscribe(first, topic, "a")
    _subscribe(second, topic, "b", priority=1)
    _expect_change(first, True)
    _expect_change(second, False)
    messages = first.expect_messages(5)
    assert _payloads(messages) == ["0", "1", "2", "3", "4"]
    first.ack(messages[2].id, kind="Cumulative")
    second.expect_no_message()
    first.close()
    _expect_change(second, True)
    again = second.expect_messages(2)
    assert _payloads(again) == ["3", "4"]
    assert all(not message.fields.get("redelivery_count") for message in again)
    send_numbers(broker, topic, 1)
    assert _payloads(second.expect_messages(1)) == ["0"]
    assert _active_name(broker, topic) == "b"


def test_a_joiner_of_better_priority_takes_over_and_acks_of_the_old_one_count(broker: Broker, topic: str) -> None:
    # covers FO-2, FO-6, FO-7
    send_numbers(broker, topic, 4)
    old, new = broker.raw(), broker.raw()
    _subscribe(old, topic, "b", priority=1)
    messages = old.expect_messages(4)
    _subscribe(new, topic, "a")
    old.ack(messages[0].id, messages[2].id)
    _expect_change(old, False)
    _expect_change(new, True)
    assert _payloads(new.expect_messages(2)) == ["1", "3"]
    old.expect_no_message()


def test_topics_without_partitions_are_spread_on_a_ring(broker: Broker, raw: RawConnection) -> None:
    # covers FO-4, X11
    for number, wanted in enumerate(("c", "a", "b", "b")):
        topic = f"persistent://public/default/fo-{number}"
        for index, name in enumerate(("a", "b", "c")):
            _subscribe(raw, topic, name, consumer_id=10 * number + index)
        assert _active_name(broker, topic) == wanted


def test_of_two_consumers_of_one_name_the_later_one_is_active(broker: Broker, topic: str) -> None:
    # covers FO-4
    first, second, third = (broker.raw() for _ in range(3))
    _subscribe(first, topic, "same")
    _expect_change(first, is_active=True)
    _subscribe(second, topic, "same")
    _expect_change(second, is_active=True)
    _subscribe(third, topic, "same")
    _expect_change(third, is_active=True)
    third.close()
    _expect_change(second, is_active=True)
    _expect_change(first, is_active=False)


def test_partitions_are_spread_over_the_consumers(broker: Broker) -> None:
    # covers FO-3, PT-1
    topic = broker.topic(partitions=3)
    consumers = [
        broker.client().subscribe(topic, "s", FAILOVER, consumer_name=name, initial_position=EARLIEST)
        for name in ("c", "a", "b")
    ]
    producer = broker.client().create_producer(
        topic, message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution
    )
    send_all(producer, [str(number) for number in range(9)])
    assert [_active_name(broker, f"{topic}-partition-{number}") for number in range(3)] == ["a", "b", "c"]
    everything = []
    for consumer in consumers:
        messages = receive(consumer, 3)
        assert len({message.message_id().partition() for message in messages}) == 1
        everything += texts(messages)
        expect_nothing(consumer)
    assert sorted(everything) == [str(number) for number in range(9)]


def test_the_client_hears_that_it_became_active_and_inactive(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers FO-5. The topic's name decides which of the two is active.
    _subscribe(raw, topic, "b")
    _expect_change(raw, True)
    _subscribe(raw, topic, "a", consumer_id=2, priority=0)
    raw.barrier()
    active = _active_name(broker, topic)
    leaving, staying = (1, 2) if active == "b" else (2, 1)
    raw.request("CLOSE_CONSUMER", consumer_id=leaving)
    while _expect_change(raw, True)["consumer_id"] != staying:
        pass
    assert _active_name(broker, topic) == ("a" if active == "b" else "b")


def test_a_crash_loses_nothing_and_keeps_the_order(broker: Broker, raw: RawConnection, topic: str) -> None:
    # covers FO-1, FO-7
    standing_by = broker.client().subscribe(topic, "s", FAILOVER, consumer_name="b", initial_position=EARLIEST)
    _subscribe(raw, topic, "a", priority=0)
    producer = broker.client().create_producer(topic)
    stop = threading.Event()
    sent: list[str] = []

    def publish() -> None:
        while not stop.is_set() or len(sent) < 300:
            send_all(producer, [str(len(sent))])
            sent.append(str(len(sent)))

    writer = threading.Thread(target=publish)
    writer.start()
    eventually(lambda: len(sent) > 100)
    raw.close()
    stop.set()
    writer.join()
    got = []
    while not got or got[-1] != int(sent[-1]):
        (message,) = receive(standing_by, 1)
        standing_by.acknowledge(message)
        got.append(int(message.data()))
    # It may have been active before; what comes again then begins at one place and goes on in order (FO-7).
    first_time = list(dict.fromkeys(got))
    assert first_time == list(range(len(sent)))
    assert sum(later < earlier for earlier, later in itertools.pairwise(got)) <= 2


def test_negative_acks_bring_everything_again_without_a_count(broker: Broker, topic: str) -> None:
    # covers NACK-2, RC-2, TMO-2
    consumer = broker.client().subscribe(
        topic, "s", FAILOVER, initial_position=EARLIEST, negative_ack_redelivery_delay_ms=100
    )
    send_numbers(broker, topic, 3)
    messages = receive(consumer, 3)
    consumer.negative_acknowledge(messages[1])
    again = receive(consumer, 3)
    assert texts(again) == ["0", "1", "2"]
    assert [message.redelivery_count() for message in again] == [0, 0, 0]


def test_seeking_moves_all_consumers(broker: Broker, topic: str) -> None:
    # covers CUR-11
    consumers = [broker.client().subscribe(topic, "s", FAILOVER, consumer_name=name) for name in ("a", "b")]
    send_numbers(broker, topic, 4)
    active = 0 if _active_name(broker, topic) == "a" else 1
    messages = receive(consumers[active], 4)
    consumers[active].acknowledge_cumulative(messages[-1])
    eventually(lambda: broker.backlog(topic) == 0)
    consumers[active].seek(pulsar.MessageId.earliest)
    assert receive_texts(consumers[active], 4) == ["0", "1", "2", "3"]


def test_a_reader_of_the_compacted_view_may_be_active(broker: Broker, topic: str) -> None:
    # covers CMP-C4, CMP-C5
    consumer = broker.client().subscribe(
        topic, "s", FAILOVER, initial_position=EARLIEST, is_read_compacted=True, receiver_queue_size=10
    )
    producer = broker.client().create_producer(topic, batching_enabled=False)
    for key, value in (("a", "1"), ("b", "1"), ("a", "2")):
        producer.send(value.encode(), partition_key=key)
    consumer.close()
    assert broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
    eventually(lambda: broker.rest("GET", f"{topic_path(topic)}/compaction")[1]["status"] == "SUCCESS", timeout_s=60)
    again = broker.client().subscribe(topic, "s", FAILOVER, is_read_compacted=True)
    assert receive_texts(again, 2) == ["1", "2"]
