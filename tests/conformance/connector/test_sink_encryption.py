"""Encrypted messages between the official Python client and the connector's tasks, and what cannot be decrypted."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pulsar
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spark_pulsar.client.encryption.data_keys import load_private_key, unseal
from spark_pulsar.client.errors import EncryptionKeyError
from spark_pulsar.connector.errors import UnreadableMessageError
from spark_pulsar.wire.entries.compression import decompress
from spark_pulsar.wire.pulsar_api_pb2 import ZSTD
from tests.brokers import Broker
from tests.conformance.connector.key_pairs import KeyPair, rsa_pair
from tests.conformance.connector.tasks import read, write

VALUES = [*map(str, range(5)), "".join(map(str, range(4_000))), "end"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """A pair of keys."""
    return rsa_pair(tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """Another pair of keys."""
    return rsa_pair(tmp_path_factory.mktemp("keys"))


def rows(values: list[str]) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"value": values, "__key": ["k"] * len(values)})]


def received(broker: Broker, topic: str, pair: KeyPair) -> list[str]:
    """All messages of a topic, as the official client decrypts them."""
    keys = pulsar.CryptoKeyReader(pair.public, pair.private)
    reader = broker.client().create_reader(topic, pulsar.MessageId.earliest, crypto_key_reader=keys)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(30_000).data().decode())
    return found


def send(broker: Broker, topic: str, pair: KeyPair, values: list[str], how: str = "batched") -> None:
    producer = broker.client().create_producer(
        topic,
        encryption_key="k",
        crypto_key_reader=pulsar.CryptoKeyReader(pair.public, pair.private),
        compression_type=pulsar.CompressionType.ZSTD,
        batching_enabled=how == "batched",
        batching_max_publish_delay_ms=60_000,
        chunking_enabled=how == "chunked",
    )
    for value in values:
        producer.send_async(value.encode(), None, partition_key="k", properties={"p": value[:9]})
    producer.flush()
    producer.close()


def by_hand(row: dict[str, Any], pair: KeyPair) -> bytes:
    """What a row that was read as it is stored holds, before compression."""
    context = json.loads(row["__encryptionContext"])
    sealed = base64.b64decode(context["keys"]["k"]["keyValue"])
    cipher = AESGCM(unseal(load_private_key(pair.private), sealed))
    data = cipher.decrypt(base64.b64decode(context["param"]), row["value"], None)
    assert (context["batchSize"], context["compressionType"]) == (2, "ZSTD")
    return bytes(decompress(ZSTD, data, context["uncompressedMessageSize"]))


def texts(found: list[dict[str, object]]) -> list[str]:
    return [bytes(row["value"]).decode() for row in found]  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "settings",
    [
        {"compressionType": "ZLIB"},
        {"batchingMaxMessages": "1"},
        {"chunkingEnabled": "true", "chunkMaxMessageSize": "3000"},
    ],
    ids=["batched", "single", "chunked"],
)
def test_holders_of_any_private_key_read_what_the_sink_encrypts(
    broker: Broker, topic: str, pair: KeyPair, other: KeyPair, settings: dict[str, str]
) -> None:
    # covers READ-13
    places = f'{{"a": "{pair.public}", "b": "file://{other.public}"}}'
    write(broker, topic, rows(VALUES), encryptionKeys="a, b", encryptionPublicKeys=places, **settings)
    assert received(broker, topic, other) == received(broker, topic, pair) == VALUES
    for places in (pair.private, f'{{"b": "file://{other.private}"}}', f'{{"a": "{pair.private}", "c": "/none"}}'):
        assert texts(read(broker, topic, "value", encryptionPrivateKeys=places)) == VALUES


@pytest.mark.parametrize("how", ["batched", "single", "chunked"])
def test_the_source_reads_what_the_official_client_encrypts(broker: Broker, pair: KeyPair, how: str) -> None:
    # covers READ-13
    topic = broker.topic("encrypted")
    values = VALUES if how != "chunked" else ["".join(map(chr, range(33, 127))) * 130_000, "end"]
    write(broker, topic, rows(["plain"]))
    send(broker, topic, pair, values, how)
    found = read(broker, topic, "value", "__key", "__messageProperties", encryptionPrivateKeys=pair.private)
    assert texts(found) == ["plain", *values]
    assert {row["__key"] for row in found} == {b"k"}
    assert [row["__messageProperties"] for row in found[1:]] == [[("p", value[:9])] for value in values]


def test_messages_that_cannot_be_decrypted(
    broker: Broker, topic: str, pair: KeyPair, other: KeyPair, caplog: pytest.LogCaptureFixture
) -> None:
    # covers READ-14
    send(broker, topic, pair, ["a", "b"])
    write(broker, topic, rows(["plain"]))
    send(broker, topic, other, ["c"], "single")
    names = ("value", "__key", "__batchIndex", "__messageProperties", "__encryptionContext")
    with pytest.raises(UnreadableMessageError, match="encrypted for 'k', and there is no option encryptionPrivateKeys"):
        read(broker, topic, *names)
    keys = {"encryptionPrivateKeys": other.private}
    with pytest.raises(UnreadableMessageError, match=r"private key for 'k' is not the one .* cryptoFailureAction"):
        read(broker, topic, *names, **keys)
    with caplog.at_level(logging.WARNING, "spark_pulsar"):
        assert texts(read(broker, topic, *names, cryptoFailureAction="DISCARD", **keys)) == ["plain", "c"]
    assert "2 messages so far cannot be decrypted" in caplog.text
    first, *rest = read(broker, topic, *names, cryptoFailureAction="CONSUME", **keys)
    assert texts(rest) == ["plain", "c"]
    assert first["__batchIndex"] is None
    assert first["__key"] == b"k"
    assert [row["__encryptionContext"] is None for row in rest] == [True, False]
    assert by_hand(first, pair).endswith(b"b")
    assert len(read(broker, topic, *names, cryptoFailureAction="CONSUME")) == 3
    with pytest.raises(EncryptionKeyError, match="/none: No such file"):
        read(broker, topic, *names, cryptoFailureAction="DISCARD", encryptionPrivateKeys="/none")


def test_a_public_key_that_cannot_be_used(broker: Broker, topic: str, pair: KeyPair, tmp_path: Path) -> None:
    # covers SINK-9
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    for place in ("/none", str(empty)):
        settings = {"encryptionKeys": "k", "encryptionPublicKeys": place}
        with pytest.raises(EncryptionKeyError, match=place):
            write(broker, topic, rows(["a"]), **settings)
        write(broker, topic, rows(["b"]), cryptoFailureAction="SEND", **settings)
    assert texts(read(broker, topic, "value")) == ["b", "b"]
