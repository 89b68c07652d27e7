"""Subscriptions of every type by the official Go client."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.clients.go_client import (
    BY_KEY,
    EXCLUSIVE,
    FAILOVER,
    IN_BATCHES,
    IN_ONE_BATCH,
    KEY_SHARED,
    MS,
    SHARED,
    STICKY,
    GoClient,
    GoError,
    Message,
    share_out,
    texts,
)
from tests.clients.stats import backlog, stats
from tests.eventually import eventually

TYPES = pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED], ids=str)
NUMBERS = [str(number) for number in range(20)]


@TYPES
@pytest.mark.parametrize("partitions", [0, 3])
def test_every_message_comes_and_its_ack_stays(broker: Broker, go: GoClient, type_: int, partitions: int) -> None:
    # covers EX-2, EX-4, SH-4, FO-1, KS-1, ACK-1, ACK-4, PT-1
    topic = broker.topic(partitions=partitions)
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True)
    go.producer(topic).send(*[{"Payload": each, "Key": each} for each in NUMBERS])
    messages = consumer.receive(20)
    assert sorted(texts(messages), key=int) == NUMBERS
    consumer.ack(*messages[:15])
    consumer.close()
    again = go.consumer(topic, type_=type_, AckWithResponse=True)
    rest = again.receive(5)
    assert set(texts(rest)) == set(NUMBERS) - set(texts(messages[:15]))
    again.ack(*rest)
    assert again.receive_up_to(1) == []
    assert backlog(broker, topic, "s", partitions) == 0


@TYPES
def test_cumulative_acks_are_for_types_with_one_consumer(topic: str, go: GoClient, type_: int) -> None:
    # covers ACK-2, SH-5, KS-12
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True)
    go.producer(topic).send(*NUMBERS[:5])
    messages = consumer.receive(5)
    if type_ in (SHARED, KEY_SHARED):
        with pytest.raises(GoError, match="cumulative"):
            consumer.ack(messages[2], cumulative=True)
        return
    consumer.ack(messages[2], cumulative=True)
    consumer.close()
    assert texts(go.consumer(topic, type_=type_).receive(2)) == ["3", "4"]


def test_failover_has_one_active_consumer_and_hands_over_in_order(topic: str, go: GoClient) -> None:
    # covers FO-1, FO-5, SUB-9
    both = {name: go.consumer(topic, type_=FAILOVER, Name=name, AckWithResponse=True) for name in "ab"}

    def active() -> list[str]:
        told = {name: each.changes()[-1:] for name, each in both.items()}
        names = [name for name, last in told.items() if last == [f"{topic} active"]]
        return names if all(told.values()) and len(names) == 1 else []

    (name,) = eventually(active)
    go.producer(topic).send(*NUMBERS[:6])
    first = both.pop(name)
    messages = first.receive(6)
    first.ack(*messages[:2])
    (second,) = both.values()
    assert second.receive_up_to(1) == []
    first.close()
    assert texts(second.receive(4)) == NUMBERS[2:6]
    eventually(lambda: second.changes()[-1] == f"{topic} active")


def test_partitions_of_failover_are_shared_out(broker: Broker, go: GoClient) -> None:
    # covers FO-3
    topic = broker.topic(partitions=4)
    both = [go.consumer(topic, type_=FAILOVER, Name=name) for name in "ab"]

    def active() -> list[set[str]]:
        told = [dict(each.split() for each in consumer.changes()) for consumer in both]
        return [{partition for partition, state in last.items() if state == "active"} for last in told]

    def shared_out() -> bool:
        mine, others = active()
        return len(mine) == len(others) == 2 and not mine & others

    eventually(shared_out, timeout_s=60)
    go.producer(topic).send(*[{"Payload": each, "Key": each} for each in NUMBERS])
    came = share_out(both, 20)
    assert all(came)
    assert sorted(texts([*came[0], *came[1]]), key=int) == NUMBERS
    assert [{each.topic for each in messages} for messages in came] == active()


def _by_key(messages: list[Message]) -> dict[str, list[str]]:
    by_key: dict[str, list[str]] = {}
    for each in messages:
        by_key.setdefault(each.key, []).append(each.text)
    return by_key


@pytest.mark.parametrize("batches", [False, True])
def test_key_shared_keeps_each_key_at_one_consumer_and_in_order(topic: str, go: GoClient, batches: bool) -> None:
    # covers KS-1, KS-2, BAT-6
    consumers = [go.consumer(topic, type_=KEY_SHARED) for _ in range(3)]
    producer = go.producer(topic, **(BY_KEY if batches else {}))
    sent = [{"Payload": str(number), "Key": f"k{number % 12}"} for number in range(120)]
    producer.send(*sent)
    came = share_out(consumers, 120)
    assert sum(map(len, came)) == 120
    keys = [_by_key(messages) for messages in came]
    assert sum(map(len, keys)) == 12
    for by_key in keys:
        assert all(values == sorted(values, key=int) for values in by_key.values())


def test_sticky_consumers_take_the_ranges_they_name(topic: str, go: GoClient) -> None:
    # covers KS-7, KS-8

    def sticky(*ranges: int) -> dict[str, object]:
        return {"KeySharedPolicy": {"Mode": STICKY, "HashRanges": list(ranges)}}

    low = go.consumer(topic, type_=KEY_SHARED, **sticky(0, 32767))
    with pytest.raises(GoError, match=r"overlap|conflict|ConsumerAssignError|range"):
        go.consumer(topic, type_=KEY_SHARED, **sticky(32000, 40000))
    high = go.consumer(topic, type_=KEY_SHARED, **sticky(32768, 65535))
    go.producer(topic).send(*[{"Payload": each, "Key": each} for each in NUMBERS])
    came = share_out((low, high), 20)
    assert all(came)
    assert sorted(texts([*came[0], *came[1]]), key=int) == NUMBERS


def test_parts_of_a_batch_are_acknowledged(topic: str, go: GoClient) -> None:
    # covers ACK-9
    options = {"type_": SHARED, "EnableBatchIndexAcknowledgment": True, "AckWithResponse": True}
    consumer = go.consumer(topic, **options)
    go.producer(topic, **IN_ONE_BATCH).send(*NUMBERS[:6])
    messages = consumer.receive(6)
    assert len({each.position[:2] for each in messages}) == 1
    consumer.ack(*messages[::2])
    consumer.close()
    again = go.consumer(topic, **options)
    assert texts(again.receive(3)) == ["1", "3", "5"]
    assert again.receive_up_to(1) == []


def test_a_consumer_without_a_queue_takes_one_at_a_time(topic: str, go: GoClient) -> None:
    # covers SUB-4 (permits of a client without a queue)
    one = go.consumer(topic, type_=SHARED, EnableZeroQueueConsumer=True)
    other = go.consumer(topic, type_=SHARED, EnableZeroQueueConsumer=True)
    go.producer(topic).send("0", "1", "2")
    assert texts(one.receive(1)) == ["0"]
    assert texts(other.receive(2)) == ["1", "2"]


def test_subscriptions_and_consumers_have_properties(broker: Broker, topic: str, go: GoClient) -> None:
    # covers CUR-19, ST-6
    go.consumer(topic, Name="me", Properties={"a": "1"}, SubscriptionProperties={"b": "2"})
    shown = stats(broker, topic)["subscriptions"]["s"]
    assert shown["subscriptionProperties"] == {"b": "2"}
    (consumer,) = shown["consumers"]
    assert (consumer["consumerName"], consumer["metadata"]) == ("me", {"a": "1"})
    assert consumer["clientVersion"].startswith("Pulsar-Go-")


@pytest.mark.parametrize("batched", [False, True])
def test_a_queue_that_grows_by_itself_gets_everything(topic: str, go: GoClient, batched: bool) -> None:
    # covers SUB-4 (permits one by one at first, more and more later)
    consumer = go.consumer(topic, EnableAutoScaledReceiverQueueSize=True)
    sent = [str(number) for number in range(2_000)]
    go.producer(topic, **(IN_BATCHES if batched else {})).send(*sent)
    assert texts(consumer.receive(2_000)) == sent


def test_acks_up_to_a_message_inside_a_batch_stay(broker: Broker, topic: str, go: GoClient) -> None:
    # covers ACK-9, ACK-10
    options = {"EnableBatchIndexAcknowledgment": True, "AckWithResponse": True}
    consumer = go.consumer(topic, **options)
    go.producer(topic, **IN_ONE_BATCH).send(*NUMBERS[:10])
    consumer.ack(consumer.receive(10)[3], cumulative=True)
    consumer.close()
    again = go.consumer(topic, **options)
    messages = again.receive(6)
    assert texts(messages) == NUMBERS[4:10]
    again.ack(messages[-1], cumulative=True)
    assert backlog(broker, topic, "s") == 0


@TYPES
def test_acks_that_are_gathered_arrive(broker: Broker, topic: str, go: GoClient, type_: int) -> None:
    # covers ACK-8
    consumer = go.consumer(topic, type_=type_)
    go.producer(topic, **IN_BATCHES).send(*NUMBERS)
    consumer.ack(*consumer.receive(20))
    eventually(lambda: backlog(broker, topic, "s") == 0)


# ---- letters


def test_a_message_that_fails_too_often_becomes_a_dead_letter(broker: Broker, topic: str, go: GoClient) -> None:
    # covers DLQ-1, DLQ-2, DLQ-4, DLQ-5, PR-18
    dead = f"{topic}-dead"
    policy = {"MaxDeliveries": 2, "DeadLetterTopic": dead, "InitialSubscriptionName": "kept"}
    consumer = go.consumer(topic, type_=SHARED, NackRedeliveryDelay=100 * MS, DLQ=policy)
    go.producer(topic).send({"Payload": "bad", "Key": "k", "Properties": {"p": "1"}})
    for times in range(2):
        (message,) = consumer.receive(1)
        assert message.redeliveries == times
        consumer.nack(message)
    (letter,) = go.consumer(dead, "kept", SHARED).receive(1)
    assert (letter.text, letter.key, letter.properties["p"]) == ("bad", "k", "1")
    assert letter.properties["REAL_TOPIC"] == topic
    assert letter.properties["ORIGIN_MESSAGE_ID"]
    eventually(lambda: backlog(broker, topic, "s") == 0)


def test_a_message_is_retried_through_its_letter(broker: Broker, topic: str, go: GoClient) -> None:
    # covers RLQ-1, RLQ-2, RLQ-3, RLQ-4, DLQ-6
    policy = {"MaxDeliveries": 2, "InitialSubscriptionName": "kept"}
    consumer = go.consumer(topic, type_=SHARED, RetryEnable=True, DLQ=policy)
    go.producer(topic).send({"Payload": "bad", "Properties": {"p": "1"}})
    (message,) = consumer.receive(1)
    for times in range(1, 3):
        consumer.later(message, delay_ms=200, more=str(times))
        (message,) = consumer.receive(1)
        assert message.topic == f"{topic}-s-RETRY"
        said = {name: message.properties[name] for name in ("RECONSUMETIMES", "DELAY_TIME", "REAL_TOPIC", "p", "more")}
        assert said == {
            "RECONSUMETIMES": str(times),
            "DELAY_TIME": "200",
            "REAL_TOPIC": topic,
            "p": "1",
            "more": str(times),
        }
    consumer.later(message, delay_ms=200)
    (letter,) = go.consumer(f"{topic}-s-DLQ", "kept", SHARED).receive(1)
    assert (letter.text, letter.properties["p"]) == ("bad", "1")
    eventually(lambda: backlog(broker, topic, "s") == 0)
    eventually(lambda: backlog(broker, f"{topic}-s-RETRY", "s") == 0)
