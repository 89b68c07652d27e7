"""The official Go client in transactions."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.brokers import Broker
from tests.clients.conftest import Clients
from tests.clients.go_client import SHARED, GoClient, GoError, texts
from tests.clients.stats import backlog
from tests.eventually import eventually

IN_TRANSACTIONS = {"EnableTransaction": True}
# The Go client names the transaction in SEND alone, and not in the metadata that Apache Pulsar filters aborted ones by.
IN_SEND_ALONE = pytest.mark.ours_only("TX-11")


@pytest.fixture
def go(clients: Clients, broker: Broker) -> GoClient:
    return clients(broker, **IN_TRANSACTIONS)


@IN_SEND_ALONE
def test_a_commit_shows_two_topics_and_an_abort_none(broker: Broker, go: GoClient) -> None:
    # covers TX-6, TX-9, TX-11
    topics = [broker.topic(), broker.topic()]
    producers = [go.producer(topic, Name=f"p{index}") for index, topic in enumerate(topics)]
    consumers = [go.consumer(topic) for topic in topics]
    for commit in (False, True):
        transaction = go.begin()
        for index, producer in enumerate(producers):
            producer.send(f"{index} {commit}", in_=transaction)
        assert [consumer.receive_up_to(1) for consumer in consumers] == [[], []]
        if commit:
            transaction.commit()
        else:
            transaction.abort()
    assert [texts(consumer.receive(1)) for consumer in consumers] == [["0 True"], ["1 True"]]
    assert [consumer.receive_up_to(1) for consumer in consumers] == [[], []]


def test_an_aborted_ack_brings_the_message_again(broker: Broker, go: GoClient) -> None:
    # covers TX-12
    topic = broker.topic()
    go.producer(topic).send("x")
    consumer = go.consumer(topic, type_=SHARED)
    (message,) = consumer.receive(1)
    transaction = go.begin()
    consumer.ack(message, in_=transaction)
    transaction.abort()
    (message,) = consumer.receive(1)
    transaction = go.begin()
    consumer.ack(message, in_=transaction)
    transaction.commit()
    eventually(lambda: backlog(broker, topic, "s") == 0)


@IN_SEND_ALONE
def test_a_transaction_ends_at_its_time_out(broker: Broker, go: GoClient) -> None:
    # covers TX-7
    topic = broker.topic()
    producer, consumer = go.producer(topic), go.consumer(topic)
    transaction = go.begin(1_500)
    producer.send("left", in_=transaction)
    producer.send("plain")
    assert texts(consumer.receive(1)) == ["plain"]
    with pytest.raises(GoError):
        transaction.commit()


@IN_SEND_ALONE
def test_consume_process_produce_with_crashes(own_broker: Broker, clients: Clients) -> None:
    # covers TX-6, TX-17
    source, target = own_broker.topic(), own_broker.topic()
    first = clients(own_broker)
    wanted = [f"m{index}" for index in range(60)]
    first.consumer(source, type_=SHARED).close()
    first.consumer(target, "check").close()  # else the target keeps nothing over a restart
    first.producer(source).send(*wanted)
    done = 0
    for life in range(1_000):
        client = clients(own_broker, **IN_TRANSACTIONS)
        consumer, producer = client.consumer(source, type_=SHARED), client.producer(target)
        for turn in range(4):
            messages = consumer.receive_up_to(5, 2_500 if turn == 0 else 500)
            if not messages:
                break
            transaction = client.begin(2_000)
            producer.send(*texts(messages), in_=transaction)
            consumer.ack(*messages, in_=transaction)
            if turn == 2:
                break  # killed with a transaction that has messages and acks
            transaction.commit()
            done += len(messages)
        client.close()
        if life == 1:
            own_broker.kill()
            own_broker.restart()
        if done >= len(wanted) and backlog(own_broker, source, "s") == 0:
            break
    reader = clients(own_broker).consumer(target, "check")
    assert Counter(texts(reader.receive(len(wanted)))) == Counter(wanted)
    assert reader.receive_up_to(1, 3_000) == []
