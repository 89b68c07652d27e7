"""Partitioned topics: which partition a message goes to, and order inside one."""

from __future__ import annotations

import pulsar

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, receive, send_all
from tests.eventually import eventually

MODES = pulsar.PartitionsRoutingMode


def _by_partition(messages: list[pulsar.Message]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for message in messages:
        found.setdefault(message.message_id().partition(), []).append(message.data().decode())
    return found


def test_round_robin_without_keys(broker: Broker, client: pulsar.Client) -> None:
    # covers EX-2, PT-2, PT-1
    topic = broker.topic(partitions=3)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, message_routing_mode=MODES.RoundRobinDistribution)
    ids = send_all(producer, [str(number) for number in range(30)])
    assert {each.partition() for each in ids} == {0, 1, 2}
    found = _by_partition(receive(consumer, 30))
    assert {partition: len(values) for partition, values in found.items()} == {0: 10, 1: 10, 2: 10}
    assert all(values == sorted(values, key=int) for values in found.values())


def test_a_single_partition_without_keys(broker: Broker, client: pulsar.Client) -> None:
    # covers PT-3
    topic = broker.topic(partitions=3)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(topic, message_routing_mode=MODES.UseSinglePartition)
    send_all(producer, [str(number) for number in range(12)])
    assert list(_by_partition(receive(consumer, 12)).values()) == [[str(number) for number in range(12)]]


def test_a_key_stays_on_its_partition_in_order(broker: Broker, client: pulsar.Client) -> None:
    # covers PT-4, PT-6
    topic = broker.topic(partitions=4)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    for mode in (MODES.RoundRobinDistribution, MODES.UseSinglePartition):
        producer = client.create_producer(topic, message_routing_mode=mode)
        for number in range(40):
            producer.send(str(number).encode(), partition_key=f"k{number % 8}")
        partitions: dict[str, set[int]] = {}
        values: dict[str, list[int]] = {}
        for message in receive(consumer, 40):
            key = message.partition_key()
            partitions.setdefault(key, set()).add(message.message_id().partition())
            values.setdefault(key, []).append(int(message.data()))
        assert all(len(used) == 1 for used in partitions.values())
        assert all(each == sorted(each) for each in values.values())
        assert len(set.union(*partitions.values())) > 1


def test_a_router_of_the_application(broker: Broker, client: pulsar.Client) -> None:
    # covers PT-5
    topic = broker.topic(partitions=3)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    producer = client.create_producer(
        topic,
        message_routing_mode=MODES.CustomPartition,
        message_router=lambda message, partitions: len(message.data()) % partitions,
    )
    send_all(producer, ["", "x", "xx", "xxx"])
    assert _by_partition(receive(consumer, 4)) == {0: ["", "xxx"], 1: ["x"], 2: ["xx"]}


def test_a_consumer_of_a_partitioned_topic_acks_and_seeks_them_all(broker: Broker, client: pulsar.Client) -> None:
    # covers PT-1, CUR-11
    topic = broker.topic(partitions=3)
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST)
    send_all(client.create_producer(topic), [str(number) for number in range(9)])
    for message in receive(consumer, 9):
        consumer.acknowledge(message)
    consumer.seek(0)
    assert sorted(message.data() for message in receive(consumer, 9)) == [str(number).encode() for number in range(9)]


def test_partitions_share_out_the_queue_of_a_consumer(broker: Broker, client: pulsar.Client) -> None:
    # covers PT-8
    topic = broker.topic(partitions=4)
    client.subscribe(topic, "small", receiver_queue_size=1_000, max_total_receiver_queue_size_across_partitions=200)
    client.subscribe(topic, "large", receiver_queue_size=20, max_total_receiver_queue_size_across_partitions=200)
    send_all(client.create_producer(topic, message_routing_mode=MODES.RoundRobinDistribution), ["x"] * 4)

    def permits(name: str) -> list[int]:
        stats = broker.rest("GET", f"{topic_path(topic)}/partitioned-stats?perPartition=true")[1]["partitions"].values()
        (found,) = zip(*(each["subscriptions"][name]["consumers"] for each in stats), strict=True)
        return [each["availablePermits"] for each in found]

    # One message of each partition lies in the queue.
    assert eventually(lambda: permits("small") == [49] * 4)
    assert permits("large") == [19] * 4
