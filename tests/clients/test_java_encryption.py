"""Encrypted messages between the official Java client and the connector, with keys of both kinds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.brokers import Broker
from tests.clients.java_client import Java, JavaClient
from tests.conformance.connector.key_pairs import KeyPair, ec_pair, rsa_pair
from tests.conformance.connector.tasks import read, write


@pytest.fixture(scope="module", params=["rsa", "secp521r1", "prime256v1"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> KeyPair:
    """A pair of keys."""
    directory: Path = tmp_path_factory.mktemp("keys")
    return rsa_pair(directory) if request.param == "rsa" else ec_pair(directory, request.param)


def _reader(java: Java, pair: KeyPair) -> Any:
    """The key reader of a Java client."""
    builder = java.jvm.org.apache.pulsar.client.impl.DefaultCryptoKeyReader.builder()
    return builder.defaultPublicKey(f"file://{pair.public}").defaultPrivateKey(f"file://{pair.private}").build()


@pytest.mark.parametrize("how", ["batched", "single", "chunked"])
def test_java_reads_what_the_sink_encrypts(
    broker: Broker, topic: str, java: Java, client: JavaClient, pair: KeyPair, how: str
) -> None:
    # covers READ-13
    settings = {
        "batched": {"compressionType": "ZSTD"},
        "single": {"batchingMaxMessages": "1"},
        "chunked": {"chunkingEnabled": "true", "chunkMaxMessageSize": "3000", "compressionType": "LZ4"},
    }[how]
    values = [*map(str, range(5)), "".join(map(str, range(4_000))), "end"]
    write(
        broker,
        topic,
        [pa.RecordBatch.from_pydict({"value": values, "__key": ["k"] * 7})],
        encryptionKeys="key-1",
        encryptionPublicKeys=pair.public,
        **settings,
    )
    builder = client.client.newReader().topic(topic)
    builder = builder.startMessageId(java.api.MessageId.earliest).cryptoKeyReader(_reader(java, pair))
    reader = builder.create()
    found = []
    while reader.hasMessageAvailable():
        message = reader.readNext(30, java.jvm.java.util.concurrent.TimeUnit.SECONDS)
        assert message is not None
        assert list(message.getEncryptionCtx().get().getKeys()) == ["key-1"]
        found.append((message.getKey(), bytes(message.getData()).decode()))
    reader.close()
    assert found == [("k", value) for value in values]


@pytest.mark.parametrize("how", ["batched", "single", "chunked"])
def test_the_source_reads_what_java_encrypts(
    broker: Broker, topic: str, java: Java, client: JavaClient, pair: KeyPair, how: str
) -> None:
    # covers READ-13
    values = [*map(str, range(5)), "".join(map(str, range(4_000))), "end"]
    builder = client.client.newProducer(java.api.Schema.STRING).topic(topic).cryptoKeyReader(_reader(java, pair))
    builder = builder.addEncryptionKey("key-1").compressionType(java.api.CompressionType.LZ4)
    if how == "chunked":
        builder = builder.enableChunking(True).chunkMaxMessageSize(3_000)
    producer = builder.enableBatching(how == "batched").create()
    for value in values[:-1]:
        producer.newMessage().key("k").value(value).sendAsync()
    producer.newMessage().key("k").value(values[-1]).send()
    producer.close()
    settings = {"encryptionPrivateKeys": pair.private, "useTopicSchema": "false"}
    rows = read(broker, topic, "value", "__key", **settings)
    assert [(row["__key"], row["value"].decode()) for row in rows] == [(b"k", value) for value in values]
