"""The official Go client in transactions."""

from __future__ import annotations

import pytest

from tests.brokers import Broker
from tests.clients.conftest import Clients
from tests.clients.go_client import SHARED, GoClient, GoError, texts
from tests.clients.stats import backlog
from tests.eventually import eventually

IN_TRANSACTIONS = {"EnableTransaction": True}
# The Go client names the transaction in SEND alone, and not in the metadata that Apache Pulsar filters aborted ones by.
IN_SEND_ALONE = pytest.mark.ours_only("TX-11")


@pytest.fixture(params=["binary", "http"])
def go(request: pytest.FixtureRequest, clients: Clients, broker: Broker) -> GoClient:
    """A client that looks up topics and coordinators by the binary protocol, or over HTTP."""
    return clients(broker, broker.service_url if request.param == "binary" else broker.admin_url, **IN_TRANSACTIONS)


def test_a_commit_shows_two_topics(broker: Broker, go: GoClient) -> None:
    # covers TX-6, TX-9
    topics = [broker.topic(), broker.topic()]
    consumers = [go.consumer(topic) for topic in topics]
    transaction = go.begin()
    for index, topic in enumerate(topics):
        go.producer(topic, Name=f"p{index}").send(str(index), in_=transaction)
    assert [consumer.receive_up_to(1) for consumer in consumers] == [[], []]
    transaction.commit()
    assert [texts(consumer.receive(1)) for consumer in consumers] == [["0"], ["1"]]


@IN_SEND_ALONE
def test_an_abort_shows_none(broker: Broker, go: GoClient) -> None:
    # covers TX-11
    topics = [broker.topic(), broker.topic()]
    producers = [go.producer(topic, Name=f"p{index}") for index, topic in enumerate(topics)]
    consumers = [go.consumer(topic) for topic in topics]
    transaction = go.begin()
    for producer in producers:
        producer.send("aborted", in_=transaction)
    transaction.abort()
    for producer in producers:
        producer.send("plain")
    assert [texts(consumer.receive(1)) for consumer in consumers] == [["plain"], ["plain"]]


def test_acks_conflict_and_an_abort_frees_them(broker: Broker, topic: str, go: GoClient) -> None:
    # covers TX-12
    go.producer(topic).send("x")
    consumer = go.consumer(topic, type_=SHARED)
    (message,) = consumer.receive(1)
    first, second = go.begin(), go.begin()
    consumer.ack(message, in_=first)
    with pytest.raises(GoError, match=r"TransactionConflict: .*try to ack message:\d+:0 .*in pending ack status"):
        consumer.ack(message, in_=second)
    with pytest.raises(GoError, match="TxnError"):
        second.commit()
    first.abort()
    (message,) = consumer.receive(1)
    third = go.begin()
    consumer.ack(message, in_=third)
    third.commit()
    eventually(lambda: backlog(broker, topic, "s") == 0)


def test_a_transaction_ends_at_its_time_out(topic: str, go: GoClient) -> None:
    # covers TX-7, TX-12
    go.producer(topic).send("x")
    consumer = go.consumer(topic, type_=SHARED)
    (message,) = consumer.receive(1)
    transaction = go.begin(1_500)
    consumer.ack(message, in_=transaction)
    assert texts(consumer.receive(1)) == ["x"]
    # By the broker, or by the client's own clock.
    with pytest.raises(GoError, match=r"TransactionNotFound|actual: TxnTimeout"):
        transaction.commit()


@IN_SEND_ALONE
def test_messages_of_a_transaction_end_at_its_time_out(topic: str, go: GoClient) -> None:
    # covers TX-7, TX-11
    producer, consumer = go.producer(topic), go.consumer(topic)
    producer.send("left", in_=go.begin(1_500))
    producer.send("plain")
    assert texts(consumer.receive(1)) == ["plain"]


def test_a_transaction_that_the_broker_aborted_is_not_found(broker: Broker, go: GoClient) -> None:
    # covers TX-6, TX-22
    for commit in (True, False):
        transaction = go.begin()
        most, least = transaction.id
        assert broker.rest("POST", f"/admin/v3/transactions/abortTransaction/{most}/{least}")[0] == 204
        with pytest.raises(GoError, match="TransactionNotFound"):
            transaction.commit() if commit else transaction.abort()
