"""Space is really given back: what the rules let go of leaves the disk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest

from spark_pulsar.testing.process import BrokerProcess
from tests.brokers import Broker, topic_path
from tests.eventually import eventually

MIB = 1024 * 1024
NAMESPACE = "/admin/v2/namespaces/public/default"
CONF = {
    "journalMaxSizeMB": 1,
    "managedLedgerMaxEntriesPerLedger": 100,
    "managedLedgerMinLedgerRolloverTimeMinutes": 0,
    "managedLedgerCacheSizeMB": 1,
    "maxUnackedMessagesPerConsumer": 0,
    "retentionCheckIntervalInSeconds": 1,
}
# What is there always: the journal's segments and spares, the checkpoint's database, the open ledger.
ALWAYS_BYTES = 6 * MIB
ENTRY_BYTES = 20_000
ENTRIES = 1_000


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def broker(data_dir: Path) -> Iterator[Broker]:
    with BrokerProcess(data_dir, CONF) as process:
        broker = Broker("ours", process.service_url, process.admin_url, process)
        yield broker
        broker.close_since(0)


def used_bytes(directory: Path) -> int:
    """Bytes that the files really take on the disk."""
    total = 0
    for path in directory.rglob("*"):
        try:
            total += path.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


def fill(broker: Broker, topic: str, entries: int = ENTRIES) -> None:
    producer = broker.client().create_producer(topic, max_pending_messages=500, block_if_queue_full=True)
    for number in range(entries):
        producer.send_async(str(number).encode().ljust(ENTRY_BYTES), lambda result, _: None)
    producer.flush()


def retain(broker: Broker, minutes: int, megabytes: int) -> None:
    body = {"retentionTimeInMinutes": minutes, "retentionSizeInMB": megabytes}
    assert broker.rest("POST", f"{NAMESPACE}/retention", body)[0] == 204


def test_what_a_subscription_consumed_leaves_the_disk(broker: Broker, data_dir: Path) -> None:
    # covers TRIM-1
    topic = broker.topic()
    consumer = broker.client().subscribe(topic, "s", initial_position=pulsar.InitialPosition.Earliest)
    fill(broker, topic)
    assert eventually(lambda: used_bytes(data_dir) > 15 * MIB)
    for _ in range(ENTRIES):
        consumer.acknowledge(consumer.receive(timeout_millis=30_000))
    assert eventually(lambda: used_bytes(data_dir) < ALWAYS_BYTES, 60)


def test_what_retention_lets_go_of_leaves_the_disk(broker: Broker, data_dir: Path) -> None:
    # covers RET-1, TRIM-1
    topic = broker.topic()
    retain(broker, -1, -1)
    fill(broker, topic)
    assert eventually(lambda: used_bytes(data_dir) > 15 * MIB)
    retain(broker, -1, 10)

    def stats() -> dict[str, Any]:
        return dict(broker.rest("GET", f"{topic_path(topic)}/internalStats")[1])

    assert eventually(lambda: stats()["totalSize"] < 13 * MIB, 60)
    assert eventually(lambda: used_bytes(data_dir) < 10 * MIB + 2 * MIB + ALWAYS_BYTES, 60)
    assert stats()["totalSize"] >= 10 * MIB
    assert {ledger["entries"] for ledger in stats()["ledgers"]} <= {0, 100}  # however many of them came at once
    retain(broker, 0, 0)
    assert eventually(lambda: used_bytes(data_dir) < ALWAYS_BYTES, 60)


def test_a_dead_subscription_evicted_by_its_quota_frees_the_disk(broker: Broker, data_dir: Path) -> None:
    # covers BQ-6, BQ-11
    topic = broker.topic()
    broker.client().subscribe(topic, "dead").close()
    body = {"limitSize": 4 * MIB, "limitTime": -1, "policy": "consumer_backlog_eviction"}
    assert broker.rest("POST", f"{NAMESPACE}/backlogQuota", body)[0] == 204
    fill(broker, topic, 2 * ENTRIES)
    assert eventually(lambda: used_bytes(data_dir) < 4 * MIB + 2 * MIB + ALWAYS_BYTES, 60)
