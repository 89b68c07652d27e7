"""`/metrics` of both brokers: the same names with the same labels; what is left out here has a reason.

`metrics_of_apache_pulsar.json` has the names and labels that Apache Pulsar 4.0.8 showed after publishing, consuming,
compacting and delaying messages, and in transactions, without those of Java.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from docs_tables.metrics_left_out import LEFT_OUT
from prometheus_client.parser import text_string_to_metric_families

from spark_pulsar.admin.metrics.coordinator_metrics import COORDINATOR
from spark_pulsar.admin.metrics.metric_table import BROKER, NAMESPACE, SUBSCRIPTION, TOPIC
from tests.brokers import Broker, topic_path
from tests.conformance.transactions import Transacting
from tests.eventually import eventually

RECORDED: dict[str, list[str]] = json.loads((Path(__file__).parent / "metrics_of_apache_pulsar.json").read_text())
OURS = {metric.name for metric in (*BROKER, *COORDINATOR, *NAMESPACE, *TOPIC, *SUBSCRIPTION)}
ON_OUR_SYSTEM = {name for name in RECORDED if name.startswith("process_")}


def found(broker: Broker) -> dict[str, list[str]]:
    """Labels by name, as a scrape has them. (The parser gives counters their `_total` back.)"""
    status, text = broker.rest("GET", "/metrics/" if broker.kind == "apache-pulsar" else "/metrics")
    assert status == 200
    labels: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if not (sample.name.startswith("pulsar_storage_") and "subscription" in sample.labels):  # a log of its acks
                labels.setdefault(sample.name, set()).update(sample.labels)
    return {name: sorted(each) for name, each in labels.items()}


@pytest.fixture(scope="module")
def used(broker: Broker) -> Broker:
    """The broker after a topic was published to, consumed from and compacted, with transactions too."""
    topic = broker.topic()
    client = broker.client()
    consumer = client.subscribe(topic, "s")
    producer = client.create_producer(topic)
    for number in range(4):
        producer.send(b"x", partition_key=str(number % 2))
        consumer.acknowledge(consumer.receive(30_000))
    assert broker.rest("PUT", f"{topic_path(topic)}/compaction")[0] == 204
    assert eventually(
        lambda: broker.rest("GET", f"{topic_path(topic)}/compaction")[1].get("status") == "SUCCESS", timeout_s=60
    )
    transacting = Transacting(broker)
    transacting.produce(topic)
    transacting.subscribe(topic, name="of-transactions")
    for end in (transacting.commit, transacting.abort):
        transaction = transacting.begin(topic, subscriptions={topic: "of-transactions"})
        position = transacting.send(b"in a transaction", transaction)
        transacting.ack(position, transaction)
        end(transaction)
    return broker


def test_our_metrics_have_the_names_and_labels_of_apache_pulsar(used: Broker) -> None:
    # covers ADM-9, TX-23
    told = found(used)
    names = {name for name in OURS if not name.startswith("spark_pulsar_")}
    assert {name: told.get(name) for name in names} == {name: RECORDED[name] for name in names}


def test_what_is_left_out_has_a_reason() -> None:
    # covers ADM-9
    left_out = RECORDED.keys() - OURS - ON_OUR_SYSTEM
    assert [name for name in left_out if not any(each.has(name) for each in LEFT_OUT)] == []
    assert [name for name in OURS if any(each.has(name) for each in LEFT_OUT)] == []


@pytest.mark.ours_only("ADM-9: names of ours begin with spark_pulsar_")
def test_no_other_names_look_like_those_of_apache_pulsar(used: Broker) -> None:
    # covers ADM-9
    told = found(used)
    others = {name for name in told if not name.startswith(("spark_pulsar_", "process_"))} - OURS
    assert others == set()
    for name in ("process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"):
        assert told.get(name, ["cluster"]) == RECORDED[name]
