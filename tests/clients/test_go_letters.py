"""Dead letters and retry letters of the official Go client."""

from __future__ import annotations

from tests.brokers import Broker
from tests.clients.go_client import MS, SHARED, GoClient
from tests.clients.stats import backlog
from tests.eventually import eventually


def test_a_message_that_fails_too_often_becomes_a_dead_letter(broker: Broker, go: GoClient) -> None:
    # covers DLQ-1, DLQ-2, DLQ-4, DLQ-5, PR-18
    topic = broker.topic()
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


def test_a_message_is_retried_through_its_letter(broker: Broker, go: GoClient) -> None:
    # covers RLQ-1, RLQ-2, RLQ-3, RLQ-4, DLQ-6
    topic = broker.topic()
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
