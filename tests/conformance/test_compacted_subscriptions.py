"""A durable subscription to the compacted view of a topic whose older entries are only left there."""

from __future__ import annotations

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.exchange import expect_nothing, receive
from tests.eventually import eventually

EARLIEST = pulsar.InitialPosition.Earliest
TRIMMED, LEFT = 10, 5
WHOLE = [str(number) for number in range(TRIMMED + LEFT)]


def _compact(broker: Broker, topic: str) -> None:
    path = f"{topic_path(topic)}/compaction"
    assert broker.rest("PUT", path)[0] == 204
    eventually(lambda: broker.rest("GET", path)[1] == {"status": "SUCCESS", "lastError": ""}, timeout_s=60)


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """Fifteen keys, each once; only the last five are left outside of the compacted view."""
    topic, client = broker.topic(), broker.client()
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(TRIMMED):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    _compact(broker, topic)
    assert broker.rest("PUT", f"{topic_path(topic)}/unload")[0] == 204
    for number in range(TRIMMED, TRIMMED + LEFT):
        producer.send(b"%d" % number, partition_key=f"k{number}")
    client.close()
    _compact(broker, topic)

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


def _backlog(broker: Broker, topic: str) -> int:
    stats = broker.rest("GET", f"{topic_path(topic)}/stats?getPreciseBacklog=true")[1]
    return int(stats["subscriptions"]["s"]["msgBacklog"])


@pytest.mark.parametrize("cumulative", [False, True])
def test_acks_of_what_is_only_in_the_view_mean_nothing(broker: Broker, topic: str, cumulative: bool) -> None:
    # covers CMP-C4
    assert _view(broker, topic, len(WHOLE), 4, cumulative=cumulative) == WHOLE
    assert _view(broker, topic, len(WHOLE)) == WHOLE
    assert _backlog(broker, topic) == LEFT
    _forget(broker, topic)


@pytest.mark.parametrize("cumulative", [False, True])
def test_the_first_ack_behind_it_is_one_of_all_of_it(broker: Broker, topic: str, cumulative: bool) -> None:
    # covers CMP-C4
    assert _view(broker, topic, len(WHOLE), TRIMMED, cumulative=cumulative) == WHOLE
    eventually(lambda: _backlog(broker, topic) == LEFT - 1)
    assert _view(broker, topic, LEFT - 1) == WHOLE[TRIMMED + 1 :]
    _forget(broker, topic)
