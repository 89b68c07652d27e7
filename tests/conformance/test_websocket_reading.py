"""WebSockets that read, on both brokers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers import Broker, topic_path
from tests.eventually import eventually
from tests.websocket import WebSocket, decoded, opened, path_of, refused


def _filled(broker: Broker, topic: str, count: int = 5, **settings: Any) -> None:
    producer = broker.client().create_producer(topic, **settings)
    for index in range(count):
        producer.send_async(f"m{index}".encode(), lambda *_: None)
    producer.flush()
    producer.close()


def _texts(reader: WebSocket, count: int) -> list[str]:
    return [decoded(reader.receive()) for _ in range(count)]


@pytest.mark.parametrize("is_batched", [False, True])
def test_a_reader_begins_where_it_is_told(broker: Broker, is_batched: bool) -> None:
    # covers WS-14
    topic = broker.topic()
    _filled(
        broker, topic, batching_enabled=is_batched, **({"batching_max_publish_delay_ms": 500} if is_batched else {})
    )
    with opened(broker, path_of("reader", topic, messageId="earliest")) as reader:
        messages = [reader.receive() for _ in range(5)]
        assert [decoded(each) for each in messages] == [f"m{index}" for index in range(5)]
    with opened(broker, path_of("reader", topic, messageId=messages[2]["messageId"])) as reader:
        assert _texts(reader, 2) == ["m3", "m4"]
    with (
        opened(broker, path_of("reader", topic)) as latest,
        opened(broker, path_of("reader", topic, messageId="latest")) as again,
    ):
        _filled(broker, topic, 1)
        assert _texts(latest, 1) == _texts(again, 1) == ["m0"]


def test_a_reader_has_no_subscription_that_stays(broker: Broker) -> None:
    # covers WS-14
    topic = broker.topic()
    stats = f"{topic_path(topic)}/stats"
    with opened(broker, path_of("reader", topic, readerName="mine")):
        (found,) = broker.rest("GET", stats)[1]["subscriptions"].values()
        assert (found["isDurable"], found["consumers"][0]["consumerName"]) == (False, "mine")
    eventually(lambda: broker.rest("GET", stats)[1]["subscriptions"] == {})


def test_no_more_than_the_queue_is_sent_without_acknowledgements(broker: Broker) -> None:
    # covers WS-12, WS-14
    topic = broker.topic()
    _filled(broker, topic, batching_enabled=False)
    with opened(broker, path_of("reader", topic, messageId="earliest", receiverQueueSize=2)) as reader:
        messages = [reader.receive() for _ in range(2)]
        reader.receive_nothing()
        for each in messages:
            reader.send({"messageId": each["messageId"]})
        assert _texts(reader, 2) == ["m2", "m3"]
        reader.receive_nothing()
        reader.send({"type": "isEndOfTopic"})
        assert reader.receive() == {"endOfTopic": False}


def test_partitions_are_read_together(broker: Broker) -> None:
    # covers WS-14
    topic = broker.topic(partitions=2)
    _filled(broker, topic, 10, batching_enabled=False)
    with opened(broker, path_of("reader", topic, messageId="earliest")) as reader:
        assert sorted(_texts(reader, 10)) == sorted(f"m{index}" for index in range(10))


@pytest.mark.ours_only("WS-14")
@pytest.mark.parametrize("query", [{"messageId": "bad"}, {"messageId": "!!"}, {"receiverQueueSize": "x"}])
def test_a_parameter_that_does_not_fit_is_refused(broker: Broker, query: dict[str, str]) -> None:
    # covers WS-3
    assert refused(broker, path_of("reader", broker.topic(), **query))[0] == 400
