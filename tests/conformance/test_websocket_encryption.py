"""Encrypted messages at WebSockets: a client that has keys of its own gets them as they were stored."""

from __future__ import annotations

import base64
from pathlib import Path

import pulsar
import pytest

from tests import changes
from tests.brokers import Broker, topic_path
from tests.conformance.key_pairs import rsa_pair
from tests.eventually import eventually
from tests.websocket import decoded, opened, path_of

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


def test_a_client_with_keys_gets_what_was_stored(broker: Broker, keys: pulsar.CryptoKeyReader) -> None:
    # covers WS-10
    topic = broker.topic()
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
    broker: Broker, keys: pulsar.CryptoKeyReader, action: str, backlog: int
) -> None:
    # covers WS-10
    topic = broker.topic()
    query = {"cryptoFailureAction": action, "subscriptionType": "Shared"}
    with opened(broker, path_of("consumer", topic, "s", **query)) as consumer:
        _publish(broker, topic, keys)
        message = consumer.receive()
        assert decoded(message) == "plain"
        consumer.send({"messageId": message["messageId"]})
        stats = f"{topic_path(topic)}/stats"
        eventually(lambda: broker.rest("GET", stats)[1]["subscriptions"]["s"]["msgBacklog"] == backlog)
