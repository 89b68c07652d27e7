"""Namespaces whose topics take encrypted messages only."""

from __future__ import annotations

from typing import Any

import pulsar
import pytest

from tests.brokers import Broker, topic_path
from tests.conformance.connector.key_pairs import rsa_pair
from tests.conformance.exchange import EARLIEST, receive, receive_texts, send_all
from tests.conformance.test_namespaces import fresh, reason
from tests.eventually import eventually
from tests.raw import RawConnection

KEYS = {"encryption_keys": [{"key": "k", "value": b"v"}], "encryption_algo": "AES", "encryption_param": b"0" * 12}
REFUSED = "Messages must be encrypted"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> pulsar.CryptoKeyReader:
    """A pair of keys."""
    return pulsar.CryptoKeyReader(*rsa_pair(tmp_path_factory.mktemp("keys")))


@pytest.fixture
def namespace(broker: Broker) -> str:
    """A namespace of the test's own, which requires nothing yet."""
    name = fresh("secret")
    assert broker.rest("PUT", f"/admin/v2/namespaces/public/{name}") == (204, "")
    return name


def require(broker: Broker, namespace: str, required: bool = True) -> None:
    path = f"/admin/v2/namespaces/public/{namespace}/encryptionRequired"
    assert broker.rest("POST", path, required) == (204, "")
    assert broker.rest("GET", path) == (200, required)


def opened(broker: Broker, topic: str, **fields: Any) -> Any:
    """A raw connection with an open producer 1."""
    raw = broker.raw()
    raw.produce(topic, **fields)
    return raw


def test_the_policy_over_rest(broker: Broker, namespace: str) -> None:
    # covers PR-12, ADM-66
    path = f"/admin/v2/namespaces/public/{namespace}/encryptionRequired"
    assert broker.rest("GET", path) == (200, False)
    for sent, found in ((True, True), (False, False), ("true", True), (0, False)):
        assert broker.rest("POST", path, sent) == (204, "")
        assert broker.rest("GET", path) == (200, found)
    assert broker.rest("POST", path)[0] == 400
    assert broker.rest("POST", path, "maybe")[0] == 400
    missing = f"/admin/v2/namespaces/public/{fresh('none')}/encryptionRequired"
    assert reason(broker.rest("GET", missing)) == (404, "Namespace does not exist")
    assert reason(broker.rest("POST", missing, True)) == (404, "Namespace does not exist")


@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_producers_and_messages_that_are_not_encrypted_are_refused(broker: Broker, domain: str) -> None:
    # covers PR-12
    name = fresh("secret")
    assert broker.rest("PUT", f"/admin/v2/namespaces/public/{name}", {"encryption_required": True})[0] == 204
    topic = f"{domain}://public/{name}/t"
    raw = broker.raw()
    raw.request("LOOKUP", topic=topic)
    refused = raw.request("PRODUCER", topic=topic, producer_id=2, initial_subscription_name="s")
    assert (refused["error"], refused["message"]) == ("MetadataError", f"Encryption is required in {topic}")
    raw = opened(broker, topic, encrypted=True)
    raw.send_message(1, 0, b"a", metadata=KEYS)
    raw.send_message(1, 1, b"b")
    raw.send_message(1, 2, b"c", metadata=KEYS)
    error = raw.expect("SEND_ERROR")
    assert (error["sequence_id"], error["error"], error["message"]) == (1, "MetadataError", REFUSED)
    assert [raw.expect("SEND_RECEIPT")["sequence_id"] for _ in range(2)] == [0, 2]


def test_a_refused_producer_leaves_no_subscription(broker: Broker, raw: RawConnection, namespace: str) -> None:
    # covers PR-12, PR-18
    require(broker, namespace)
    topic = f"persistent://public/{namespace}/t"
    assert broker.rest("PUT", topic_path(topic))[0] == 204
    raw.request("LOOKUP", topic=topic)
    answer = raw.request("PRODUCER", topic=topic, producer_id=1, initial_subscription_name="s")
    assert answer.type == "ERROR"
    assert broker.rest("GET", f"{topic_path(topic)}/subscriptions") == (200, [])


def test_producers_that_are_there_when_it_becomes_required(broker: Broker, namespace: str) -> None:
    # covers PR-12
    topic = f"persistent://public/{namespace}/t"
    plain = opened(broker, topic)
    encrypting = broker.raw()
    encrypting.produce(topic, 7, producer_name="e", encrypted=True)
    for raw, producer_id in ((plain, 1), (encrypting, 7)):
        raw.send_message(producer_id, 0, b"before")
        raw.expect("SEND_RECEIPT")
    require(broker, namespace)
    assert plain.expect("CLOSE_PRODUCER")["producer_id"] == 1
    again = plain.request("PRODUCER", topic=topic, producer_id=1, producer_name="p", epoch=1)
    assert (again["error"], again["message"]) == ("MetadataError", f"Encryption is required in {topic}")
    encrypting.send_message(7, 1, b"plain")
    encrypting.send_message(7, 2, b"secret", metadata=KEYS)
    assert encrypting.expect("SEND_ERROR")["sequence_id"] == 1
    assert encrypting.expect("SEND_RECEIPT")["sequence_id"] == 2
    require(broker, namespace, required=False)

    def accepted() -> bool:
        answer = plain.request("PRODUCER", topic=topic, producer_id=1, producer_name="p", epoch=2)
        return answer.type == "PRODUCER_SUCCESS"

    assert eventually(accepted)
    encrypting.send_message(7, 3, b"as before")
    assert encrypting.expect("SEND_RECEIPT")["sequence_id"] == 3


@pytest.mark.parametrize("how", ["single", "batched", "chunked"])
def test_official_clients_that_encrypt(
    broker: Broker, client: pulsar.Client, namespace: str, keys: pulsar.CryptoKeyReader, how: str
) -> None:
    # covers PR-12, CHK-1, A10
    require(broker, namespace)
    topic = f"persistent://public/{namespace}/t"
    consumer = client.subscribe(topic, "s", initial_position=EARLIEST, crypto_key_reader=keys)
    settings = {"batching_enabled": how == "batched", "chunking_enabled": how == "chunked"}
    producer = client.create_producer(topic, encryption_key="k", crypto_key_reader=keys, **settings)
    if how == "chunked":
        value = bytes(range(256)) * 24 * 1024
        producer.send(value)
        assert receive(consumer, 1)[0].data() == value
        assert broker.rest("GET", f"{topic_path(topic)}/internalStats")[1]["entriesAddedCounter"] > 1
    else:
        send_all(producer, ["secret one", "secret two"])
        assert receive_texts(consumer, 2) == ["secret one", "secret two"]
        consume = pulsar.ConsumerCryptoFailureAction.CONSUME
        without = client.subscribe(topic, "w", initial_position=EARLIEST, crypto_failure_action=consume)
        assert b"secret" not in receive(without, 1)[0].data()


def test_an_official_client_that_does_not_encrypt(broker: Broker, namespace: str) -> None:
    # covers PR-12
    require(broker, namespace)
    topic = f"persistent://public/{namespace}/t"
    with pytest.raises(pulsar.PulsarException):  # it asks again and again until its time is over
        broker.client(operation_timeout_seconds=1).create_producer(topic)
    require(broker, namespace, required=False)
    send_all(eventually(lambda: broker.client().create_producer(topic)), ["a"])
