"""WebSockets that read, on both brokers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker
from tests.conformance.connector.key_pairs import rsa_pair
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
def test_a_reader_begins_where_it_is_told(broker: Broker, topic: str, is_batched: bool) -> None:
    # covers WS-14
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


def test_a_reader_has_no_subscription_that_stays(broker: Broker, topic: str) -> None:
    # covers WS-14
    with opened(broker, path_of("reader", topic, readerName="mine")):
        (found,) = broker.stats(topic)["subscriptions"].values()
        assert (found["isDurable"], found["consumers"][0]["consumerName"]) == (False, "mine")
    eventually(lambda: broker.stats(topic)["subscriptions"] == {})


def test_no_more_than_the_queue_is_sent_without_acknowledgements(broker: Broker, topic: str) -> None:
    # covers WS-12, WS-14
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


# ---- encrypted messages


PLAIN = b"a secret of tests " * 10


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    """A pair of keys."""
    directory: Path = tmp_path_factory.mktemp("websocket-keys")
    return pulsar.CryptoKeyReader(*rsa_pair(directory))


def _publish(broker: Broker, topic: str, keys: pulsar.CryptoKeyReader) -> None:
    """An encrypted message, and one that is not."""
    client = broker.client()
    settings = {"encryption_key": "mine", "crypto_key_reader": keys}
    for more in (settings, {}):
        producer = client.create_producer(topic, batching_enabled=False, **more)
        producer.send(PLAIN if more else b"plain", properties={"a": "b"})
        producer.close()


def test_a_client_with_keys_gets_what_was_stored(broker: Broker, topic: str, keys: pulsar.CryptoKeyReader) -> None:
    # covers WS-10
    with opened(broker, path_of("consumer", topic, "s", cryptoFailureAction="CONSUME")) as consumer:
        _publish(broker, topic, keys)
        sealed, plain = consumer.receive(), consumer.receive()
    assert decoded(plain) == "plain"
    assert "encryptionContext" not in plain
    assert base64.b64decode(sealed["payload"]) != PLAIN
    assert sealed["properties"] == {"a": "b"}
    context = sealed["encryptionContext"]
    assert len(base64.b64decode(context["keys"]["mine"]["keyValue"])) == 256
    newer = {"encrypted": True} if broker.has(changes.ENCRYPTED_IS_MEMBER) else {}
    assert {name: context[name] for name in context if name not in ("keys", "param")} == {
        "compressionType": "NONE",
        "uncompressedMessageSize": 0,
        "batchSize": None,
        **newer,
    }
    assert len(base64.b64decode(context["param"])) == 12


@pytest.mark.parametrize(("action", "backlog"), [("FAIL", 1), ("DISCARD", 0)])
def test_a_client_without_keys_gets_no_encrypted_message(
    broker: Broker, topic: str, keys: pulsar.CryptoKeyReader, action: str, backlog: int
) -> None:
    # covers WS-10
    query = {"cryptoFailureAction": action, "subscriptionType": "Shared"}
    with opened(broker, path_of("consumer", topic, "s", **query)) as consumer:
        _publish(broker, topic, keys)
        message = consumer.receive()
        assert decoded(message) == "plain"
        consumer.send({"messageId": message["messageId"]})
        eventually(lambda: broker.backlog(topic) == backlog)
