"""Durable subscriptions to the compacted view, compaction of large batches, and requests while one runs."""

from __future__ import annotations

import threading
from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import EARLIEST, expect_nothing, position, receive, send_all
from tests.conformance.test_compaction import compact
from tests.eventually import eventually

TRIMMED, LEFT = 10, 5
WHOLE = [str(number) for number in range(TRIMMED + LEFT)]


@pytest.fixture(scope="module")
def trimmed(broker: Broker) -> str:
    """Fifteen keys, each once; only the last five are left outside of the compacted view."""
    topic, client = broker.topic(), broker.client()
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(TRIMMED):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    compact(broker, topic)
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    for number in range(TRIMMED, TRIMMED + LEFT):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    client.close()
    compact(broker, topic)

    def ledgers() -> int:
        assert broker.rest("POST", f"{topic_path(topic)}/trim")[0] == 200
        return len(broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["ledgers"])

    eventually(lambda: ledgers() == 1)
    return topic


def _view(broker: Broker, topic: str, wanted: int, acked: int | None = None, *, cumulative: bool = False) -> list[str]:
    """What a consumer of the subscription `s` gets, of which it acknowledges one, before it goes."""
    client = broker.client()
    consumer = client.subscribe(topic, "s", is_read_compacted=True, initial_position=EARLIEST)
    messages = receive(consumer, wanted)
    expect_nothing(consumer)
    for message in messages:
        if message.data() == b"%s" % str(acked).encode():
            (consumer.acknowledge_cumulative if cumulative else consumer.acknowledge)(message)
    client.close()
    return [message.data().decode() for message in messages]


def _forget(broker: Broker, topic: str) -> None:
    assert broker.rest("DELETE", f"{topic_path(topic)}/subscription/s?force=true")[0] == 204


@pytest.mark.parametrize("cumulative", [False, True])
def test_acks_of_what_is_only_in_the_view_mean_nothing(broker: Broker, trimmed: str, cumulative: bool) -> None:
    # covers CMP-C4
    assert _view(broker, trimmed, len(WHOLE), 4, cumulative=cumulative) == WHOLE
    assert _view(broker, trimmed, len(WHOLE)) == WHOLE
    assert broker.backlog(trimmed) == LEFT
    _forget(broker, trimmed)


@pytest.mark.parametrize("cumulative", [False, True])
def test_the_first_ack_behind_it_is_one_of_all_of_it(broker: Broker, trimmed: str, cumulative: bool) -> None:
    # covers CMP-C4
    assert _view(broker, trimmed, len(WHOLE), TRIMMED, cumulative=cumulative) == WHOLE
    eventually(lambda: broker.backlog(trimmed) == LEFT - 1)
    assert _view(broker, trimmed, LEFT - 1) == WHOLE[TRIMMED + 1 :]
    _forget(broker, trimmed)


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


def test_what_is_left_of_large_batches_is_what_was_sent(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CMP-C1, CMP-C2, CMP-C3
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
        compact(broker, topic)
        check()
    compact(broker, topic)
    check()


TOGETHER = 4


def test_a_compaction_is_refused_while_one_runs(broker: Broker, client: pulsar.Client, topic: str) -> None:
    # covers CMP-C6
    path = f"{topic_path(topic)}/compaction"
    client.subscribe(topic, "keep").close()
    producer = client.create_producer(topic, batching_enabled=False)
    assert broker.rest("GET", path) == (200, {"status": "NOT_RUN", "lastError": ""})

    def asked_together() -> list[Any]:
        """Several ask at the same time: one is told yes; whether the others come while it runs is luck."""
        send_all(producer, [bytes(10_000)] * 20)
        eventually(lambda: broker.rest("GET", path)[1]["status"] != "RUNNING", timeout_s=60)
        start, answers = threading.Barrier(TOGETHER), list[Any]()

        def ask() -> None:
            start.wait()
            answers.append(broker.rest("PUT", path))

        threads = [threading.Thread(target=ask) for _ in range(TOGETHER)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (204, "") in answers
        return [answer for answer in answers if answer != (204, "")]

    for status, answer in eventually(asked_together, timeout_s=60):
        assert (status, answer["reason"]) == (409, "Compaction already in progress")
    eventually(lambda: broker.rest("GET", path)[1] == {"status": "SUCCESS", "lastError": ""}, timeout_s=60)
