"""Rates over the last interval, of topics, producers, subscriptions and consumers (ST-7)."""

import pytest

from spark_pulsar.admin.http.slices import finish
from spark_pulsar.admin.topics.partitioned_stats import partitioned_stats
from spark_pulsar.admin.topics.topic_stats import EVERYTHING, publisher_stats, subscription_stats_in_steps, topic_stats
from spark_pulsar.broker.entities.meters import Delivered, Published, consumed, delivered, published
from spark_pulsar.model.positions.ids import Position
from spark_pulsar.wire.protocol import requests
from spark_pulsar.wire.pulsar_api_pb2 import BaseCommand, CommandConsumerStats, CommandSubscribe
from tests.unit.broker.dispatch.test_chunks import send_chunks
from tests.unit.broker.world import TOPIC, Client, World, entry, positions_of, producing

EVERY_MS = 10_000


def world_with_rates(**config: int) -> World:
    return World(stats_interval_ms=EVERY_MS, **config)


def measured(kind: int = CommandSubscribe.Exclusive, topic: str = TOPIC) -> tuple[World, Client]:
    """A client with a producer and a consumer."""
    world = world_with_rates()
    client = world.connect_producer(topic)
    client.open_consumer(topic=topic, permits=1_000, subscription_type=kind)
    return world, client


def test_a_rate_is_that_of_the_last_interval() -> None:
    # covers ST-7
    world, client = measured()
    world.advance(EVERY_MS)
    topic = world.core.topics[TOPIC]
    assert (published(topic), topic_stats(world.core, topic)["averageMsgSize"]) == (Published(), 0.0)
    client.publish(1, *(entry("x" * 100) for _ in range(50)))
    assert published(topic) == Published(), "the interval is not over"
    world.advance(EVERY_MS)
    stats = topic_stats(world.core, topic)
    assert (stats["msgRateIn"], stats["msgRateOut"]) == (5.0, 5.0)
    assert stats["msgThroughputIn"] == stats["msgThroughputOut"] == topic.bytes_in / 10
    assert stats["averageMsgSize"] == pytest.approx(topic.bytes_in / 50)
    [publisher] = stats["publishers"]
    assert (publisher["msgRateIn"], publisher["averageMsgSize"]) == (5.0, stats["averageMsgSize"])
    subscription = stats["subscriptions"]["s"]
    [consumer] = subscription["consumers"]
    for each in (subscription, consumer):
        assert (each["msgRateOut"], each["msgThroughputOut"]) == (5.0, stats["msgThroughputOut"])
    world.advance(EVERY_MS)
    stats = topic_stats(world.core, topic)
    assert {stats[name] for name in ("msgRateIn", "msgRateOut", "msgThroughputIn", "averageMsgSize")} == {0.0}
    assert stats["msgInCounter"] == 50


@pytest.mark.parametrize("kind", [CommandSubscribe.Exclusive, CommandSubscribe.Shared, CommandSubscribe.Key_Shared])
def test_chunks_are_counted_beside(kind: int) -> None:
    # covers ST-7 (chunkedMessageRate)
    world, client = measured(kind)
    client.publish(1, entry("x"))
    world.advance(EVERY_MS)
    send_chunks(client, "a0", "plain", "b0", "a1", "xxx", "a2", "b1", "b2")
    client.publish(1, entry("\xe8\x01"))
    world.advance(EVERY_MS)
    stats = topic_stats(world.core, world.core.topics[TOPIC])
    [publisher], subscription = stats["publishers"], stats["subscriptions"]["s"]
    [consumer] = subscription["consumers"]
    assert [each["chunkedMessageRate"] for each in (publisher, subscription, consumer)] == [0.6, 0.6, 0.6]
    assert (publisher["msgRateIn"], consumer["msgRateOut"]) == (0.9, 0.9)
    world.advance(EVERY_MS)
    stats = finish(partitioned_stats(world.core, 1, [world.core.topics[TOPIC]]))
    assert stats["subscriptions"]["s"]["chunkedMessageRate"] == 0.0


def test_chunks_of_a_non_persistent_topic_are_counted_too() -> None:
    # covers ST-7 (chunkedMessageRate, msgChunkPublished)
    name = TOPIC.replace("persistent", "non-persistent")
    world, client = measured(topic=name)
    world.advance(EVERY_MS)
    send_chunks(client, "a0", "a1", "a2")
    world.advance(EVERY_MS)
    stats = topic_stats(world.core, world.core.topics[name])
    assert stats["msgChunkPublished"]
    assert stats["publishers"][0]["chunkedMessageRate"] == stats["subscriptions"]["s"]["chunkedMessageRate"] == 0.3


def test_holes_of_a_durable_subscription_have_a_size() -> None:
    # covers ST-6 (nonContiguousDeletedMessagesRangesSerializedSize)
    world = World()
    client, feeder = world.connect(), world.connect_producer()
    client.open_consumer(permits=10, subscription_type=CommandSubscribe.Shared)
    feeder.publish(1, *[entry("x")] * 10)
    positions = positions_of(client.deliveries())
    client.ack(positions[1::2][:4])
    stats = topic_stats(world.core, world.core.topics[TOPIC])
    for each in (stats, stats["subscriptions"]["s"]):
        assert each["nonContiguousDeletedMessagesRanges"] == 4
        assert each["nonContiguousDeletedMessagesRangesSerializedSize"] == 64


def test_what_came_within_the_interval_is_measured_from_its_coming() -> None:
    # covers ST-7
    world = world_with_rates()
    world.connect_producer()
    world.advance(EVERY_MS - 2_000)
    late = world.connect_producer(producer_id=2, name="late")
    late.publish(2, entry("a"), entry("b"))
    world.advance(2_000)
    topic = world.core.topics[TOPIC]
    assert publisher_stats(topic.producers["late"])["msgRateIn"] == 1.0
    assert published(topic).messages == 0.2


def test_acks_redeliveries_and_batches_are_counted_in_messages() -> None:
    # covers ST-7 (messageAckRate, msgRateRedeliver), ST-10
    world, client = measured(CommandSubscribe.Shared)
    client.publish(1, *(entry("x", batch=10) for _ in range(4)), messages=10)
    client.send(requests.ack(1, [Position(1, 0), Position(1, 1)]))
    client.send(requests.redeliver(1, [Position(1, 2)]))
    world.advance(EVERY_MS)
    [consumer] = world.subscription().consumers
    rate = consumed(consumer)
    assert (rate.messages, rate.acked, rate.redelivered) == (5.0, 2.0, 1.0)
    stats = finish(subscription_stats_in_steps(consumer.subscription, EVERYTHING))
    assert stats["consumers"][0]["avgMessagesPerEntry"] == 10
    assert (stats["messageAckRate"], stats["msgRateRedeliver"]) == (2.0, 1.0)
    command = BaseCommand(type=BaseCommand.CONSUMER_STATS)
    command.consumerStats.CopyFrom(CommandConsumerStats(request_id=9, consumer_id=1))
    client.take_all()
    told = client.request(command, BaseCommand.CONSUMER_STATS_RESPONSE)
    assert (told.msgRateOut, told.messageAckRate, told.msgRateRedeliver) == (5.0, 2.0, 1.0)


def test_a_cumulative_ack_counts_as_one() -> None:
    # covers ST-7 (messageAckRate), as Apache Pulsar counts
    world, client = measured()
    client.publish(1, *(entry("x") for _ in range(10)))
    client.send(requests.ack(1, [Position(1, 9)], cumulative=True))
    world.advance(EVERY_MS)
    subscription = world.subscription()
    assert consumed(subscription.consumers[0]).acked == 0.1
    stats = finish(subscription_stats_in_steps(subscription, EVERYTHING))
    assert stats["lastMarkDeleteAdvancedTimestamp"] == stats["lastAckedTimestamp"] == world.now_ms - EVERY_MS


def test_expired_entries_have_a_rate() -> None:
    # covers ST-7 (msgRateExpired)
    world, client = producing(stats_interval_ms=EVERY_MS, default_message_ttl_s=5)
    client.open_consumer(permits=0)
    client.publish(1, *(entry("x") for _ in range(10)))
    world.advance(EVERY_MS)
    subscription = world.subscription()
    assert delivered(subscription) == Delivered(expired=1.0)


def test_times_and_counters_outlive_who_made_them() -> None:
    # covers ST-9
    world = world_with_rates()
    client = world.connect_producer()
    client.open_consumer(permits=10)
    client.open_consumer(consumer_id=2, subscription="other", permits=10)
    client.publish(1, entry("x"))
    client.send(requests.ack(1, [Position(1, 0)]))
    at_ms = world.now_ms
    client.send(requests.close_consumer(client.request_id(), 1), requests.unsubscribe(client.request_id(), 2))
    world.advance(EVERY_MS)
    stats = topic_stats(world.core, world.core.topics[TOPIC])
    assert (stats["msgOutCounter"], stats["lastPublishTimeStamp"]) == (2, at_ms)
    subscription = stats["subscriptions"]["s"]
    assert subscription["consumers"] == []
    for name in ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp"):
        assert subscription[name] == at_ms, name


def test_many_topics_are_sampled_some_in_a_turn() -> None:
    # covers ST-7
    world = world_with_rates()
    client = world.connect()
    for number in range(200):
        client.open_producer(producer_id=number, topic=f"{TOPIC}{number}")
        client.store(number, entry("x"))
    world.advance(EVERY_MS + 10)
    rates = [published(topic).messages for topic in world.core.topics.values()]
    assert len(rates) == 200
    assert rates == pytest.approx([0.1] * 200, rel=0.01)
