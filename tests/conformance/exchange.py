"""Sending and receiving in the words of a test, with the official client."""

from __future__ import annotations

from collections.abc import Iterable

import pulsar
import pytest

from tests.brokers import Broker

EARLIEST = pulsar.InitialPosition.Earliest
SHARED = pulsar.ConsumerType.Shared
RECEIVE_TIMEOUT_MS = 30_000
"""Only a failure waits that long: a machine that is busy with something else is none."""
QUIET_MS = 300


def send_all(producer: pulsar.Producer, values: Iterable[bytes | str]) -> list[pulsar.MessageId]:
    """Send each value and wait for its receipt; the ids in order."""
    return [producer.send(value.encode() if isinstance(value, str) else value) for value in values]


def send_numbers(broker: Broker, topic: str, count: int) -> list[pulsar.MessageId]:
    """Send "0", "1", ... with a producer that stays; the ids in order."""
    return send_all(broker.client().create_producer(topic), map(str, range(count)))


def send_batched(client: pulsar.Client, topic: str, values: list[str], **settings: object) -> list[pulsar.MessageId]:
    """Send the values as one batch (one entry); the ids in order."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_messages=len(values),
        batching_max_publish_delay_ms=60_000,
        **settings,
    )
    ids: list[pulsar.MessageId] = []
    failures: list[object] = []

    def receipt(result: object, message_id: pulsar.MessageId) -> None:
        if result == pulsar.Result.Ok:
            ids.append(message_id)
        else:
            failures.append(result)

    for value in values:
        producer.send_async(value.encode(), receipt)
    producer.flush()
    producer.close()
    assert not failures, failures
    return ids


def receive(
    source: pulsar.Consumer | pulsar.Reader, count: int, timeout_ms: int = RECEIVE_TIMEOUT_MS
) -> list[pulsar.Message]:
    """The next `count` messages of a consumer or reader, unacknowledged; fails with what came when one is missing."""
    take = source.read_next if isinstance(source, pulsar.Reader) else source.receive
    messages: list[pulsar.Message] = []
    while len(messages) < count:
        try:
            messages.append(take(timeout_millis=timeout_ms))
        except pulsar.Timeout:
            pytest.fail(f"{len(messages)} of {count} messages within {timeout_ms} ms each: {texts(messages)[:20]}")
    return messages


def receive_texts(source: pulsar.Consumer | pulsar.Reader, count: int) -> list[str]:
    """The next `count` messages as text."""
    return texts(receive(source, count))


def receive_up_to(source: pulsar.Consumer, last: str) -> list[str]:
    """The next messages as text until that one comes; others may come twice, as after a broken connection."""
    found = receive_texts(source, 1)
    while found[-1] != last:
        found += receive_texts(source, 1)
    return found


def texts(messages: Iterable[pulsar.Message]) -> list[str]:
    """What the messages hold, as text."""
    return [message.data().decode() for message in messages]


def expect_nothing(source: pulsar.Consumer | pulsar.Reader, quiet_ms: int = QUIET_MS) -> None:
    """No message comes within `quiet_ms`."""
    take = source.read_next if isinstance(source, pulsar.Reader) else source.receive
    try:
        message = take(timeout_millis=quiet_ms)
    except pulsar.Timeout:
        return
    pytest.fail(f"unexpected message {message.message_id()}: {message.data()[:80]!r}")


def position(message_id: pulsar.MessageId) -> tuple[int, int, int]:
    """(ledger, entry, batch index) in the order of message ids."""
    return message_id.ledger_id(), message_id.entry_id(), message_id.batch_index()
