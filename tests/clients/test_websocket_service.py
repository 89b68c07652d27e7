"""Apache Pulsar's own WebSocket service in front of this broker: the same exchange as over the broker's own WebSockets,
and a client cannot tell the two apart."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from spark_pulsar.wire.pulsar_api_pb2 import MessageIdData
from tests.brokers import Broker, topic_path
from tests.clients.websocket_service import websocket_service
from tests.eventually import eventually
from tests.websocket import decoded, encoded, opened, path_of, refused


@pytest.fixture(scope="module")
def service(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The service's URL."""
    with websocket_service(broker, tmp_path_factory.mktemp("websocket-service")) as url:
        yield url


@pytest.fixture(params=["its own", "Apache's"])
def base_url(request: pytest.FixtureRequest, broker: Broker, service: str) -> str:
    """The URL of the broker's WebSockets, and of the service before it."""
    return broker.admin_url if request.param == "its own" else service


def _place(message: Any) -> tuple[int, int, int]:
    """Ledger, entry and place in the batch of a message."""
    data = MessageIdData.FromString(base64.b64decode(message["messageId"]))
    return data.ledgerId, data.entryId, data.batch_index


def _backlog(broker: Broker, topic: str) -> int:
    found: int = broker.rest("GET", f"{topic_path(topic)}/stats")[1]["subscriptions"]["s"]["msgBacklog"]
    return found


@pytest.mark.parametrize("is_batched", [False, True])
def test_messages_go_through_both(broker: Broker, topic: str, base_url: str, is_batched: bool) -> None:
    # covers WS-5, WS-6, WS-10, WS-11
    query = {"batchingEnabled": "true", "batchingMaxPublishDelay": 100, "compressionType": "ZSTD"} if is_batched else {}
    with (
        opened(broker, path_of("consumer", topic, "s"), base_url=base_url) as consumer,
        opened(broker, path_of("producer", topic, **query), base_url=base_url) as producer,
    ):
        for index in range(20):
            message = {"payload": encoded(f"m{index}"), "properties": {"i": str(index)}, "key": "k", "context": "c"}
            producer.send(message)
        answers = [producer.receive() for _ in range(20)]
        assert {(each["result"], each["context"], each["errorCode"]) for each in answers} == {("ok", "c", 0)}
        messages = [consumer.receive() for _ in range(20)]
        assert [decoded(each) for each in messages] == [f"m{index}" for index in range(20)]
        assert [_place(each) for each in messages] == [_place(each) for each in answers]
        assert {each["key"] for each in messages} == {"k"}
        for each in messages:
            consumer.send({"messageId": each["messageId"]})
        eventually(lambda: _backlog(broker, topic) == 0)


def test_one_consumes_what_the_other_publishes(broker: Broker, topic: str, service: str) -> None:
    # covers WS-4, WS-10, WS-14
    for publishing, reading in ((service, broker.admin_url), (broker.admin_url, service)):
        with opened(broker, path_of("producer", topic), base_url=publishing) as producer:
            first = producer.call({"payload": encoded("first")})["messageId"]
            producer.call({"payload": encoded("second"), "eventTime": "2024-01-31T10:00:00.120Z"})
        with opened(broker, path_of("reader", topic, messageId=first), base_url=reading) as reader:
            message = reader.receive()
            assert (decoded(message), message["eventTime"]) == ("second", "2024-01-31T10:00:00.12Z")


def test_messages_come_again_and_end_as_dead_letters(broker: Broker, topic: str, base_url: str) -> None:
    # covers WS-11, WS-13
    query = {"subscriptionType": "Shared", "negativeAckRedeliveryDelay": 100, "maxRedeliverCount": 1}
    with (
        opened(broker, path_of("consumer", f"{topic}-s-DLQ", "letters"), base_url=base_url) as letters,
        opened(broker, path_of("consumer", topic, "s", **query), base_url=base_url) as consumer,
        opened(broker, path_of("producer", topic), base_url=base_url) as producer,
    ):
        producer.call({"payload": encoded("bad"), "properties": {"a": "b"}})
        for count in range(2):
            message = consumer.receive()
            assert message["redeliveryCount"] == count
            consumer.send({"type": "negativeAcknowledge", "messageId": message["messageId"]})
        letter = letters.receive()
        assert decoded(letter) == "bad"
        assert {letter["properties"]["a"], letter["properties"]["REAL_TOPIC"]} == {"b", topic}
        eventually(lambda: _backlog(broker, topic) == 0)


def test_what_is_refused_is_refused_by_both(broker: Broker, topic: str, base_url: str) -> None:
    # covers WS-2, WS-3
    with opened(broker, path_of("consumer", topic, "s"), base_url=base_url):
        assert refused(broker, path_of("consumer", topic, "s"), base_url=base_url)[0] == 409
    missing = "persistent://public/no-such-namespace/t"
    assert refused(broker, path_of("producer", missing), base_url=base_url)[0] == 404
    assert refused(broker, path_of("producer", topic, compressionType="x"), base_url=base_url)[0] == 400
