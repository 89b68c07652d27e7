"""Our readers where a policy forbids Exclusive subscriptions: exact, or an error."""

from __future__ import annotations

import itertools
import os
from functools import partial

import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.errors import DeliveryHeldBack
from spark_pulsar.model.errors import NotAllowed
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.pulsar_api_pb2 import MessageMetadata
from tests.brokers import Broker
from tests.eventually import eventually

START = MessageId(-1, -1, -1, -1)
_numbers = itertools.count()


def topic_of(broker: Broker) -> str:
    """A topic in a namespace of its own."""
    namespace = f"public/types-{os.getpid()}-{next(_numbers)}"
    assert broker.rest("PUT", f"/admin/v2/namespaces/{namespace}", {})[0] == 204
    return f"persistent://{namespace}/t"


def restrict(broker: Broker, client: PulsarClient, topic: str, types: list[str], **policies: object) -> None:
    """Allows some types of subscriptions in the topic's namespace, and sets other policies by their paths."""
    namespace = topic.removeprefix("persistent://").removesuffix("/t")
    for path, value in ({"subscriptionTypesEnabled": types} | policies).items():
        assert broker.rest("POST", f"/admin/v2/namespaces/{namespace}/{path}", value)[0] == 204
    eventually(partial(is_forbidden, client, topic))


def publish(client: PulsarClient, topic: str, values: range, deliver_at_time: int | None = None) -> None:
    with client.publisher(topic) as publisher:
        for value in values:
            publisher.send(MessageMetadata(deliver_at_time=deliver_at_time), b"%d" % value)
        publisher.flush()


def entries(client: PulsarClient, topic: str) -> list[tuple[int, int]]:
    """Ids of all entries, in the order in which they came."""
    with client.fetch(topic, START, client.end_positions([topic])[topic]) as fetch:
        return [each for block in fetch for each in zip(block.ledger_ids, block.entry_ids, strict=True)]


def is_forbidden(client: PulsarClient, topic: str) -> bool:
    try:
        client.ensure_subscription([topic], "job")
    except NotAllowed:
        return True
    return False


@pytest.mark.parametrize("types", [["Failover"], ["Shared"], ["Key_Shared", "Shared"]])
def test_a_read_is_exact_by_every_type(broker: Broker, client: PulsarClient, types: list[str]) -> None:
    # covers READ-41
    topic = topic_of(broker)
    publish(client, topic, range(10))
    for commit in (True, False):  # which leaves markers, and messages that are never delivered
        transaction = client.open_transaction(0, 60_000)
        client.add_partitions(transaction, [topic])
        with client.publisher(topic, transaction=transaction) as publisher:
            publisher.send(MessageMetadata(txnid_most_bits=transaction.most, txnid_least_bits=transaction.least), b"t")
            publisher.flush()
        client.end_transaction(transaction, commit=commit)
    publish(client, topic, range(10))
    eventually(lambda: len(entries(client, topic)) == 21)
    restrict(broker, client, topic, types, maxUnackedMessagesPerConsumer=3, maxUnackedMessagesPerSubscription=3)
    found = entries(client, topic)
    assert found == sorted(found)
    assert len(found) == 21
    last = client.last_message_id(topic)
    assert last is not None
    assert found[-1] == last.position
    assert client.position_at_time(topic, 1).position == found[0]


@pytest.mark.parametrize("types", [["Failover"], ["Shared"]])
def test_messages_that_are_held_back_are_an_error(broker: Broker, client: PulsarClient, types: list[str]) -> None:
    # covers READ-41
    topic = topic_of(broker)
    publish(client, topic, range(10))
    last = client.last_message_id(topic)
    assert last is not None
    publish(client, topic, range(1), deliver_at_time=2**42)
    publish(client, topic, range(3))
    restrict(broker, client, topic, types)
    if types == ["Failover"]:
        assert len(entries(client, topic)) == 14
        return
    with pytest.raises(DeliveryHeldBack, match=rf"{topic}: the entry at {last.ledger_id}:10 is not delivered in its"):
        entries(client, topic)
