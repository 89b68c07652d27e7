"""A broker that goes away and comes back under the official Go client."""

from __future__ import annotations

import pytest

from tests.brokers import Broker, topic_path
from tests.clients.conftest import Clients
from tests.clients.go_client import (
    ANSWER_TIMEOUT_S,
    EXCLUSIVE,
    EXCLUSIVE_ACCESS,
    FAILOVER,
    IN_BATCHES,
    KEY_SHARED,
    MS,
    SHARED,
    Consumer,
    GoClient,
    texts,
)
from tests.eventually import eventually

TYPES = pytest.mark.parametrize("type_", [EXCLUSIVE, SHARED, FAILOVER, KEY_SHARED], ids=str)
# A client that is cut off doubles its pauses, and Apache Pulsar takes some seconds to start.
AFTER_RESTART_MS = 120_000


def _until(consumer: Consumer, last: str) -> list[str]:
    """Payloads up to the last one, acknowledged."""
    seen: list[str] = []
    while last not in seen:
        messages = consumer.receive(1, AFTER_RESTART_MS)
        consumer.ack(*messages)
        seen += texts(messages)
    return seen


@pytest.mark.parametrize("killed", [False, True])
def test_everybody_goes_on_after_the_broker_was_away(own_broker: Broker, clients: Clients, killed: bool) -> None:
    # covers PR-2, PR-7, SUB-10, CUR-8, DED-7, DED-11 (all types at once: a restart costs seconds)
    go = clients(own_broker)
    topic = own_broker.topic()
    assert own_broker.rest("PUT", topic_path(topic))[0] == 204
    assert own_broker.rest("POST", f"{topic_path(topic)}/deduplicationEnabled", True)[0] == 204
    types = {"e": EXCLUSIVE, "s": SHARED, "f": FAILOVER, "k": KEY_SHARED}
    consumers = {name: go.consumer(topic, name, type_, AckWithResponse=True) for name, type_ in types.items()}
    alone = go.producer(f"{topic}-alone", ProducerAccessMode=EXCLUSIVE_ACCESS)
    alone.send("0")
    reader = go.reader(topic)
    producer = go.producer(topic, SendTimeout=AFTER_RESTART_MS * MS)
    producer.send("0", "1", "2")
    for consumer in consumers.values():
        messages = consumer.receive(3)
        assert texts(messages) == ["0", "1", "2"]
        consumer.ack(messages[0])
    assert texts(reader.receive(3)) == ["0", "1", "2"]
    name = producer.name
    if killed:
        own_broker.kill()
    else:
        own_broker.restart()
    more = [str(number) for number in range(3, 100)]
    waiting = producer.start(*more)
    if killed:
        own_broker.restart()
    assert not any(receipt["error"] for receipt in waiting.result(ANSWER_TIMEOUT_S))
    assert producer.name == name
    for consumer in consumers.values():
        seen = _until(consumer, "99")
        assert [text for text in seen if text in more] == more
        assert set(seen) - {"0"} == {"1", "2", *more}
    assert texts(reader.receive(len(more), AFTER_RESTART_MS)) == more
    alone.send("1")
    assert go.producer(topic, **IN_BATCHES).send("last")
    assert all(texts(consumer.receive(1, AFTER_RESTART_MS)) == ["last"] for consumer in consumers.values())


@TYPES
def test_everybody_goes_on_after_an_unload(broker: Broker, topic: str, go: GoClient, type_: int) -> None:
    # covers SUB-10, PR-17 (CLOSE_PRODUCER and CLOSE_CONSUMER)
    consumer = go.consumer(topic, type_=type_, AckWithResponse=True)
    reader = go.reader(topic)
    producer = go.producer(topic)
    producer.send("0", "1")
    messages = consumer.receive(2)
    consumer.ack(messages[0])
    assert texts(reader.receive(2)) == ["0", "1"]
    for round_ in range(2):
        assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
        producer.send(f"after {round_}")
        seen = _until(consumer, f"after {round_}")
        # What was acknowledged alone a moment before comes again from Apache Pulsar.
        again = {"0", *(f"after {earlier}" for earlier in range(round_))} if broker.kind != "ours" else set()
        assert set(seen) <= {"1", f"after {round_}"} | again
        assert texts(reader.receive(1)) == [f"after {round_}"]


def test_partitions_go_on_after_the_namespace_was_unloaded(broker: Broker, go: GoClient) -> None:
    # covers SUB-10, PT-1
    topic = broker.topic(partitions=3)
    consumer = go.consumer(topic, type_=SHARED)
    producer = go.producer(topic, **IN_BATCHES)
    keyed = [{"Payload": str(number), "Key": str(number)} for number in range(12)]
    producer.send(*keyed)
    consumer.ack(*consumer.receive(12))
    for number in range(3):
        assert broker.rest("PUT", f"{topic_path(topic)}-partition-{number}/unload")[0] == 204
    producer.send(*[each | {"Payload": f"{each['Payload']} again"} for each in keyed])
    seen: set[str] = set()

    def all_came() -> bool:
        seen.update(texts(consumer.receive_up_to(24, 100)))
        return len({text for text in seen if text.endswith(" again")}) == 12

    eventually(all_came)
