"""`/metrics` of both brokers: the same names with the same labels; what is left out here has a reason.

`metrics_of_apache_pulsar.json` has the names and labels that Apache Pulsar 4.0.8 showed after publishing, consuming,
compacting and delaying messages, and in transactions, without those of Java.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from docs_tables.metrics_left_out import LEFT_OUT
from prometheus_client.parser import text_string_to_metric_families

from spark_pulsar.admin.metrics.coordinator_metrics import COORDINATOR
from spark_pulsar.admin.metrics.metric_table import BROKER, NAMESPACE, SUBSCRIPTION, TOPIC
from tests.brokers import Broker, topic_path
from tests.conformance.transactions.transacting import Transacting
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


# ---- the files for Grafana and Prometheus


CONF = Path(__file__).parents[2] / "conf"
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? \S+$")
LABEL = re.compile(r'(\w+)="')
SELECTOR = re.compile(r"([a-z]\w*)(?:\{([^{}]*)\})?")
WORDS = {"sum", "rate", "by", "topk", "max", "and", "absent", "changes", "deriv", "increase", "label_values"}
OF_PROMETHEUS = {"job", "instance"}
"""Labels that Prometheus adds."""

Series = dict[str, set[str]]
"""Labels of each metric."""


@pytest.fixture(scope="module")
def series(broker: Broker) -> Series:
    if broker.kind != "ours":
        pytest.skip("the files are for this broker: the metrics of its disk and of damage are ours")
    topic = broker.topic("monitored")
    client = broker.client()
    consumer = client.subscribe(topic, "s")
    client.create_producer(topic).send(b"x")
    consumer.receive(10_000)
    with urllib.request.urlopen(f"{broker.admin_url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found: Series = {}
    for line in text.splitlines():
        sample = None if line.startswith("#") else SAMPLE.match(line)
        if sample is not None and (topic in line or "topic=" not in line):
            found.setdefault(sample[1], set()).update(LABEL.findall(sample[2] or ""))
    return found


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONF / "grafana-dashboard.json").read_text())
    return found


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((CONF / "prometheus-alerts.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def questions() -> Iterator[tuple[str, str]]:
    """Expressions, each with the text that shows its labels."""
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["definition"], ""
    for rule in rules():
        yield rule["expr"], json.dumps(rule["annotations"])


def selectors(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Metrics of an expression, with the labels that they are chosen by."""
    plain = re.sub(r"\[[^\]]*\]", "", re.sub(r'"[^"]*"', '""', expression))
    grouped = re.findall(r"by \(([^)]*)\)", plain) + re.findall(r"label_values\(.*, (\w+)\)", plain)
    bare = re.sub(r"by \([^)]*\)", "", re.sub(r"label_values\((.*), \w+\)", r"\1", plain))
    labels = {name.strip() for part in grouped for name in part.split(",")}
    for name, chosen in SELECTOR.findall(bare):
        if name not in WORDS:
            yield name, labels | {each.partition("=")[0].strip("~! ") for each in chosen.split(",") if each}


@pytest.mark.parametrize(("expression", "shown"), list(questions()))
def test_metrics_and_labels_exist(series: Series, expression: str, shown: str) -> None:
    found = list(selectors(expression))
    assert found, expression
    for name, labels in found:
        assert name in series, f"{name} in {expression}"
        assert labels <= series[name] | OF_PROMETHEUS, f"{name} in {expression}"
    first = series[found[0][0]] | OF_PROMETHEUS
    assert set(re.findall(r"\{\{ ?(?:\$labels\.)?(\w+) ?\}\}", shown)) <= first, shown


def test_the_files_have_the_form_that_is_asked_for() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert dashboard()["schemaVersion"] >= 38, "Grafana 10"
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
        assert rule["annotations"]["summary"]
