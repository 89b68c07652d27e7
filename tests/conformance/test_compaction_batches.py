"""Compaction of large batches as the official client writes them: what is left is what was sent."""

from __future__ import annotations

from typing import Any

import pulsar

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import position
from tests.eventually import eventually

MESSAGES = 600
KEYS = 250


def _sent(number: int) -> dict[str, Any]:
    """Message `number`: its key repeats, sizes and properties differ."""
    fields: dict[str, Any] = {"content": str(number).encode() + bytes(number * 7 % 300)}
    key = number * 13 % KEYS
    if number % 11:
        fields["partition_key"] = f"{'long' * (key % 40)}-ä-{key}"
    if number % 3 == 0:
        fields["properties"] = {"number": str(number)}
    if number % 5 == 0:
        fields["event_timestamp"] = 1_700_000_000_000 + number
    return fields


def _received(message: pulsar.Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"content": message.data(), "partition_key": message.partition_key()}
    if message.properties():
        fields["properties"] = message.properties()
    if message.event_timestamp():
        fields["event_timestamp"] = message.event_timestamp()
    return fields


def _compact(broker: Broker, topic: str) -> None:
    path = f"{topic_path(topic)}/compaction"
    assert broker.rest("PUT", path)[0] == 204
    eventually(lambda: broker.rest("GET", path)[1]["status"] != "RUNNING", timeout_s=60)
    assert broker.rest("GET", path)[1] == {"status": "SUCCESS", "lastError": ""}


def test_what_is_left_of_large_batches_is_what_was_sent(broker: Broker) -> None:
    # covers CMP-C1, CMP-C2, CMP-C3
    topic, client = broker.topic(), broker.client()
    client.subscribe(topic, "keep", initial_position=pulsar.InitialPosition.Earliest).close()
    ids: list[tuple[int, int, int]] = []
    sent: list[dict[str, Any]] = []

    def send_batch(numbers: range) -> None:
        producer = client.create_producer(
            topic, batching_enabled=True, batching_max_messages=MESSAGES, batching_max_publish_delay_ms=60_000
        )
        for number in numbers:
            producer.send_async(callback=lambda _, id: ids.append(position(id)), **_sent(number))
            sent.append(_sent(number))
        producer.flush()
        producer.close()

    def check() -> None:
        last = {fields["partition_key"]: index for index, fields in enumerate(sent) if "partition_key" in fields}
        wanted = [(ids[index], sent[index]) for index in sorted(last.values())]
        reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
        found = []
        while reader.has_message_available():
            message = reader.read_next(30_000)
            if message.data():  # the client gives also those that were taken out, as empty messages
                found.append((position(message.message_id()), _received(message)))
        reader.close()
        assert found == wanted

    for first in (0, MESSAGES):  # the second time what was left is compacted again
        send_batch(range(first, first + MESSAGES))
        assert {index for _, _, index in ids[-MESSAGES:]} == set(range(MESSAGES)), "one batch"
        _compact(broker, topic)
        check()
    _compact(broker, topic)
    check()
