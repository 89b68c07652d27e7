"""WebSockets that consume, on both brokers; the official client publishes, or another WebSocket."""

from __future__ import annotations

import base64
import json
from typing import Any

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.exchange import send_all
from tests.eventually import eventually
from tests.websocket import decoded, encoded, opened, path_of, refused


def _producer(broker: Broker, topic: str, **settings: Any) -> Any:
    return broker.client().create_producer(topic, **settings)


def _send(broker: Broker, topic: str, *texts: str) -> None:
    send_all(_producer(broker, topic), texts)


def test_a_message_arrives_with_all_that_it_has(broker: Broker, topic: str) -> None:
    # covers WS-4, WS-10
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        producer = _producer(broker, topic)
        sent = producer.send(b"\x00\xff", properties={"a": "b"}, partition_key="k", event_timestamp=1706695200120)
        producer.send(b"plain")
        rich, plain = consumer.receive(), consumer.receive()
    assert {name: rich[name] for name in rich if name not in ("messageId", "publishTime")} == {
        "payload": "AP8=",
        "properties": {"a": "b"},
        "redeliveryCount": 0,
        "eventTime": "2024-01-31T10:00:00.12Z",
        "key": "k",
    }
    assert sorted(plain) == ["messageId", "payload", "properties", "publishTime", "redeliveryCount"]
    found = pulsar.MessageId.deserialize(base64.b64decode(rich["messageId"]))
    assert (found.ledger_id(), found.entry_id()) == (sent.ledger_id(), sent.entry_id())


@pytest.mark.parametrize("compression", ["NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"])
def test_batches_are_opened(broker: Broker, topic: str, compression: str) -> None:
    # covers WS-4, WS-10
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        producer = _producer(
            broker,
            topic,
            batching_enabled=True,
            batching_max_publish_delay_ms=1000,
            compression_type=getattr(pulsar.CompressionType, compression),
        )
        for index in range(10):
            producer.send_async(f"m{index}".encode(), lambda *_: None, partition_key=f"k{index}")
        producer.flush()
        messages = [consumer.receive() for _ in range(10)]
        assert [decoded(each) for each in messages] == [f"m{index}" for index in range(10)]
        assert [each["key"] for each in messages] == [f"k{index}" for index in range(10)]
        ids = [pulsar.MessageId.deserialize(base64.b64decode(each["messageId"])) for each in messages]
        assert [each.batch_index() for each in ids] == list(range(10))
        for each in messages[:-1]:
            consumer.send({"messageId": each["messageId"]})
        consumer.send({"type": "isEndOfTopic"})
        consumer.receive()
        assert broker.subscription(topic)["msgBacklog"] > 0
        consumer.send({"messageId": messages[-1]["messageId"]})
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 0)


def test_a_chunked_message_is_one(broker: Broker, topic: str) -> None:
    # covers WS-10
    payload = bytes(range(256)) * 24_000
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        _producer(broker, topic, chunking_enabled=True, batching_enabled=False).send(payload)
        message = consumer.receive()
        assert base64.b64decode(message["payload"]) == payload
        consumer.send({"messageId": message["messageId"]})
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 0)


def test_acknowledged_messages_do_not_come_again(broker: Broker, topic: str) -> None:
    # covers WS-11
    path = path_of("consumer", topic, "s", subscriptionInitialPosition="Earliest")
    _send(broker, topic, *(f"m{index}" for index in range(4)))
    with opened(broker, path) as consumer:
        messages = [consumer.receive() for _ in range(4)]
        consumer.send({"messageId": messages[0]["messageId"]})
        consumer.send({"type": "ack", "messageId": messages[2]["messageId"]})  # of a type that is not known
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 2)
    with opened(broker, path) as consumer:
        assert [decoded(consumer.receive()) for _ in range(2)] == ["m1", "m3"]
        # An id of an earlier WebSocket counts.
        consumer.send({"messageId": messages[1]["messageId"]})
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 1)


def test_a_refused_message_comes_again(broker: Broker, topic: str) -> None:
    # covers WS-11
    query = {"subscriptionType": "Shared", "negativeAckRedeliveryDelay": 200}
    with opened(broker, path_of("consumer", topic, "s", **query)) as consumer:
        _send(broker, topic, "a", "b", "c")
        messages = [consumer.receive() for _ in range(3)]
        consumer.send({"type": "negativeAcknowledge", "messageId": messages[1]["messageId"]})
        again = consumer.receive()
        assert (decoded(again), again["redeliveryCount"]) == ("b", 1)


def test_what_is_refused_on_an_exclusive_subscription_comes_again_in_order(broker: Broker, topic: str) -> None:
    # covers WS-11
    with opened(broker, path_of("consumer", topic, "s", negativeAckRedeliveryDelay=200)) as consumer:
        _send(broker, topic, "a", "b", "c")
        messages = [consumer.receive() for _ in range(3)]
        consumer.send({"messageId": messages[0]["messageId"]})
        consumer.send({"type": "negativeAcknowledge", "messageId": messages[1]["messageId"]})
        assert [decoded(consumer.receive()) for _ in range(2)] == ["b", "c"]


def test_a_message_without_an_acknowledgement_comes_again_after_the_timeout(broker: Broker, topic: str) -> None:
    # covers WS-11
    with opened(broker, path_of("consumer", topic, "s", subscriptionType="Shared", ackTimeoutMillis=1000)) as consumer:
        _producer(broker, topic).send(b"a")
        assert consumer.receive()["redeliveryCount"] == 0
        assert consumer.receive()["redeliveryCount"] == 1


def test_no_more_than_the_queue_is_sent_without_acknowledgements(broker: Broker, topic: str) -> None:
    # covers WS-12
    with opened(broker, path_of("consumer", topic, "s", receiverQueueSize=3)) as consumer:
        producer = _producer(broker, topic, batching_enabled=True, batching_max_publish_delay_ms=500)
        for index in range(10):
            producer.send_async(f"m{index}".encode(), lambda *_: None)
        producer.flush()
        messages = [consumer.receive() for _ in range(3)]
        consumer.receive_nothing()
        for each in messages:
            consumer.send({"messageId": each["messageId"]})
        messages = [consumer.receive() for _ in range(3)]
        consumer.receive_nothing()
        assert [decoded(each) for each in messages] == ["m3", "m4", "m5"]


def test_a_client_that_pulls_gets_what_it_permits(broker: Broker, topic: str) -> None:
    # covers WS-12
    with opened(broker, path_of("consumer", topic, "s", pullMode="true")) as consumer:
        _send(broker, topic, *(f"m{index}" for index in range(5)))
        consumer.receive_nothing()
        consumer.send({"type": "permit", "permitMessages": 2})
        messages = [consumer.receive() for _ in range(2)]
        consumer.receive_nothing()
        consumer.send({"messageId": messages[0]["messageId"]})
        consumer.receive_nothing()
        consumer.send({"type": "permit", "permitMessages": 100})
        assert [decoded(consumer.receive()) for _ in range(3)] == ["m2", "m3", "m4"]


def test_partitions_are_consumed_together(broker: Broker) -> None:
    # covers WS-10, WS-11
    topic = broker.topic(partitions=3)
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        producer = _producer(broker, topic, batching_enabled=False)
        for index in range(30):
            producer.send(f"m{index}".encode(), partition_key=f"k{index}")
        messages = [consumer.receive() for _ in range(30)]
        assert sorted(map(decoded, messages)) == sorted(f"m{index}" for index in range(30))
        ids = [pulsar.MessageId.deserialize(base64.b64decode(each["messageId"])) for each in messages]
        assert {each.partition() for each in ids} == {0, 1, 2}
        for each in messages:
            consumer.send({"messageId": each["messageId"]})
        path = f"{topic_path(topic)}/partitioned-stats"
        eventually(lambda: broker.rest("GET", path)[1]["subscriptions"]["s"]["msgBacklog"] == 0)


def test_several_topics_are_consumed_together(broker: Broker) -> None:
    # covers WS-1, WS-11
    topics = [broker.topic(), broker.topic()]
    with opened(broker, f"/ws/v3/consumer/s?topics={','.join(topics)}") as consumer:
        for topic in topics:
            _producer(broker, topic).send(topic.encode())
        messages = [consumer.receive() for _ in range(2)]
        assert sorted(map(decoded, messages)) == sorted(topics)
        for each in messages:
            consumer.send({"messageId": each["messageId"]})
        for topic in topics:
            eventually(lambda topic=topic: broker.subscription(topic)["msgBacklog"] == 0)  # type: ignore[misc]


def test_a_message_that_fails_too_often_is_a_dead_letter(broker: Broker, topic: str) -> None:
    # covers WS-13, DLQ-2, DLQ-3, DLQ-4
    letters = broker.client().subscribe(f"{topic}-s-DLQ", "letters", initial_position=pulsar.InitialPosition.Earliest)
    query = {"subscriptionType": "Shared", "maxRedeliverCount": 2, "negativeAckRedeliveryDelay": 100}
    with opened(broker, path_of("consumer", topic, "s", **query)) as consumer:
        sent = _producer(broker, topic).send(b"bad", properties={"a": "b"}, partition_key="k")
        for count in range(3):
            message = consumer.receive()
            assert message["redeliveryCount"] == count
            consumer.send({"type": "negativeAcknowledge", "messageId": message["messageId"]})
        letter = letters.receive(timeout_millis=20_000)
        assert (letter.data(), letter.partition_key(), letter.properties()["a"]) == (b"bad", "k", "b")
        assert letter.properties()["REAL_TOPIC"] == topic
        assert letter.properties()["ORIGIN_MESSAGE_ID"].startswith(f"{sent.ledger_id()}:{sent.entry_id()}")
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 0)


def test_the_end_of_a_topic_is_answered_and_a_subscription_deleted(broker: Broker, topic: str) -> None:
    # covers WS-11
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        assert consumer.call({"type": "isEndOfTopic"}) == {"endOfTopic": False}
        assert broker.rest("POST", f"{topic_path(topic)}/terminate")[0] == 200
        eventually(lambda: consumer.call({"type": "isEndOfTopic"}) == {"endOfTopic": True})
    topic = broker.topic()
    with opened(broker, path_of("consumer", topic, "s")) as consumer:
        consumer.send({"type": "unsubscribe"})
        eventually(lambda: broker.stats(topic)["subscriptions"] == {})


@pytest.mark.parametrize(
    "text", ["nonsense", "[]", "{}", '{"messageId":"!!!"}', '{"messageId":"AAAA"}', '{"type":"permit"}']
)
def test_a_text_that_is_no_command_closes(broker: Broker, text: str) -> None:
    # covers WS-11
    with opened(broker, path_of("consumer", broker.topic(), "s")) as consumer:
        consumer.send(text)
        if broker.has(changes.TEXTS_KEEP_OPEN) and text not in ("{}", '{"messageId":"!!!"}'):
            assert consumer.call({"type": "isEndOfTopic"}) == {"endOfTopic": False}
        else:
            assert consumer.closed() == (1007 if broker.kind == "ours" else consumer.closed())


def test_an_exclusive_subscription_has_one_consumer(broker: Broker, topic: str) -> None:
    # covers WS-2
    with opened(broker, path_of("consumer", topic, "s")):
        assert refused(broker, path_of("consumer", topic, "s"))[0] == 409
        assert refused(broker, path_of("consumer", topic, "s", subscriptionType="Shared"))[0] == 409
    eventually(lambda: broker.subscription(topic)["consumers"] == [])


@pytest.mark.parametrize("kind", ["Shared", "Failover", "Key_Shared"])
def test_consumers_of_other_types_share(broker: Broker, topic: str, kind: str) -> None:
    # covers WS-3
    path = path_of("consumer", topic, "s", subscriptionType=kind, consumerName="mine", priorityLevel=0)
    with opened(broker, path) as first, opened(broker, path):
        found = broker.subscription(topic)
        assert (found["type"], len(found["consumers"])) == (kind, 2)
        assert found["consumers"][0]["consumerName"] == "mine"
        assert first.call({"type": "isEndOfTopic"}) == {"endOfTopic": False}


@pytest.mark.parametrize(
    "query",
    [
        {"ackTimeoutMillis": "500"},
        {"ackTimeoutMillis": "x"},
        {"subscriptionType": "bad"},
        {"subscriptionMode": "bad"},
        {"subscriptionInitialPosition": "bad"},
        {"receiverQueueSize": "-1"},
        {"receiverQueueSize": "x"},
        {"consumerName": ""},
        {"priorityLevel": "-1"},
        {"negativeAckRedeliveryDelay": "-1"},
        {"maxRedeliverCount": "0"},
        {"deadLetterTopic": "x"},
    ],
)
def test_a_parameter_that_does_not_fit_is_refused(broker: Broker, query: dict[str, str]) -> None:
    # covers WS-3
    assert refused(broker, path_of("consumer", broker.topic(), "s", **query))[0] == 400


def test_paths_that_name_no_subscription_are_refused(broker: Broker) -> None:
    # covers WS-1
    for path in ("persistent/public/default/t", "persistent/public/default/t/", "persistent/public/default/a/b/s"):
        assert refused(broker, f"/ws/v2/consumer/{path}")[0] == 400


@pytest.mark.ours_only("WS-1")
def test_topics_by_pattern_are_not_supported(broker: Broker) -> None:
    # covers WS-1
    status, body = refused(broker, "/ws/v3/consumer/s?topicsPattern=persistent://public/default/.*")
    assert (status, "topics" in json.loads(body)["reason"]) == (501, True)
    assert refused(broker, "/ws/v3/consumer/s")[0] == 400


def test_a_subscription_that_is_not_durable_is_gone_with_its_websocket(broker: Broker, topic: str) -> None:
    # covers WS-3
    with opened(broker, path_of("consumer", topic, "s", subscriptionMode="NonDurable")):
        assert broker.subscription(topic)["isDurable"] is False
    eventually(lambda: broker.stats(topic)["subscriptions"] == {})


def test_one_websocket_publishes_what_another_one_consumes(broker: Broker, topic: str) -> None:
    # covers WS-5, WS-10
    with (
        opened(broker, path_of("consumer", topic, "s")) as consumer,
        opened(broker, path_of("producer", topic)) as producer,
    ):
        for index in range(2_000):
            producer.send({"payload": encoded(f"m{index}")})
        for index in range(2_000):
            message = consumer.receive()
            assert decoded(message) == f"m{index}"
            consumer.send({"messageId": message["messageId"]})
        eventually(lambda: broker.subscription(topic)["msgBacklog"] == 0)


@pytest.mark.ours_only("WS-2")
def test_a_topic_that_is_deleted_closes(broker: Broker, topic: str) -> None:
    # covers WS-2
    with (
        opened(broker, path_of("consumer", topic, "s")) as consumer,
        opened(broker, path_of("producer", topic)) as producer,
        opened(broker, path_of("reader", topic)) as reader,
    ):
        assert broker.rest("DELETE", f"{topic_path(topic)}?force=true")[0] == 204
        assert [each.closed() for each in (consumer, producer, reader)] == [1012] * 3
