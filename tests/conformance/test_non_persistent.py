"""Topics that keep nothing: who gets what, what is lost, what is refused."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive, receive_texts, send_all
from tests.conformance.test_namespaces import reason
from tests.eventually import eventually
from tests.raw import RawConnection

EXCLUSIVE, SHARED, FAILOVER = pulsar.ConsumerType.Exclusive, pulsar.ConsumerType.Shared, pulsar.ConsumerType.Failover


def _topic(broker: Broker) -> str:
    return "non-" + broker.topic("np")


def test_what_nobody_is_there_for_is_lost(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-1, NP-2
    topic = _topic(broker)
    producer = client.create_producer(topic)
    assert len(send_all(producer, ["a", "b", "c"])) == 3
    consumer = client.subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    send_all(producer, ["d"])
    (message,) = receive(consumer, 1)
    assert message.data() == b"d"
    consumer.acknowledge(message)
    consumer.close()
    send_all(producer, ["e"])
    expect_nothing(client.subscribe(topic, "s"))


def test_durable_or_not_makes_no_difference(broker: Broker, raw: RawConnection) -> None:
    # covers NP-8, TN-9
    topic = _topic(broker)
    for consumer_id, durable in enumerate((False, True, False)):
        raw.subscribe(topic, consumer_id, durable=durable)


@pytest.mark.parametrize("kind", [EXCLUSIVE, SHARED, FAILOVER, pulsar.ConsumerType.KeyShared])
def test_every_subscription_gets_everything(broker: Broker, client: pulsar.Client, kind: pulsar.ConsumerType) -> None:
    # covers NP-6, X3
    topic = _topic(broker)
    consumers = [client.subscribe(topic, name, kind) for name in ("a", "b")]
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=10)
    texts = [str(number) for number in range(30)]
    for text in texts:
        producer.send_async(text.encode(), lambda *_: None)
    producer.flush()
    for consumer in consumers:
        assert receive_texts(consumer, 30) == texts


def test_shared_consumers_share_and_exclusive_is_for_one(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-6, EX-1
    topic = _topic(broker)
    first, second = (client.subscribe(topic, "s", SHARED) for _ in range(2))
    producer = client.create_producer(topic)
    send_all(producer, [str(number) for number in range(20)])
    received = [receive_texts(consumer, 10) for consumer in (first, second)]
    assert sorted(received[0] + received[1], key=int) == [str(number) for number in range(20)]
    client.subscribe(topic, "alone")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe(topic, "alone")


def test_failover_goes_on_with_the_next_one(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-6, FO-1
    topic = _topic(broker)
    consumers = [client.subscribe(topic, "s", FAILOVER, consumer_name=name) for name in ("a", "b")]
    producer = client.create_producer(topic)

    def active() -> int | None:
        producer.send(b"x")
        for index, consumer in enumerate(consumers):
            try:
                consumer.receive(timeout_millis=50)
                return index
            except pulsar.Timeout:
                continue
        return None

    gone = eventually(lambda: (active() or 0) + 1) - 1
    consumers.pop(gone).close()
    assert eventually(lambda: active() == 0)


def test_without_permits_messages_are_dropped(broker: Broker, raw: RawConnection) -> None:
    # covers NP-3, SUB-4
    topic = _topic(broker)
    raw.produce(topic)
    raw.subscribe(topic, permits=5)
    raw.barrier()
    for number in range(20):
        raw.send_message(1, number, str(number).encode())
    assert [raw.expect("SEND_RECEIPT")["sequence_id"] for _ in range(20)] == list(range(20))
    assert [message.payload for message in raw.expect_messages(5)] == [str(number).encode() for number in range(5)]
    raw.flow(10)
    raw.expect_no_message()
    raw.send_message(1, 20, b"20")
    assert raw.expect("MESSAGE").payload == b"20"
    stats = broker.stats(topic)
    assert "msgDropRate" in stats
    assert "msgDropRate" in stats["publishers"][0]
    assert "msgDropRate" in stats["subscriptions"]["s"]
    assert (stats["msgInCounter"], stats["subscriptions"]["s"]["msgOutCounter"]) == (21, 6)
    assert (stats["subscriptions"]["s"]["msgBacklog"], stats["storageSize"], stats["backlogSize"]) == (0, 0, 0)


def test_the_past_has_without_effect(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-5, CUR-13
    topic = _topic(broker)
    consumer = client.subscribe(topic, "s", SHARED, negative_ack_redelivery_delay_ms=100)
    producer = client.create_producer(topic)
    send_all(producer, ["a"])
    (message,) = receive(consumer, 1)
    consumer.negative_acknowledge(message)
    expect_nothing(consumer, quiet_ms=600)
    consumer.seek(pulsar.MessageId.earliest)
    expect_nothing(consumer)
    with pytest.raises(pulsar.PulsarException):
        consumer.get_last_message_id()
    send_all(producer, ["b"])
    assert receive_texts(consumer, 1) == ["b"]


def test_partitions(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-7, PT-1
    topic = _topic(broker)
    assert broker.rest("PUT", f"{topic_path(topic)}/partitions", 3)[0] == 204
    consumer = client.subscribe(topic, "s", SHARED)
    mode = pulsar.PartitionsRoutingMode.RoundRobinDistribution
    producer = client.create_producer(topic, message_routing_mode=mode)
    send_all(producer, [str(number) for number in range(9)])
    messages = receive(consumer, 9)
    assert {message.message_id().partition() for message in messages} == {0, 1, 2}
    listed = broker.rest("GET", "/admin/v2/non-persistent/public/default/partitioned")[1]
    assert topic in listed
    assert broker.rest("GET", f"{topic_path(topic)}/partitions")[1]["partitions"] == 3
    status, stats = broker.rest("GET", f"{topic_path(topic)}/partitioned-stats")
    assert (status, stats["msgInCounter"]) == (200, 9)


def test_lists_show_what_is_in_use(broker: Broker, client: pulsar.Client) -> None:
    # covers NP-9
    namespace = broker.namespace()
    listing = f"/admin/v2/non-persistent/{namespace}"
    assert broker.rest("GET", listing) == (200, [])
    assert broker.rest("GET", f"{listing}/partitioned") == (200, [])
    topic = f"non-persistent://{namespace}/t"
    consumer = client.subscribe(topic, "s", SHARED)
    assert broker.rest("GET", listing) == (200, [topic])
    assert broker.rest("GET", f"/admin/v2/persistent/{namespace}") == (200, [])
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, ["s"])
    assert broker.rest("DELETE", topic_path(topic))[0] == 412
    consumer.close()
    assert broker.rest("DELETE", f"{topic_path(topic)}?force=true")[0] == 204
    assert broker.rest("DELETE", topic_path(topic))[0] == 204
    assert broker.rest("GET", listing) == (200, [])


def test_what_needs_stored_messages_is_refused(broker: Broker) -> None:
    # covers NP-9
    topic = _topic(broker)
    path = topic_path(topic)
    broker.client().subscribe(topic, "s", SHARED)
    refused = reason(broker.rest("PUT", f"{path}/subscription/other", "latest"))
    assert refused == (400, "Create subscription on non-persistent topic can only be done through client")
    for method, call in (
        ("POST", "subscription/s/expireMessages/1"),
        ("GET", "subscription/s/position/1"),
        ("GET", "lastMessageId"),
    ):
        status, text = reason(broker.rest(method, f"{path}/{call}"))
        assert (status, text.endswith("on a non-persistent topic is not allowed")) == (405, True), text
    assert broker.rest("POST", f"{path}/subscription/s/resetcursor/1")[0] == 204
    status, internal = broker.rest("GET", f"{path}/internalStats")
    assert (status, internal["numberOfEntries"], list(internal["cursors"])) == (200, 0, ["s"])


@pytest.mark.ours_only("NP-9: Apache Pulsar answers 500 with the text of a class cast")
def test_what_moves_a_position_is_refused_with_a_reason(broker: Broker) -> None:
    # covers NP-9
    topic = _topic(broker)
    path = topic_path(topic)
    broker.client().subscribe(topic, "s", SHARED)
    for method, call in (("POST", "subscription/s/skip/1"), ("POST", "subscription/s/skip_all"), ("PUT", "compaction")):
        status, text = reason(broker.rest(method, f"{path}/{call}"))
        assert (status, text.endswith("on a non-persistent topic is not allowed")) == (405, True), text


def test_a_flood_is_answered_in_order_and_what_is_dropped_is_told(broker: Broker, raw: RawConnection) -> None:
    # covers NP-2, NP-4: ours is done with each before it takes the next, so that none has to be dropped
    topic, count = _topic(broker), 3_000
    raw.produce(topic)
    for number in range(count):
        raw.send_message(1, number, b"x")
    receipts = [raw.expect("SEND_RECEIPT") for _ in range(count)]
    assert [each["sequence_id"] for each in receipts] == list(range(count))
    stored = [ledger for ledger, _ in (each.position for each in receipts)]
    # What is dropped because there is too much of it has no place.
    assert set(stored) == {0} if broker.kind == "ours" else {0} <= set(stored) <= {0, 2**64 - 1}
    stats = broker.stats(topic)
    assert stats["msgInCounter"] == stored.count(0)
