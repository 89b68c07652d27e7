"""A broker that keeps no batch indexes (`acknowledgmentAtBatchIndexLevelEnabled=false`): a batch is acked
whole or not at all."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker
from tests.conformance.exchange import receive, receive_texts, send_batched, texts
from tests.conformance.test_admin_cursors import backlog

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
ABCD = ["a", "b", "c", "d"]


def _subscribed(switched_broker: Broker, **settings: object) -> tuple[pulsar.Client, str, pulsar.Consumer]:
    topic, client = switched_broker.topic(), switched_broker.client()
    return client, topic, client.subscribe(topic, "s", initial_position=EARLIEST, **settings)


@pytest.mark.parametrize("indexes", [False, True], ids=["client groups them", "client asks for single ones"])
def test_part_of_a_batch_is_not_acked(switched_broker: Broker, indexes: bool) -> None:
    # covers ACK-9 (switch off), BAT-5, CUR-3
    client, topic, consumer = _subscribed(switched_broker, consumer_type=SHARED, batch_index_ack_enabled=indexes)
    send_batched(client, topic, ABCD)
    send_batched(client, topic, ABCD)
    messages = receive(consumer, 8)
    for message in [*messages[:3], *messages[4:]]:
        consumer.acknowledge(message)
    consumer.close()
    again = client.subscribe(topic, "s", SHARED)
    assert receive_texts(again, 4) == ABCD
    assert backlog(switched_broker, topic) == 1, "with its last message the second batch was acked whole"


def test_a_cumulative_ack_inside_a_batch_acks_what_is_before_it(switched_broker: Broker) -> None:
    # covers ACK-9 (switch off), ACK-10
    client, topic, consumer = _subscribed(switched_broker)
    send_batched(client, topic, ["0", "1"])
    send_batched(client, topic, ABCD)
    consumer.acknowledge_cumulative(receive(consumer, 6)[3])
    consumer.close()
    assert texts(receive(client.subscribe(topic, "s"), 4)) == ABCD
    assert backlog(switched_broker, topic) == 1


def test_raw_bit_sets_are_ignored(switched_broker: Broker) -> None:
    # covers ACK-9 (switch off: nothing is removed even when all bits were acked one by one)
    client, topic, consumer = _subscribed(switched_broker, consumer_type=SHARED)
    consumer.close()
    (message_id, *_) = send_batched(client, topic, ABCD)
    raw = switched_broker.raw()
    raw.request("LOOKUP", topic=topic)
    raw.request("SUBSCRIBE", topic=topic, subscription="s", subType="Shared", consumer_id=1)
    place = {"ledgerId": message_id.ledger_id(), "entryId": message_id.entry_id(), "batch_size": 4}
    for bits in (0b1110, 0b1101, 0b1011, 0b0111):
        ids = [{**place, "ack_set": [bits]}]
        assert raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=ids).type == "ACK_RESPONSE"
    assert backlog(switched_broker, topic) == 1
    ids = [{"ledgerId": place["ledgerId"], "entryId": place["entryId"]}]
    assert raw.request("ACK", consumer_id=1, ack_type="Individual", message_id=ids).type == "ACK_RESPONSE"
    assert backlog(switched_broker, topic) == 0
