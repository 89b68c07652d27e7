"""The sink's task, without Spark, where a broker refuses entries in the middle: every row, or an error."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Timer
from typing import Any

import pyarrow as pa
import pytest

from spark_pulsar.client.client import PulsarClient
from spark_pulsar.client.clock import monotonic_ms
from spark_pulsar.client.connections.config import ClientConfig
from spark_pulsar.client.errors import MessageTooLarge
from spark_pulsar.connector.effectively_once.attempt import TaskAttempt
from spark_pulsar.connector.effectively_once.outcomes import TaskOutcome
from spark_pulsar.connector.options.parsing import parse_options
from spark_pulsar.connector.options.table import STREAM_WRITE
from spark_pulsar.connector.writing import topic_limits
from spark_pulsar.connector.writing.task_writing import publish
from spark_pulsar.model.errors import MetadataError, NotAllowed, PulsarError, TopicTerminated
from tests.brokers import Broker, topic_path
from tests.conformance.connector.key_pairs import rsa_pair
from tests.conformance.connector.tasks import read, write
from tests.damaging_proxy import DamagingProxy
from tests.eventually import eventually
from tests.raw import entry_bytes

LIMIT_BYTES = 20_000
ROWS = 3_000


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins as a new worker process does."""
    monkeypatch.setattr(topic_limits, "_LEARNED", {})


@pytest.fixture(scope="module")
def deduplicating(broker: Broker) -> str:
    """A namespace whose topics de-duplicate."""
    path = "/admin/v2/namespaces/public/refusals"
    assert broker.rest("PUT", path, {})[0] in (204, 409)
    assert broker.rest("POST", f"{path}/deduplication", True)[0] == 204
    return "public/refusals"


def limit(broker: Broker, topic: str, size: int = LIMIT_BYTES, partition: str = "") -> None:
    """Limits the entries of a topic; returns when the broker acts on it. Leaves one message, a probe."""
    assert broker.rest("PUT", topic_path(topic))[0] in (204, 409)
    assert broker.rest("POST", f"{topic_path(topic)}/maxMessageSize", size) == (204, "")
    raw = broker.raw()
    raw.produce(topic + partition)
    about = {"producer_name": "p", "sequence_id": 0, "publish_time": 1_700_000_000_000}
    numbers = iter(range(1_000_000))

    def is_refused() -> bool:
        raw.send_message(1, next(numbers), b"x" * (size - len(entry_bytes(about, b"")) + 64))
        answer = raw.next_frame(10.0)
        return answer is not None and answer.type == "SEND_ERROR"

    eventually(is_refused, every_s=0.1)
    raw.close()


def rows(count: int = ROWS, **sizes: Any) -> list[pa.RecordBatch]:
    """Rows whose values begin with their numbers and hardly compress."""
    choices = random.Random(count)
    values = [f"{number:06}-{choices.randbytes(sizes.get(str(number), 60)).hex()}" for number in range(count)]
    return [pa.RecordBatch.from_pydict({"value": values, "__key": [f"k{number % 7}" for number in range(count)]})]


def numbers(broker: Broker, topic: str, **options: str) -> list[int]:
    """The numbers of the rows of a topic, in the order of its partitions; probes have none."""
    values = [row["value"] for row in read(broker, topic, "value", **options)]
    return [int(value[:6]) for value in values if not value.startswith(b"x")]


@pytest.mark.parametrize(
    "options",
    [{}, {"compressionType": "ZSTD"}, {"batcherBuilder": "KEY_BASED"}, {"encryptionKeys": "k"}],
    ids=["plain", "compressed", "by key", "encrypted"],
)
def test_batches_follow_a_limit_of_their_topic(
    broker: Broker, deduplicating: str, options: dict[str, str], tmp_path: Path
) -> None:
    # covers SINK-11
    topic = broker.topic("limited").replace("public/default", deduplicating)
    limit(broker, topic)
    opening = {}
    if "encryptionKeys" in options:
        pair = rsa_pair(tmp_path)
        options = options | {"encryptionPublicKeys": str(pair.public)}
        opening = {"encryptionPrivateKeys": str(pair.private)}
    for _ in range(2):
        assert write(broker, topic, rows(), **options) == ROWS
    found = numbers(broker, topic, **opening)
    assert Counter(found) == Counter(dict.fromkeys(range(ROWS), 2))
    if "batcherBuilder" not in options:
        assert found[-ROWS:] == list(range(ROWS))  # the size was known


@pytest.mark.parametrize("compression", ["NONE", "ZSTD"])
def test_each_row_is_stored_once_whatever_is_refused(broker: Broker, deduplicating: str, compression: str) -> None:
    # covers SINK-11, SINK-12
    topic = broker.topic("once").replace("public/default", deduplicating)
    assert broker.rest("PUT", f"{topic_path(topic)}/partitions", 2)[0] == 204
    limit(broker, topic, partition="-partition-0")
    raw = {"service.url": broker.service_url, "topic": topic, "deliveryGuarantee": "effectively-once"}
    options = parse_options(raw | {"compressionType": compression}).for_write(STREAM_WRITE)
    attempt, large = TaskAttempt("spark-pulsar-refusals", 3, 0), rows(**{"1700": 30_000})

    def run() -> None:
        topic_limits._LEARNED.clear()  # a worker process of its own
        with PulsarClient(ClientConfig(broker.service_url)) as client:
            publish(client, options, iter(large), None, TaskOutcome(attempt))

    for _ in range(2):
        with pytest.raises(MessageTooLarge, match="policy maxMessageSize"):
            run()
        assert max(Counter(numbers(broker, topic)).values()) == 1
    assert broker.rest("DELETE", f"{topic_path(topic)}/maxMessageSize")[0] == 204

    def is_written() -> bool:  # Apache Pulsar acts upon policies a little later
        try:
            run()
        except MessageTooLarge:
            return False
        return True

    eventually(is_written)
    run()
    found = numbers(broker, topic)
    assert sorted(found) == list(range(ROWS))
    of_keys = [[number for number in found if number % 7 == key] for key in range(7)]
    assert all(one == sorted(one) for one in of_keys)


def test_a_row_above_the_limit_of_its_topic(broker: Broker, topic: str) -> None:
    # covers SINK-12
    limit(broker, topic)
    large = rows(300, **{"70": 11_000})
    for options in ({}, {"batchingMaxMessages": "1"}):
        with pytest.raises(
            MessageTooLarge, match=rf"{topic}: an entry of 22\d\d\d bytes .* policy maxMessageSize.*set-max"
        ):
            write(broker, topic, large, **options)
        assert set(range(70)) <= set(numbers(broker, topic))
    topic_limits._LEARNED.clear()
    before = len(numbers(broker, topic))
    for _ in range(2):
        write(broker, topic, large, chunkingEnabled="true")
    found = numbers(broker, topic)[before:]
    assert Counter(found) == Counter(dict.fromkeys(range(300), 2))
    assert found[-300:] == list(range(300))


def test_a_delay_above_the_maximum_is_named(broker: Broker, topic: str) -> None:
    # covers SINK-13
    write(broker, topic, rows(1))
    policy = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 5_000}
    assert broker.rest("POST", f"{topic_path(topic)}/delayedDelivery", policy) == (204, "")
    delays: list[int | None] = [None] * 400
    delays[200] = 60_000
    batch = pa.RecordBatch.from_pydict(
        {
            "value": [f"{n:06}" for n in range(400)],
            "__key": ["k"] * 400,
            "__deliverAfterMs": pa.array(delays, pa.int64()),
        }
    )

    def refusal() -> str:  # Apache Pulsar acts upon policies a little later
        try:
            write(broker, topic, [batch], batchingMaxMessages="10")
        except NotAllowed as error:
            return str(error)
        return ""

    text = eventually(refusal)
    assert re.search(r"delivery delay of 5000 milliseconds .*\(policy delayedDelivery of the topic", text)
    assert re.search(r"key 'k', to be delivered (59|60)\d\d\d ms after it is published", text)


@pytest.mark.parametrize("cause", ["terminated", "encryption"])
def test_a_topic_that_accepts_no_more_in_the_middle(broker: Broker, cause: str) -> None:
    # covers SINK-14
    namespace = f"/admin/v2/namespaces/public/{cause}"
    assert broker.rest("PUT", namespace, {})[0] in (204, 409)
    topic = broker.topic("ended").replace("public/default", f"public/{cause}")

    def end() -> None:
        if cause == "terminated":
            assert broker.rest("POST", f"{topic_path(topic)}/terminate")[0] == 200
        else:
            assert broker.rest("POST", f"{namespace}/encryptionRequired", True)[0] == 204

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(2_000):
            if number == 700:
                end()
            yield pa.RecordBatch.from_pydict({"value": [f"{number:06}" + "y" * 100_000]})

    # Apache Pulsar 4.0.8 at times keeps a topic that is terminated while it stores entries fenced until someone unloads
    # it: the publisher tries again and again, and gets the reason then.
    unload = Timer(5.0, lambda: broker.rest("PUT", f"{topic_path(topic)}/unload"))
    started = monotonic_ms()
    if broker.kind == "apache-pulsar":
        unload.start()
    with pytest.raises(TopicTerminated if cause == "terminated" else MetadataError, match=r"(?i)terminated|encrypt"):
        write(broker, topic, batches())
    unload.cancel()
    with pytest.raises(PulsarError, match=r"(?i)terminated|encrypt"):
        write(broker, topic, rows(1))
    assert monotonic_ms() - started < 25_000


@pytest.mark.parametrize("every", [1, 40])
def test_a_flipped_bit_costs_no_row(broker: Broker, deduplicating: str, every: int) -> None:
    # covers SINK-15
    topic = broker.topic("flipped").replace("public/default", deduplicating)
    proxy = DamagingProxy(broker.service_url, lambda sent: sent.number in (0, 5, 50) or sent.number == 51 + every)
    try:
        write(Broker(broker.kind, proxy.url, broker.admin_url), topic, rows(), batchingMaxMessages="20")
    finally:
        proxy.close()
    assert proxy.damaged >= 3
    assert set(numbers(broker, topic)) == set(range(ROWS))


def test_an_entry_that_is_damaged_each_time_is_an_error(broker: Broker, topic: str) -> None:
    # covers SINK-15
    proxy = DamagingProxy(broker.service_url, lambda sent: sent.number >= 20)
    try:
        with pytest.raises(PulsarError, match="changed on its way to the broker"):
            write(
                Broker(broker.kind, proxy.url, broker.admin_url),
                topic,
                rows(),
                batchingMaxMessages="20",
                sendTimeoutMs="2000",
            )
    finally:
        proxy.close()


def test_policies_are_checked_before_a_row_is_sent(broker: Broker, deduplicating: str) -> None:
    # covers SINK-17
    topic, admin = broker.topic("known", partitions=2), {"admin.url": broker.admin_url}
    limit(broker, topic, partition="-partition-0")
    policy = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": 5_000}
    assert broker.rest("POST", f"{topic_path(topic)}/delayedDelivery", policy) == (204, "")
    shown = f"{topic_path(topic)}/delayedDelivery?applied=true"
    eventually(lambda: broker.rest("GET", shown)[1].get("maxDeliveryDelayInMillis") == 5_000)
    for kind, batch in (
        (MessageTooLarge, rows(300, **{"70": 11_000})),
        (
            NotAllowed,
            [pa.RecordBatch.from_pydict({"value": ["000000", "000001"], "__deliverAfterMs": [4_000, 60_000]})],
        ),
    ):
        with pytest.raises(
            kind, match=rf"{topic}: .*(policy maxMessageSize of {LIMIT_BYTES}|delayedDelivery allows 5000)"
        ):
            write(broker, topic, batch, **admin)
    assert numbers(broker, topic) == []
    for options in ({}, {"compressionType": "ZLIB"}, {"chunkingEnabled": "true"}):
        write(broker, topic, rows(), **admin, **options)
        assert topic_limits._LEARNED == {}  # nothing was refused
    assert Counter(numbers(broker, topic)) == Counter(dict.fromkeys(range(ROWS), 3))


def test_policies_that_cannot_be_read_are_a_warning(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    # covers SINK-17
    topic = broker.topic("unknown")
    limit(broker, topic)
    write(broker, topic, rows(), **{"admin.url": "http://127.0.0.1:1"})
    assert "policies are not checked before rows are sent: cannot read http://127.0.0.1:1/admin/v2" in caplog.text
    assert sorted(numbers(broker, topic)) == list(range(ROWS))
