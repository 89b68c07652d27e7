"""The official Java client in transactions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from tests.brokers import Broker
from tests.clients.java_client import Java, JavaClient
from tests.clients.stats import backlog, stats
from tests.eventually import eventually

QUIET_MS = 300
CHUNK_BYTES = 1_000


@pytest.fixture(scope="module", params=["binary", "http"])
def client(request: pytest.FixtureRequest, java: Java, broker: Broker) -> Iterator[JavaClient]:
    """A client that looks up topics and coordinators by the binary protocol, or over HTTP."""
    url = broker.service_url if request.param == "binary" else broker.admin_url
    opened = java.client(url, transactions=True)
    yield opened
    opened.client.close()


def nothing_comes(java: Java, consumer: Any) -> bool:
    return consumer.receive(QUIET_MS, java.jvm.java.util.concurrent.TimeUnit.MILLISECONDS) is None


def producer_of(client: JavaClient, java: Java, topic: str, *, batches: bool = False) -> Any:
    unit = java.jvm.java.util.concurrent.TimeUnit.SECONDS
    builder = client.client.newProducer(java.api.Schema.STRING).topic(topic).sendTimeout(0, unit)
    if batches:
        builder = builder.batchingMaxPublishDelay(60, unit)  # what is sent between two flushes is one entry
    return builder.enableBatching(batches).create()


def cause_of(error: Py4JJavaError) -> str:
    return str(error.java_exception.toString())


def shared(java: Java, client: JavaClient, topic: str, **more: Any) -> Any:
    builder = client.client.newConsumer(java.api.Schema.STRING).topic(java.texts(topic)).subscriptionName("s")
    builder = builder.subscriptionInitialPosition(java.api.SubscriptionInitialPosition.Earliest)
    if more.get("batch_index"):
        builder = builder.enableBatchIndexAcknowledgment(True)
    return builder.subscriptionType(java.api.SubscriptionType.Shared).subscribe()


def test_a_commit_shows_two_topics_and_an_abort_none(broker: Broker, java: Java, client: JavaClient) -> None:
    # covers TX-6, TX-9, TX-11
    topics = [broker.topic(), broker.topic()]
    producers = [producer_of(client, java, topic) for topic in topics]
    consumers = [client.consumer(topic, java.api.Schema.STRING) for topic in topics]
    for commit in (False, True):
        transaction = client.begin()
        for index, producer in enumerate(producers):
            producer.newMessage(transaction).value(f"{index} {commit}").send()
        assert all(nothing_comes(java, consumer) for consumer in consumers)
        (transaction.commit() if commit else transaction.abort()).get()
    assert [client.receive(consumer).getValue() for consumer in consumers] == ["0 True", "1 True"]
    assert all(nothing_comes(java, consumer) for consumer in consumers)


def test_acks_conflict_and_an_abort_frees_them(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-12
    producer_of(client, java, topic).send("x")
    consumer = shared(java, client, topic)
    message_id = client.receive(consumer).getMessageId()
    first, second = client.begin(), client.begin()
    consumer.acknowledgeAsync(message_id, first).get()
    with pytest.raises(Py4JJavaError) as refused:
        consumer.acknowledgeAsync(message_id, second).get()
    assert "TransactionConflict" in cause_of(refused.value)
    first.abort().get()
    again = client.receive(consumer)
    third = client.begin()
    consumer.acknowledgeAsync(again.getMessageId(), third).get()
    third.commit().get()
    eventually(lambda: backlog(broker, topic, "s") == 0)


def test_a_cumulative_ack(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-13
    producer, consumer = producer_of(client, java, topic), client.consumer(topic, java.api.Schema.STRING)
    for index in range(5):
        producer.send(str(index))
    messages = [client.receive(consumer) for _ in range(5)]
    transaction = client.begin()
    consumer.acknowledgeCumulativeAsync(messages[3].getMessageId(), transaction).get()
    assert backlog(broker, topic, "s") == 5
    transaction.commit().get()
    eventually(lambda: backlog(broker, topic, "s") == 1)


def test_single_messages_of_a_batch(topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-14
    producer = producer_of(client, java, topic, batches=True)
    for index in range(4):
        producer.sendAsync(str(index))
    producer.flush()
    consumer = shared(java, client, topic, batch_index=True)
    messages = [client.receive(consumer) for _ in range(4)]
    kept, dropped = client.begin(), client.begin()
    consumer.acknowledgeAsync(messages[0].getMessageId(), kept).get()
    consumer.acknowledgeAsync(messages[1].getMessageId(), kept).get()
    consumer.acknowledgeAsync(messages[2].getMessageId(), dropped).get()
    kept.commit().get()
    dropped.abort().get()
    consumer.close()
    consumer = shared(java, client, topic, batch_index=True)
    assert [client.receive(consumer).getValue() for _ in range(2)] == ["2", "3"]
    assert nothing_comes(java, consumer)


def test_a_transaction_ends_at_its_time_out(topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-7
    producer, consumer = producer_of(client, java, topic), client.consumer(topic, java.api.Schema.STRING)
    transaction = client.begin(1_500)
    producer.newMessage(transaction).value("left").send()
    producer.send("plain")
    assert client.receive(consumer).getValue() == "plain"
    with pytest.raises(Py4JJavaError) as refused:
        transaction.commit().get()
    # By the broker, or by the client's own clock.
    assert re.search("TransactionNotFound|unexpected state: TIME_OUT", cause_of(refused.value))


@pytest.mark.ours_only("TX-8")
def test_a_batch_after_the_time_out_is_refused(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-8, A2
    producer = producer_of(client, java, topic, batches=True)
    transaction = client.begin(1_000)
    sent = [producer.newMessage(transaction).value(str(index)).sendAsync() for index in range(3)]
    id_ = transaction.getTxnID()
    place = f"/admin/v3/transactions/transactionMetadata/{id_.getMostSigBits()}/{id_.getLeastSigBits()}"
    eventually(lambda: broker.rest("GET", place)[0] == 404)
    producer.flushAsync()
    for each in sent:
        with pytest.raises(Py4JJavaError) as refused:
            each.get(30, java.jvm.java.util.concurrent.TimeUnit.SECONDS)
        assert "NotAllowedException: Transaction" in cause_of(refused.value)


def entry_of(message_id: Any) -> tuple[int, int]:
    return message_id.getLedgerId(), message_id.getEntryId()


def test_batches_in_transactions(topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-8, TX-11, TX-14, TX-18
    producer = producer_of(client, java, topic, batches=True)
    consumer = shared(java, client, topic, batch_index=True)
    aborted, committed = client.begin(), client.begin()
    for name, transaction in (("aborted", aborted), ("committed", committed)):
        # Once a transaction knows the topic, its messages go into the batch at once.
        producer_of(client, java, topic).newMessage(transaction).value(f"{name} alone").send()
        sent = [producer.newMessage(transaction).value(f"{name} {index}").sendAsync() for index in range(3)]
        producer.flush()
        assert len({entry_of(each.get()) for each in sent}) == 1
    aborted.abort().get()
    assert nothing_comes(java, consumer)
    committed.commit().get()
    messages = [client.receive(consumer) for _ in range(4)]
    values = [message.getValue() for message in messages]
    assert values == ["committed alone", "committed 0", "committed 1", "committed 2"]
    acking = client.begin()
    for message in (messages[0], messages[2]):
        consumer.acknowledgeAsync(message.getMessageId(), acking).get()
    acking.commit().get()
    consumer.close()
    consumer = shared(java, client, topic, batch_index=True)
    assert [client.receive(consumer).getValue() for _ in range(2)] == ["committed 0", "committed 2"]
    assert nothing_comes(java, consumer)


def test_chunks_in_transactions(broker: Broker, topic: str, java: Java, client: JavaClient) -> None:
    # covers TX-11, TX-12, TX-18
    builder = client.client.newProducer(java.api.Schema.STRING).topic(topic).enableBatching(False)
    producer = builder.enableChunking(True).chunkMaxMessageSize(CHUNK_BYTES).create()
    consumer = shared(java, client, topic)
    aborted, committed = client.begin(), client.begin()
    for name, transaction in (("a", aborted), ("c", committed)):
        producer.newMessage(transaction).value(name * 5 * CHUNK_BYTES).send()
    assert stats(broker, topic)["msgInCounter"] >= 10
    aborted.abort().get()
    assert nothing_comes(java, consumer)
    committed.commit().get()
    message = client.receive(consumer)
    assert message.getValue() == "c" * 5 * CHUNK_BYTES
    assert nothing_comes(java, consumer)
    acking = client.begin()
    consumer.acknowledgeAsync(message.getMessageId(), acking).get()
    acking.commit().get()
    eventually(lambda: backlog(broker, topic, "s") == 0)
