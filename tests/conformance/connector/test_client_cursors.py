"""Our wire client and durable cursors: made, asked, moved and deleted without consuming.

Official consumers judge where they stand.
"""

from __future__ import annotations

import pulsar
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.model.errors import ConsumerBusy, TopicNotFound
from spark_pulsar.model.positions.ids import MessageId
from tests.brokers import Broker
from tests.conformance.exchange import receive


def _publish(broker: Broker, topic: str, batches: list[int]) -> None:
    """One entry for each number: a batch of so many messages `entry-index`."""
    official = broker.client()
    for number, size in enumerate(batches):
        producer = official.create_producer(
            topic, batching_enabled=True, batching_max_messages=max(size, 2), batching_max_publish_delay_ms=60_000
        )
        for index in range(size):
            producer.send_async(f"{number}-{index}".encode(), lambda result, message_id: None)
        producer.flush()
        producer.close()


def _next_values(broker: Broker, topic: str, subscription: str, count: int = 1) -> list[bytes]:
    """What a consumer of the subscription gets next, unacknowledged, never redelivered before."""
    consumer = broker.client().subscribe(topic, subscription)
    messages = receive(consumer, count)
    assert {message.redelivery_count() for message in messages} <= {0}
    consumer.close()
    return [message.data() for message in messages]


def _at(client: PulsarClient, topic: str, subscription: str = "s") -> tuple[int, int]:
    position = client.cursor_positions([topic], subscription)[topic]
    assert position.batch_index == -1
    return position.ledger_id, position.entry_id


def test_a_subscription_is_made_at_its_initial_position(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [1, 1])
    end = client.end_positions([topic])[topic]
    client.ensure_subscription([topic], "early", "earliest")
    client.ensure_subscription([topic], "late", "latest")
    assert _at(client, topic, "early") == (end.ledger_id, 0)
    assert _at(client, topic, "late") == (end.ledger_id, 2)
    client.ensure_subscription([topic], "early", "latest")  # exists: nothing happens
    assert _at(client, topic, "early") == (end.ledger_id, 0)
    assert _next_values(broker, topic, "early") == [b"0-0"]


def test_a_cursor_is_moved_to_the_next_entry_to_read(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [2, 2, 2, 2])
    end = client.end_positions([topic])[topic]
    ledger = end.ledger_id
    client.ensure_subscription([topic], "s", "earliest")
    for entry in (0, 1, 3):
        client.advance_cursors({topic: MessageId(ledger, entry)}, "s")
        assert _at(client, topic) == (ledger, entry)
        assert _next_values(broker, topic, "s") == [f"{entry}-0".encode()]
    client.advance_cursors({topic: MessageId(ledger, 1)}, "s")  # never backwards
    assert _at(client, topic) == (ledger, 3)
    client.advance_cursors({topic: end}, "s")
    assert _at(client, topic) == end[:2]
    _publish(broker, topic, [1])
    assert _next_values(broker, topic, "s") == [b"0-0"]


def test_a_cursor_is_moved_into_a_batch(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [3, 70, 3])
    ledger = client.end_positions([topic])[topic].ledger_id
    client.ensure_subscription([topic], "s", "earliest")
    client.advance_cursors({topic: MessageId(ledger, 1, -1, 65)}, "s")
    assert _at(client, topic) == (ledger, 1)
    values = [*(f"1-{index}".encode() for index in range(65, 70)), b"2-0"]
    assert _next_values(broker, topic, "s", 6) == values
    client.advance_cursors({topic: MessageId(ledger, 1, -1, 2)}, "s")  # never backwards
    assert _next_values(broker, topic, "s") == [b"1-65"]
    client.advance_cursors({topic: MessageId(ledger, 1, -1, 70)}, "s")  # behind its last message
    assert _at(client, topic) == (ledger, 2)


def test_a_missing_subscription_is_made_where_it_is_moved_to(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [1, 1, 1])
    ledger = client.end_positions([topic])[topic].ledger_id
    client.advance_cursors({topic: MessageId(ledger, 2)}, "s")
    assert _next_values(broker, topic, "s") == [b"2-0"]


def test_many_partitions_at_once(broker: Broker, client: PulsarClient) -> None:
    topics = client.partitions_of(broker.topic("many", partitions=20))
    for topic in topics[:3]:
        _publish(broker, topic, [1, 1])
    ends = client.end_positions(topics)
    client.ensure_subscription(topics, "s", "earliest")
    client.advance_cursors(ends, "s")
    positions = client.cursor_positions(topics, "s")
    for topic in topics[:3]:
        assert positions[topic] == ends[topic]


def test_unsubscribing(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [1, 1])
    ledger = client.end_positions([topic])[topic].ledger_id
    client.advance_cursors({topic: MessageId(ledger, 1)}, "s")
    client.unsubscribe([topic], "s")
    client.unsubscribe([topic], "s")  # not there: no error
    client.ensure_subscription([topic], "s", "earliest")
    assert _at(client, topic) == (ledger, 0)


def test_somebody_elses_subscription_is_busy(broker: Broker, topic: str, client: PulsarClient) -> None:
    _publish(broker, topic, [1])
    held = broker.client().subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    with pytest.raises(ConsumerBusy):
        client.cursor_positions([topic], "s")
    held.close()
    ledger = client.end_positions([topic])[topic].ledger_id
    assert _at(client, topic) == (ledger, 0)


def test_a_cursor_on_a_missing_topic(topic: str, client: PulsarClient) -> None:
    with pytest.raises(TopicNotFound):
        client.ensure_subscription([topic], "s")
    assert topic not in client.topics_of("public/default")
