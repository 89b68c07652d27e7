"""A broker that does not sync its journal (`journalSyncData=false`)."""

from __future__ import annotations

import pulsar

from tests.brokers import Broker
from tests.conformance.exchange import receive, send_all


def test_what_was_receipted_without_a_sync_outlives_a_kill(switched_broker: Broker) -> None:
    # covers DUR-5
    topic = switched_broker.topic()
    client = switched_broker.client(operation_timeout_seconds=60)
    client.subscribe(topic, "keep").close()
    sent = send_all(client.create_producer(topic), [str(number) for number in range(200)])
    switched_broker.kill()
    switched_broker.restart()
    messages = receive(
        switched_broker.client(operation_timeout_seconds=60).create_reader(topic, pulsar.MessageId.earliest), 200
    )
    assert [message.message_id() for message in messages] == sent
