"""Every option of StreamNative's README and of Databricks' page on Pulsar, in jobs that run: each has its effect, or is
named in one line of the log."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_pulsar.client.key_stores import TYPES
from spark_pulsar.connector.options.java_settings import CLIENT, JAVA_SETTINGS, PRODUCER, READER
from spark_pulsar.model.positions.ids import MessageId
from spark_pulsar.wire.entries.entry_bytes import metadata_of
from spark_pulsar.wire.pulsar_api_pb2 import ZSTD
from tests.apache_pulsar.start import free_ports
from tests.conftest import started
from tests.security.certificates import Authority
from tests.security.key_stores import PASSWORD, key_store, trust_store
from tests.spark.flows import BATCHED, Collected, Flows, texts, values

JAVA = "org.apache.pulsar.client.impl.auth."
WITHOUT_EFFECT = [setting.name for setting in JAVA_SETTINGS if not setting.option]


class Log:
    """Standard error of Spark's processes, which went to pytest's own capture when the session was made."""

    def __init__(self, config: pytest.Config) -> None:
        self._capture: Any = config.pluginmanager.getplugin("capturemanager")
        self.text()

    def text(self) -> str:
        """What has come since the last call."""
        return str(self._capture.read_global_capture().err)

    def line_of(self, topic: str) -> str:
        """The one line that names what has no effect in a job on a topic."""
        lines = [line for line in self.text().splitlines() if f"{topic}: options without effect here:" in line]
        assert len(lines) == 1, lines
        return lines[0]


@pytest.fixture
def log(pytestconfig: pytest.Config) -> Log:
    if not pytestconfig.pluginmanager.getplugin("capturemanager").is_globally_capturing():
        pytest.skip("pytest -s keeps nothing of standard error")
    return Log(pytestconfig)


def names_in(line: str, names: list[str]) -> list[str]:
    return [name for name in names if f" {name} (" in line]


def test_settings_without_effect_are_named_once(flows: Flows, log: Log) -> None:
    # covers READ-44
    topic, copy = flows.broker.topic("no-effect"), flows.broker.topic("no-effect-copy")
    flows.send(topic, texts(12), **BATCHED)
    settings = dict.fromkeys(WITHOUT_EFFECT, "1")
    written = {PRODUCER + "compressionType": "LZ4"}
    read = {READER + "readCompacted": "true"}

    frame = flows.batch(topic, maxBytesPerTrigger=9, **settings, **written)
    assert values(frame.collect()) == texts(12)
    line = log.line_of(topic)
    expected = [*WITHOUT_EFFECT, *written, "maxBytesPerTrigger"]
    assert names_in(line, expected) == expected

    frame, sink = flows.stream(topic, endingTime=5, **settings, **read), Collected()
    flows.follow(frame.writeStream.foreachBatch(sink), flows.checkpoint())
    assert sink.all == texts(12)
    expected = [*WITHOUT_EFFECT, *read, "endingTime"]
    assert names_in(log.line_of(topic), expected) == expected

    flows.write(flows.rows("value string", [("a",)]), copy, failOnDataLoss="true", **settings, **read)
    expected = [*WITHOUT_EFFECT, *read, "failOnDataLoss"]
    assert names_in(log.line_of(copy), expected) == expected
    assert [message.data() for message in flows.receive(copy)] == [b"a"]

    streamed = flows.stream(topic, maxMessagesPerTrigger=4).select("value").writeStream.format("pulsar")
    streamed = streamed.options(**{"service.url": flows.broker.service_url, "topic": copy}, **settings)
    query = flows.follow(streamed, flows.checkpoint())
    assert sum(progress["numInputRows"] > 0 for progress in query.recentProgress) == 3
    assert names_in(log.line_of(copy), WITHOUT_EFFECT) == WITHOUT_EFFECT
    assert len(flows.receive(copy)) == 13


def test_settings_of_producers_have_their_effect(flows: Flows) -> None:
    # covers READ-43
    topic, alone = flows.broker.topic("settings"), flows.broker.topic("settings-alone")
    frame = flows.rows("__key string, value string", [(f"k{n % 3}", f"m{n}") for n in range(20)]).coalesce(1)
    settings = {
        "compressionType": "ZSTD",
        "batchingMaxMessages": "4",
        "batchingMaxBytes": "65536",
        "batcherBuilder": "DEFAULT",
        "maxPendingMessages": "8",
        "sendTimeoutMs": "0",
        "messageRoutingMode": "SinglePartition",
        "hashingScheme": "Murmur3_32Hash",
        "chunkingEnabled": "true",
        "chunkMaxMessageSize": "1048576",
        "cryptoFailureAction": "FAIL",
        "properties": '{"team": "flights"}',
    }
    of_client = {"memoryLimitBytes": "1048576", "keepAliveIntervalSeconds": "9", "operationTimeoutMs": "20000"}
    java = {PRODUCER + name: value for name, value in settings.items()}
    flows.write(frame, topic, **java, **{CLIENT + name: value for name, value in of_client.items()})
    entries = entries_of(flows, topic)
    assert [metadata.num_messages_in_batch for metadata in entries] == [4] * 5
    assert {metadata.compression for metadata in entries} == {ZSTD}
    rows = flows.batch(topic, **{READER + "receiverQueueSize": 1, READER + "subscriptionName": "mine"}).collect()
    assert values(rows) == texts(20)

    flows.write(frame, alone, **{PRODUCER + "batchingEnabled": "false"})
    assert len(entries_of(flows, alone)) == 20
    large = "x" * 6_000_000
    flows.write(flows.rows("value string", [(large,)]), alone, **{PRODUCER + "chunkingEnabled": "true"})
    assert large in values(flows.batch(alone, **{READER + "cryptoFailureAction": "FAIL"}).collect())


def entries_of(flows: Flows, topic: str) -> list[Any]:
    """The metadata of each entry of a topic."""
    wire = flows.wire()
    found = []
    with wire.fetch(topic, MessageId(-1, -1), wire.end_positions([topic])[topic]) as fetch:
        for block in fetch:
            places = zip(block.starts, block.ends, strict=True)
            found += [metadata_of(block.buffer, start, end) for start, end in places]
    return found


def test_time_outs_of_the_client_have_their_effect(flows: Flows) -> None:
    # covers READ-43
    (port,) = free_ports(1)
    nobody = {"service.url": f"pulsar://127.0.0.1:{port}", "topic": "t"}
    times = {CLIENT + "operationTimeoutMs": "700", CLIENT + "connectionTimeoutMs": "300"}
    with pytest.raises(Exception, match="700 ms"):
        flows.spark.read.format("pulsar").options(**nobody, **times).load().count()


def test_offsets_of_streamnative_say_where_a_read_starts_and_ends(flows: Flows) -> None:
    # covers OFFSET-26
    topic = flows.broker.topic("bytes", partitions=2)
    parts = [f"{topic}-partition-{number}" for number in range(2)]
    for number, part in enumerate(parts):
        flows.send(part, texts(10, 100 * number), **BATCHED)
    rows = {row["value"].decode(): bytes(row["__messageId"]) for row in flows.batch(topic).collect()}

    def signed(value: str) -> list[int]:
        return [byte - 256 if byte > 127 else byte for byte in rows[value]]

    starts, ends = {parts[0]: signed("m3")}, {parts[0]: signed("m6"), parts[1]: signed("m101")}
    read = flows.batch(topic, startingOffsets=json.dumps(starts), endingOffsets=json.dumps(ends)).collect()
    assert sorted(values(read)) == sorted([*texts(4, 3), *texts(2, 100)])
    frame = flows.stream(topic, startingOffsets=json.dumps(starts))  # the other partition has the default, latest
    assert sorted(row for batch in flows.drain(frame, flows.checkpoint()) for row in values(batch)) == texts(7, 3)
    text = json.dumps({parts[0]: b64encode(rows["m3"]).decode(), parts[1]: b64encode(rows["m101"]).decode()})
    assert sorted(values(flows.batch(topic, startingOffsets=text).collect())) == sorted([*texts(7, 3), *texts(9, 101)])


def test_times_that_no_message_reaches(flows: Flows) -> None:
    # covers OFFSET-2
    topic = flows.broker.topic("iso")
    flows.send(topic, texts(3))
    options = {"startingTime": "2001-01-01T00:00:00Z", "startingOffsetsByTimestampStrategy": "error"}
    assert values(flows.batch(topic, **options).collect()) == texts(3)
    assert flows.batch(topic, startingTime="2901-01-01T00:00:00+01:00").count() == 0
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy = error"):
        flows.batch(topic, **options | {"startingTime": "2901-01-01T00:00:00Z"}).count()


# ---- the page of Databricks


class Databricks:
    """A broker that lets in owners of certificates alone on its port for TLS, and the options of Databricks' page."""

    def __init__(self, flows: Flows, tls_urls: tuple[str, str], authority: Authority, directory: Path) -> None:
        self.flows = flows
        self._tls_urls = tls_urls
        self._authority = authority
        self._directory = directory
        self._files = authority.issue("client.test", common_name="me")
        self._stores: dict[str, tuple[Path, Path]] = {}

    def stores(self, kind: str) -> tuple[Path, Path]:
        """A trust store and a key store of a type."""
        if kind not in self._stores:
            trust = trust_store(kind, self._authority.path, self._directory / f"trust.{kind}")
            self._stores[kind] = trust, key_store(kind, self._files, self._directory / f"key.{kind}")
        return self._stores[kind]

    def options(self, kind: str, **topics: str) -> dict[str, str]:
        """All 22 options of the page but two of the three that name topics, with stores of a type."""
        trust, own = self.stores(kind)
        plugin = f"{JAVA}AuthenticationKeyStoreTls"
        params = f"keyStoreType:{kind},keyStorePath:{own},keyStorePassword:{PASSWORD}"
        service_url, admin_url = self._tls_urls
        return {
            "service.url": service_url,
            **topics,
            "predefinedSubscription": f"tracked-{kind}",
            "subscriptionPrefix": "spark",
            "pollTimeoutMs": "60000",
            "waitingForNonExistedTopic": "true",
            "failOnDataLoss": "true",
            "allowDifferentTopicSchemas": "false",
            "startingTime": "2024-03-01T01:00:00Z",
            "endingTime": "4102444800000",
            "maxBytesPerTrigger": "300",
            "admin.url": admin_url,
            "pulsar.client.useKeyStoreTls": "true",
            "pulsar.client.tlsTrustStoreType": kind,
            "pulsar.client.tlsTrustStorePath": str(trust),
            "pulsar.client.tlsTrustStorePassword": PASSWORD,
            "pulsar.client.authPluginClassName": plugin,
            "pulsar.client.authParams": params,
            "pulsar.admin.authPluginClassName": plugin,
            "pulsar.admin.authParams": params,
        }


@pytest.fixture(scope="module")
def databricks(spark: SparkSession, broker_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databricks]:
    directory = tmp_path_factory.mktemp("databricks")
    authority = Authority(directory / "authority")
    certificate, key = authority.issue("localhost", "127.0.0.1")
    tls_port, https_port = free_ports(2)
    conf = {
        "brokerServicePortTls": tls_port,
        "webServicePortTls": https_port,
        "tlsCertificateFilePath": certificate,
        "tlsKeyFilePath": key,
        "tlsTrustCertsFilePath": authority.path,
        "tlsRequireTrustedClientCertOnConnect": "true",
    }
    urls = f"pulsar+ssl://localhost:{tls_port}", f"https://localhost:{https_port}"
    with started(broker_kind, directory / "data", conf) as broker, Flows(spark, broker, directory) as flows:
        yield Databricks(flows, urls, authority, directory)
        broker.close_since(0)


@pytest.mark.parametrize("kind", [TYPES[0], *(pytest.param(kind, marks=pytest.mark.long) for kind in TYPES[1:])])
def test_all_options_of_the_page_of_databricks(databricks: Databricks, kind: str, log: Log) -> None:
    # covers READ-43, READ-44, SEC-89
    flows = databricks.flows
    page = f"page-{kind.lower()}-{os.urandom(3).hex()}"  # a second try has topics of its own for the pattern
    topic, other = (flows.broker.topic(f"{page}-{name}") for name in ("a", "b"))
    flows.send(topic, texts(20), **BATCHED)
    flows.send(other, texts(10, 50))
    reader = flows.spark.readStream.format("pulsar")
    frame = reader.options(**databricks.options(kind, topics=f"{topic},{other}")).load()
    sink = Collected()
    flows.follow(frame.writeStream.foreachBatch(sink), flows.checkpoint())
    assert sorted(sink.all) == sorted([*texts(20), *texts(10, 50)])
    assert len(sink.batches) > 2
    subscriptions = flows.subscriptions(topic)  # readers come and go
    assert f"tracked-{kind}" in subscriptions
    assert all(name.startswith("spark-") for name in subscriptions - {f"tracked-{kind}"})
    line = log.line_of(other)
    for name in ("endingTime", "pulsar.admin.authPluginClassName", "pulsar.admin.authParams"):
        assert f" {name} (" in line
    assert PASSWORD not in line

    pattern = f"{topic.rpartition('/')[2].rpartition('-a-')[0]}-.*"
    for topics, rows in (
        ({"topic": topic}, texts(20)),
        ({"topicsPattern": f"public/default/{pattern}"}, [*texts(20), *texts(10, 50)]),
    ):
        batch = flows.spark.read.format("pulsar").options(**databricks.options(kind, **topics)).load()
        assert sorted(values(batch.collect())) == sorted(rows)
    written = databricks.options(kind, topic=flows.broker.topic("written"))
    flows.spark.sql("SELECT 'a' AS value").write.format("pulsar").options(**written).mode("append").save()
    assert [message.data() for message in flows.receive(written["topic"])] == [b"a"]

    without = {name: value for name, value in databricks.options(kind, topic=topic).items() if "auth" not in name}
    with pytest.raises(Exception, match="certificate"):
        flows.spark.read.format("pulsar").options(**without).load().count()
